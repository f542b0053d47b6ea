#!/usr/bin/env bash
# quickstart.sh [PHOTO_FOLDER] [MOUNT_POINT]: builds pcrfs, packs a folder of photos, mounts it at ten levels.
#
# Without PHOTO_FOLDER it makes a small data set of photo-like JPEGs itself. Installs missing Debian packages (through
# sudo when not root). Everything it makes lies in build/quickstart in the project's folder, the mount point too unless
# one is named. It may be run again at any time, with the same folder or another. The photos are only read.
set -euo pipefail

say() { echo "quickstart: $*"; }
die() { echo "quickstart: $*" >&2; exit 1; }

(($# <= 2)) || die "usage: quickstart.sh [PHOTO_FOLDER] [MOUNT_POINT]"
[[ ${1:-} != -h && ${1:-} != --help ]] || { sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 0; }

project=$(cd "$(dirname "$0")/.." && pwd)
work=$project/build/quickstart
photos=
if [[ -n ${1:-} ]]; then
  photos=$(cd "$1" 2>/dev/null && pwd) || die "$1 is no folder that can be opened"
fi
mount_point=$(realpath -m -- "${2:-$work/mount}")

say "1/4 packages and program (the first time takes some minutes)"
"$project/examples/install_deps.sh" build
build() {
  cd "$project"
  if command -v ccache >/dev/null; then
    export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache
  fi
  mkdir -p build
  { cmake --preset release && cmake --build --preset release --target pcrfs make_photos; } >build/quickstart.log 2>&1 ||
    { tail -n 30 build/quickstart.log >&2; die "the build failed; all of its output is in $project/build/quickstart.log"; }
}
(build)
pcrfs=$project/build/release/mount/pcrfs

mkdir -p "$work"
if [[ -z $photos ]]; then
  photos=$work/photos
  if [[ ! -d $photos ]]; then
    say "2/4 making 64 photos in $photos"
    rm -rf "$photos.unfinished"
    "$project/build/release/examples/make_photos" "$photos.unfinished" 64
    mv "$photos.unfinished" "$photos"
  fi
fi

mounted_type() {  # what kind of file system is mounted on a folder itself; nothing when none is
  findmnt --noheadings --output FSTYPE --mountpoint "$1" | tail -n 1
}
case "$(mounted_type "$mount_point" || true)" in
  '') ;;
  fuse.pcrfs)
    say "taking down the mount of an earlier run on $mount_point"
    "$pcrfs" umount "$mount_point"
    ;;
  *) die "something else is mounted on $mount_point; name another folder: quickstart.sh PHOTO_FOLDER MOUNT_POINT" ;;
esac

# One data set for each photo folder, named for it; packed anew when anything in the folder is newer.
dataset=$work/datasets/$(basename "$photos")-$(printf %s "$photos" | cksum | cut -d' ' -f1)
mkdir -p "$work/datasets"
for stamp in "$dataset/PCR_index.pb" "$dataset/pack.plan"; do
  if [[ -f $stamp && -n $(find "$photos" -newer "$stamp" -print -quit) ]]; then
    elsewhere=$(findmnt --noheadings --types fuse.pcrfs --output TARGET --source "$dataset" | head -n 1 || true)
    [[ -z $elsewhere ]] || die "$photos has changed since it was packed, and is mounted on $elsewhere: take that down first"
    say "$photos has changed since it was packed"
    rm -rf "$dataset"
  fi
done
if [[ -f $dataset/PCR_index.pb ]]; then
  say "2/4 using the data set packed before, $dataset"
else
  say "2/4 packing $photos into $dataset"
  "$pcrfs" pack "$photos" "$dataset"
fi

say "3/4 mounting on $mount_point"
[[ -e /dev/fuse ]] || die "this machine has no /dev/fuse: try \`modprobe fuse\`, or give the container the device and the" \
  "right to mount (docker run --device /dev/fuse --cap-add SYS_ADMIN ...)"
mkdir -p "$mount_point"
"$pcrfs" mount "$dataset" "$mount_point"

say "4/4 the same photos at ten levels, as the mount shows them"
printf '\n  %-8s %8s %14s %12s %10s\n' level files bytes 'per file' share
for ((level = 10; level >= 1; --level)); do
  find "$mount_point/scan$level" -type f -printf '%s\n' | awk -v level="$level" '{ files++; bytes += $1 }
    END { print level, files + 0, bytes + 0 }'
done | awk 'NR == 1 { full = $3 }
  { printf "  scan%-4d %8d %14.0f %12.0f %9.1f%%\n", $1, $2, $3, $2 ? $3 / $2 : 0, full ? 100 * $3 / full : 0 }' | tac

cat <<EOF

The mount stays up. Each scanK is a tree of ordinary JPEG files; \`current\` leads to the highest level, and \`original\`
has the files that were packed, byte for byte.
  look at it     ls -l '$mount_point/scan3'
                 '$pcrfs' info '$dataset'
  train on it    point any loader at '$mount_point/scan5'
  take it down   '$pcrfs' umount '$mount_point'
  remove it all  take it down, then rm -r '$work'
EOF
