#!/usr/bin/python3
"""format/FORMAT.md and format/proto/*.proto must define the same messages: label, name, number and packing of each
field. (Types may differ where the encoding does not: the text says string where a reader takes bytes.)

    format_text_test.py FORMAT_FOLDER
"""
import os
import re
import sys


def messages(text):
    found = {}
    for name, body in re.findall(r"^ *message (\w+) \{(.*?)^ *\}", text, re.M | re.S):
        found[name] = re.findall(r"(optional|repeated|required) \w+ (\w+) = (\d+)( \[packed)?", body)
        assert found[name], name
    return found


def read(*parts):
    with open(os.path.join(sys.argv[1], *parts), encoding="utf-8") as file:
        return messages(file.read())


def main():
    text, ours, published = read("FORMAT.md"), read("proto", "pcrfs.proto"), read("proto", "published.proto")
    assert text.pop("ScanGroup") == published["ScanGroup"]  # framed by hand, so not in pcrfs.proto
    assert text == ours, sorted(set(map(repr, text.items())) ^ set(map(repr, ours.items())))
    for name, fields in published.items():
        known = {(field, number) for _, field, number, _ in text.get(name, [])}
        for label, field, number, _ in fields:
            assert name == "ScanGroup" or field == "examples" or (field, number) in known, (name, label, field)
    print(f"{len(text) + 1} messages agree")


if __name__ == "__main__":
    main()
