#!/usr/bin/python3
"""Reads a PCR record as its published description has it: no index, no pcrfs.

    record  = MetadataRecord, then progressive_levels times ScanGroup, one behind the other
    ScanGroup = one fragment an image: 0a, length as a varint, bytes
    image at level k = its fragments 1..k, then ff d9

    independent_reader.py RECORD LEVEL           prints position, label, size and SHA-256 of each image
    independent_reader.py RECORD LEVEL FOLDER    also writes them as FOLDER/<position>.jpg
"""
import hashlib
import os
import sys


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def signed(value):
    return value - (1 << 64) if value >> 63 else value


def metadata(data):
    """Labels, number of levels, and where the first group begins."""
    labels, levels, at = [], 0, 0
    while at < len(data):
        if at > 0 and data[at] == 0x0A:  # labels in one run stand first, so this is the first fragment
            break
        tag, at = varint(data, at)
        if tag & 7 == 0:
            value, at = varint(data, at)
            if tag >> 3 == 1:
                labels.append(signed(value))
            elif tag >> 3 == 2:
                levels = value
            elif tag >> 3 == 3 and value == 2:
                raise ValueError("version 2 cannot be read without its index")
        elif tag & 7 == 2:
            size, at = varint(data, at)
            end = at + size
            while tag >> 3 == 1 and at < end:
                value, at = varint(data, at)
                labels.append(signed(value))
            at = end
        else:
            raise ValueError(f"field {tag >> 3} of wire type {tag & 7}")
    return labels, levels, at


def read_record(data):
    """Labels, fragments[group][image], and the sizes of the parts."""
    labels, levels, at = metadata(data)
    sizes, groups = [at], []
    for _ in range(levels):
        start, group = at, []
        for _ in labels:
            if data[at] != 0x0A:
                raise ValueError(f"no fragment at offset {at}")
            size, at = varint(data, at + 1)
            if at + size > len(data):
                raise ValueError(f"a fragment reaches past the end of the file: {at} + {size}")
            group.append(data[at:at + size])
            at += size
        groups.append(group)
        sizes.append(at - start)
    return labels, groups, sizes


def image(groups, position, level):
    return b"".join(group[position] for group in groups[:level]) + b"\xff\xd9"


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    with open(sys.argv[1], "rb") as file:
        labels, groups, _ = read_record(file.read())
    for position, label in enumerate(labels):
        jpeg = image(groups, position, int(sys.argv[2]))
        print(position, label, len(jpeg), hashlib.sha256(jpeg).hexdigest())
        if len(sys.argv) == 4:
            with open(os.path.join(sys.argv[3], f"{position}.jpg"), "wb") as out:
                out.write(jpeg)


if __name__ == "__main__":
    main()
