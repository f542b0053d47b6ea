#!/usr/bin/env bash
# compare_squashfuse.sh PCRFS RANDOM_READ_CC PHOTOS [LEVEL [THREADS [ROUNDS]]]: pcrfs against squashfuse_ll.
#
# The same files (PHOTOS at LEVEL, default 3; taken several times over when there are fewer than 1000) from a mount of
# pcrfs and from an uncompressed squashfs image through squashfuse_ll, read whole in random order by THREADS (2) threads,
# ROUNDS (20) times in a row. The two take turns, four of them, so that both see the same machine. Prints files/s of the
# first round and the median of the later halves, and the ratios. Needs Debian's squashfs-tools and squashfuse.
# RANDOM_READ_CC is the source of a reader that prints "round N: FILES files, X files/s".
set -euo pipefail
(($# >= 3)) || { sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2; }
source "$(dirname "$0")/../support/mounted.sh"
reader_source=$2 photos=$3 level=${4:-3} threads=${5:-2} rounds=${6:-20}

g++ -O2 -std=c++20 "$reader_source" -o "$scratch/random_read" -lpthread
count=$(find "$photos" -type f | wc -l)
for ((copy = 0; copy * count < 1000; ++copy)); do
  mkdir -p "$scratch/photos"
  cp -r "$photos" "$scratch/photos/$copy"
done
pack_and_mount "$1" "$scratch/photos"
"$pcrfs" extract "$dataset" "$scratch/files" --level "$level"
mksquashfs "$scratch/files" "$scratch/image" -noI -noD -noF -noX -no-progress -quiet >/dev/null

squash="$scratch/squash"
mkdir "$squash"
squashfuse_ll "$scratch/image" "$squash"
take_both_down() {
  local status=$?
  fusermount3 -u "$squash" || status=1
  (exit "$status") || true
  take_down
}
trap take_both_down EXIT

diff -r "$squash" "$mount/scan$level"
# The comparison read everything once; start level again.
fusermount3 -u "$squash" && squashfuse_ll "$scratch/image" "$squash"
"$pcrfs" umount "$mount" && "$pcrfs" mount "$dataset" "$mount"

# files/s of each round of one reader process, on the mount given
measure() { "$scratch/random_read" "$1" "$threads" "$rounds" | sed -nE 's/^round [0-9]+:.* ([0-9.]+) files\/s.*/\1/p'; }
later_half() { tail -n $((rounds - rounds / 2)); }
median() { LC_ALL=C sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

for ((turn = 0; turn < 4; ++turn)); do
  measure "$mount/scan$level" >"$scratch/ours.$turn"
  measure "$squash" >"$scratch/theirs.$turn"
done
first_ours=$(head -n 1 "$scratch/ours.0") first_theirs=$(head -n 1 "$scratch/theirs.0")
later_ours=$(for file in "$scratch"/ours.*; do later_half <"$file"; done | median)
later_theirs=$(for file in "$scratch"/theirs.*; do later_half <"$file"; done | median)
awk -v a="$first_ours" -v b="$first_theirs" -v c="$later_ours" -v d="$later_theirs" -v level="$level" -v threads="$threads" \
  'BEGIN {
    printf "level %d, %d threads, files/s   pcrfs   squashfuse_ll   ratio\n", level, threads
    printf "first round               %9.0f %13.0f %9.2f\n", a, b, a / b
    printf "later rounds, median      %9.0f %13.0f %9.2f\n", c, d, c / d
  }'
