# For shell tests that look at a real mount; sourced, with `set -euo pipefail`.
#
#   source tests/support/mounted.sh
#   pack_and_mount PCRFS SOURCE [PACK_OPTION...]   # then: $mount, $dataset, and $scratch for the test's own files
#
# All of it goes when the script ends, however it ends. There is a space in each path, since users have some, too.
# shellcheck shell=bash

scratch=$(mktemp -d "${TMPDIR:-/tmp}/pcrfs test.XXXXXX")
dataset="$scratch/data set"
mount="$scratch/mount point"
export PCRFS_CACHE_DIR="$scratch/cache"

take_down() {
  local status=$?
  if findmnt --mountpoint "$mount" >/dev/null; then
    "$pcrfs" umount "$mount" || { fusermount3 -u -z "$mount"; status=1; }
  fi
  rm -rf "$scratch"
  exit "$status"
}
trap take_down EXIT
trap 'exit 1' INT TERM

pack_and_mount() {
  pcrfs=$1
  mkdir -p "$mount"
  "$pcrfs" pack "${@:3}" "$2" "$dataset"
  "$pcrfs" mount "$dataset" "$mount"
}

# So that something else can be packed.
unmount_and_remove() {
  "$pcrfs" umount "$mount"
  rm -r "$dataset"
}
