#!/usr/bin/env bash
# man_page_test.sh PCRFS PAGE: the manual page is well formed, and it and --help name the same commands and long options.
set -euo pipefail
pcrfs=$1 page=$2

complaints=$(man --warnings=w -l "$page" 2>&1 >/dev/null)
if [[ -n $complaints ]]; then
  echo "$complaints"
  exit 1
fi

long_options() { grep -oE -e '--[a-z][a-z-]*[a-z]' | LC_ALL=C sort -u; }
plain_page=$(MANWIDTH=200 man -l "$page")
commands=$(grep -oE '^ +pcrfs [a-z-]+ [[A-Z]' <<<"$plain_page" | awk '{ print $2 }' | sort -u)
in_help=$("$pcrfs" --help | sed -n '/^Subcommands:/,/^[^ ]/s/^  \([a-z-]*\) .*/\1/p' | sort -u)
diff <(echo "$commands") <(echo "$in_help") || { echo "the page and --help name other commands"; exit 1; }

options_in_help=$(for command in $in_help; do "$pcrfs" "$command" --help; done | long_options)
# --help and --version need no manual; -f has a long form that only --help names; --sort is tar's.
diff <(long_options <<<"$plain_page" | grep -vx -e --sort) <(grep -vx -e --help -e --version -e --foreground <<<"$options_in_help") ||
  { echo "the page and --help name other options"; exit 1; }
