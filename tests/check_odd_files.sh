#!/usr/bin/env bash
# check_odd_files.sh PCRFS SHARED: the strange files of SHARED (a folder beside the project's, not part of it) through a
# real mount: packed, read at each level and as their sources, packed with --exact and with --rescan, too.
#
#   * its check_tree.py finds nothing wrong, at any level or in original/, and at most 5 files whole for no need;
#   * verify finds no fault and no difference from the source, and info counts what pack counted.
set -euo pipefail
source "$(dirname "$0")/support/mounted.sh"

mkdir "$scratch/odd"
tar -xJf "$2/data/odd_files.tar.xz" -C "$scratch/odd"
check_tree() { /usr/bin/python3 "$2/tools/check_tree.py" "$scratch/odd" "$mount" "${@:3}" | tee "$scratch/check"; }
kinds() { grep -E '^ +[0-9]+  (converted|progressive|kept whole)' "$1"; }

for option in '' --exact --rescan; do
  echo "== pack $option"
  pack_and_mount "$1" "$scratch/odd" ${option:+"$option"} >"$scratch/packed"
  cat "$scratch/packed"
  "$pcrfs" info "$dataset" >"$scratch/info"
  diff <(kinds "$scratch/packed") <(kinds "$scratch/info")
  "$pcrfs" verify "$dataset" --restore --source "$scratch/odd"
  if [[ $option == --exact ]]; then
    check_tree "$@" --exact
  else
    check_tree "$@"
    for_no_need=$(sed -n 's/.*(\([0-9]*\) of these jpegtran could transcode losslessly).*/\1/p' "$scratch/check")
    echo "whole for no need: ${for_no_need:=0} (at most 5)"
    ((for_no_need <= 5))
  fi
  unmount_and_remove
done
