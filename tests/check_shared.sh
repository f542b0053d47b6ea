#!/usr/bin/env bash
# check_shared.sh PCRFS SHARED: the photos of SHARED (a folder beside the project's, not part of it) through a real mount.
#
#   * its check_tree.py finds nothing wrong with any file at any level;
#   * the data set is at most 0.97 of the photos' bytes;
#   * levels 1, 2, 3, 5 are 8, 16, 22, 47 % of the highest level's bytes, give or take one.
set -euo pipefail
source "$(dirname "$0")/support/mounted.sh"

photos=$2/data/photos
pack_and_mount "$1" "$photos"
"$pcrfs" verify "$dataset"
/usr/bin/python3 "$2/tools/check_tree.py" "$photos" "$mount"

bytes_below() { find "$1" -type f -printf '%s\n' | awk '{ sum += $1 } END { print sum + 0 }'; }
source_bytes=$(bytes_below "$photos")
stored_bytes=$(bytes_below "$dataset")
awk -v stored="$stored_bytes" -v source="$source_bytes" 'BEGIN {
  printf "data set / photos: %d / %d = %.4f (at most 0.97)\n", stored, source, stored / source
  exit !(stored <= 0.97 * source)
}'

full=$(bytes_below "$mount/scan10")
for expected in 1:8 2:16 3:22 5:47; do
  level=${expected%:*}
  awk -v bytes="$(bytes_below "$mount/scan$level")" -v full="$full" -v level="$level" -v share="${expected#*:}" 'BEGIN {
    percent = 100 * bytes / full
    printf "level %d: %.1f %% (about %d)\n", level, percent, share
    exit !(percent >= share - 1 && percent <= share + 1)
  }'
done
