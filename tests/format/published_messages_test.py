#!/usr/bin/python3
"""A data set of ours, taken for a published one: every part parses with `protoc --decode` against published.proto, and
sizes, counts and a walk without the index agree.

    published_messages_test.py PROTOC FOLDER_OF_PUBLISHED_PROTO DATASET
"""
import os
import re
import subprocess
import sys

from independent_reader import read_record

PROTOC, PROTO_FOLDER, DATASET = sys.argv[1:4]


def decode(message, data):
    run = subprocess.run([PROTOC, f"-I{PROTO_FOLDER}", f"--decode=pcr_published.{message}", "published.proto"],
                         input=data, capture_output=True, check=False)
    # protoc ends with 0 even where a required field is missing, but says so.
    assert run.returncode == 0 and not run.stderr, (message, run.stderr)
    return run.stdout.decode()


def values(text, field):
    return re.findall(rf"^{field}: (.*)$", text, re.M)


def check_record(path, sizes):
    with open(path, "rb") as file:
        data = file.read()
    assert sum(sizes) <= len(data) and sum(sizes) < 2**31, sizes
    labels, groups, walked = read_record(data)
    assert walked == sizes, (walked, sizes)

    text = decode("MetadataRecord", data[:sizes[0]])
    assert [int(label) for label in values(text, "labels")] == labels, text
    assert values(text, "progressive_levels") == ["10"] and values(text, "version") == ["1"], text
    at = sizes[0]
    for group, size in zip(groups, sizes[1:]):
        fragments = values(decode("ScanGroup", data[at:at + size]), "image_bytes")
        assert len(fragments) == len(labels) == len(group), (path, at)
        at += size
    assert len(labels) >= 1 and all(fragment.startswith(b"\xff\xd8") for fragment in groups[0])


def main():
    with open(os.path.join(DATASET, "PCR_index.pb"), "rb") as file:
        text = decode("DatasetOffsetsIndex", file.read())
    rows = {}
    for row in re.findall(r"^records \{\n(.*?)^\}", text, re.M | re.S):
        row = re.sub(r"^  ", "", row, flags=re.M)
        (name,) = values(row, "name")
        rows[name.strip('"')] = [int(size) for size in values(row, "offsets")]
    for name, sizes in rows.items():
        assert len(sizes) == 11, (name, sizes)
        if name.endswith(".pcr"):
            check_record(os.path.join(DATASET, name), sizes)
        else:
            assert sum(sizes[1:]) == 0, (name, sizes)
    # A reader that lists *.pcr dies of one without a row.
    assert {name for name in os.listdir(DATASET) if name.endswith(".pcr")} <= rows.keys()
    print(f"{len(rows)} shards read as published ones")


if __name__ == "__main__":
    main()
