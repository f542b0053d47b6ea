#!/usr/bin/env bash
# published_readers_test.sh PCRFS MAKE_PHOTOS PROTOC PROTO_FOLDER: what a reader of the published format, which knows no
# index of ours, takes out of our shards is what the mount shows, byte for byte and in the order of inode numbers; and
# metadata, groups and PCR_index.pb parse as the published messages.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
source "$here/../support/mounted.sh"

"$2" "$scratch/photos" 24
echo "no image, so no published reader may see it" >"$scratch/photos/notes.txt"
pcrfs=$1
mkdir "$mount"
"$pcrfs" pack "$scratch/photos" "$dataset" --record-images 7
"$pcrfs" mount "$dataset" "$mount"
"$here/../format/published_messages_test.py" "$3" "$4" "$dataset"

hashes_of_mount() { # LEVEL: of the images, in the order of their inode numbers
  find "$mount/scan$1" -type f ! -name notes.txt -printf '%i %p\0' | sort -zn | cut -zd' ' -f2- |
    xargs -0 sha256sum | cut -d' ' -f1
}

hashes_of_records() { # LEVEL: record by record, as stored
  local record
  find "$dataset" -name '*.pcr' -printf '%f\n' | sort -V | while read -r record; do
    "$here/../format/independent_reader.py" "$dataset/$record" "$1" | awk '{ print $NF }'
  done
}

for level in 1 5 10; do
  hashes_of_mount "$level" >"$scratch/mount.$level"
  hashes_of_records "$level" >"$scratch/records.$level"
  test "$(wc -l <"$scratch/mount.$level")" = 24
  diff "$scratch/mount.$level" "$scratch/records.$level"
  echo "level $level: 24 images are the same in the records and in the mount"
done
