#!/usr/bin/env bash
# layering_test.sh [ROOT | --self-test]: does every file keep to the arrows of ARCHITECTURE ("Folders and arrows")?
#
#   * a folder includes only the folders its arrows point at, and names our headers from the top (`format/bytes.h`);
#   * each third-party header stays where it belongs (the rules below);
#   * nothing below mount/ prints or logs;
#   * every header opens with a comment that says what it is;
#   * no file names a place that exists on one machine only.
# Prints a line per fault and exits 1 when there is one. --self-test plants each fault in a scratch tree and checks that
# it is found. A new arrow is a change of ARCHITECTURE's decision: change the README's map with it, and say why.
set -euo pipefail

# folder: what its #include "..." may begin with
declare -A arrows=(
  [format]="format"
  [cache]="cache format"
  [fs]="fs cache format"
  [mount]="mount fs cache format"
  [tests]="tests mount fs cache format"
  [examples]="format"
)

# header (regular expression) | files that may include it (regular expression)
third_party=(
  'jpeglib\.h|jerror\.h|jmorecfg\.h   ^(format/libjpeg\.|tests/|examples/)'
  'lmdb\.h                            ^(cache/|tests/cache/)'
  'fuse.*\.h                          ^(mount/|tests/mount/)'
  'linux/fuse\.h                      ^(mount/|tests/mount/)'
  'spdlog/.*|CLI/.*                   ^(mount/|tests/mount/)'
  'nlohmann/.*                        ^(mount/|tests/)'
  'google/protobuf/.*                 ^(format/|tests/)'
  'openssl/.*|libdeflate\.h           ^format/checksum\.'
  '(oneapi/)?tbb(/.*|\.h)             ^(format/|tests/)'
  'archive(_entry)?\.h                ^(format/archive_reader\.|tests/)'
  'zlib\.h                            ^(format/gzip_stream\.|tests/)'
  'gtest/.*|gmock/.*                  ^tests/'
)

fault() { echo "$1"; }

source_files() {  # of the folders given, relative to the tree's root
  find "$@" -name build -prune -o -type f \( -name '*.h' -o -name '*.cc' \) -print 2>/dev/null | LC_ALL=C sort
}

check_include() {  # FILE LINE INCLUDED, where INCLUDED is "..." or <...>
  local file=$1 line=$2 included=$3
  local folder=${file%%/*} name=${included:1:-1} rule header where
  if [[ $included == \"* && $name != *.pb.h ]]; then
    if [[ $name != */* ]]; then
      fault "$file:$line: name the header from the top of the project: $included"
    elif [[ " ${arrows[$folder]} " != *" ${name%%/*} "* ]]; then
      fault "$file:$line: $folder/ may not include $included (only: ${arrows[$folder]})"
    fi
  fi
  for rule in "${third_party[@]}"; do
    read -r header where <<<"$rule"
    if [[ $name =~ ^($header)$ && ! $file =~ $where ]]; then
      fault "$file:$line: $included belongs in $where only"
    fi
  done
}

check_tree() {  # in the current directory
  local file line text match
  while IFS= read -r match; do
    file=${match%%:*} text=${match#*:}
    line=${text%%:*} text=${text#*:}
    if [[ $text =~ ^[[:space:]]*\#[[:space:]]*include[[:space:]]*([\"\<][^\"\>]+[\"\>]) ]]; then
      check_include "$file" "$line" "${BASH_REMATCH[1]}"
    fi
  done < <(source_files "${!arrows[@]}" | tr '\n' '\0' | xargs -0 -r grep -nHE '^[[:space:]]*#[[:space:]]*include')

  while IFS= read -r match; do
    fault "$match: nothing below mount/ prints or logs: return an Error"
  done < <(source_files format cache fs | tr '\n' '\0' |
    xargs -0 -r grep -nHE 'std::(cout|cerr|clog)|<iostream>|(^|[^a-z_])(printf|fprintf|puts|fputs|perror|syslog)\(' | cut -d: -f1,2)

  while IFS= read -r file; do
    [[ $(head -c 2 "$file") == // ]] || fault "$file:1: a header opens with a comment: what it is, who owns what, which threads, which errors"
  done < <(source_files format cache fs mount tests/support | grep '\.h$')

  # Folders of one person or one machine. (The words stand in parentheses, so this line does not find itself.)
  while IFS= read -r match; do
    fault "$match: names a place on somebody's machine"
  done < <(grep -rnIE --exclude-dir=.git --exclude-dir=build "(^|[^[:alnum:]_.}])/(home|root|Users|work|workspace|tmp/w)/[[:alnum:]_.]" . |
    cut -d: -f1,2)
}

faults_of() {  # FILE CONTENT: what check_tree says of a tree with just that file
  local tree
  tree=$(mktemp -d)
  mkdir -p "$tree/$(dirname "$1")"
  printf '%b\n' "$2" >"$tree/$1"
  (cd "$tree" && check_tree)
  rm -rf "$tree"
}

expect_fault() {  # FILE CONTENT WHAT
  [[ -n $(faults_of "$1" "$2") ]] || fault "self-test: $1 with '$2' ($3) was not found"
}

expect_clean() {  # FILE CONTENT
  local output
  output=$(faults_of "$1" "$2")
  [[ -z $output ]] || fault "self-test: $1 with '$2' is fine, and yet: $output"
}

self_test() {
  expect_fault format/a.cc '#include "cache/catalog.h"' 'arrow against the design'
  expect_fault cache/a.cc '#include "fs/ino.h"' 'arrow against the design'
  expect_fault fs/a.cc ' # include  "mount/session.h"' 'arrow, oddly spaced'
  expect_fault mount/a.cc '#include "tests/support/temp_dir.h"' 'program including tests'
  expect_fault format/a.cc '#include "bytes.h"' 'not from the top'
  expect_fault format/jpeg_parser.cc '#include <jpeglib.h>' 'libjpeg outside its header'
  expect_fault fs/a.cc '#include <lmdb.h>' 'LMDB outside cache/'
  expect_fault fs/a.cc '#include <fuse_lowlevel.h>' 'FUSE outside mount/'
  expect_fault cache/a.cc '#include <fuse3/fuse.h>' 'FUSE outside mount/'
  expect_fault cache/a.cc '#include <spdlog/spdlog.h>' 'logging below mount/'
  expect_fault format/a.cc '#include <CLI/CLI.hpp>' 'command line below mount/'
  expect_fault fs/a.cc '#include <google/protobuf/message.h>' 'protobuf outside format/'
  expect_fault fs/a.cc 'int f() { fprintf(stderr, "x"); }' 'printing below mount/'
  expect_fault fs/a.h '#pragma once' 'header without a comment'
  # In two pieces, so that the check of this file does not find them.
  expect_fault README.md "see /ho""me/someone/notes" 'a home folder'
  expect_fault format/a.cc "// from /wo""rk/main" 'a machine folder'
  expect_clean format/libjpeg.cc '#include "format/bytes.h"\n#include <jpeglib.h>\n#include "format/proto/shard.pb.h"'
  expect_clean mount/a.cc '#include "cache/catalog.h"\n#include <fuse_lowlevel.h>\nvoid f() { std::snprintf(b, 1, "x"); }'
  expect_clean tests/fs/a.cc '#include "fs/ino.h"\n#include "tests/support/temp_dir.h"\n#include <gtest/gtest.h>'
  expect_clean fs/a.h '// What it is.\n#include "cache/catalog.h"'
}

if [[ ${1:-} == --self-test ]]; then
  output=$(self_test)
else
  cd "${1:-"$(dirname "$0")/.."}"
  output=$(check_tree)
fi
if [[ -n $output ]]; then
  echo "$output"
  echo "$(wc -l <<<"$output") faults"
  exit 1
fi
