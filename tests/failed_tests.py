#!/usr/bin/env python3
"""failed_tests.py LOG JUNIT LINES: each failed test of a ctest run, how it failed, and the last LINES lines of its output.

LOG is what `ctest --output-log` wrote, whose end lists the failed tests; JUNIT has the outputs (`ctest --output-junit`).
"""
import re
import sys
import xml.etree.ElementTree as ElementTree


def failed_tests(path):
    """(name, reason) of each line '  5 - name (Timeout)' in ctest's list of what failed."""
    with open(path, encoding='utf-8', errors='replace') as file:
        listed = file.read().rpartition('\nThe following tests FAILED:\n')[2].partition('\n\n')[0]
    return re.findall(r'^\s*\d+ - (.*) \((.*)\)$', listed, re.MULTILINE)


def main():
    log, junit, lines = sys.argv[1], sys.argv[2], int(sys.argv[3])
    cases = {case.get('name'): case for case in ElementTree.parse(junit).getroot().iter('testcase')}
    for name, reason in failed_tests(log):
        case = cases[name]
        print(f'--- failed: {name} ({reason} after {float(case.get("time") or 0):.1f} s)')
        output = (case.findtext('system-out') or '').rstrip().split('\n')
        if len(output) > lines:
            print(f'({len(output) - lines} lines before these)')
        print('\n'.join(output[-lines:]))


if __name__ == '__main__':
    main()
