#!/usr/bin/env bash
# mount_helper_test.sh CMAKE BUILD_FOLDER MAKE_PHOTOS: what `cmake --install` puts in place works with mount(8), umount(8)
# and fstab, by both names.
#
# mount(8) looks for helpers in /sbin only, so the test lays the installed folders over those of /usr, in a mount namespace
# of its own: the machine's are not touched.
set -euo pipefail
cmake=$1 build=$2 make_photos=$3

if [[ -z ${PCRFS_TEST_SCRATCH:-} ]]; then
  PCRFS_TEST_SCRATCH=$(mktemp -d "${TMPDIR:-/tmp}/pcrfs test.XXXXXX")
  export PCRFS_TEST_SCRATCH
  trap 'rm -rf "$PCRFS_TEST_SCRATCH"' EXIT
  unshare --mount "$0" "$@"
  exit
fi

cd "$PCRFS_TEST_SCRATCH"
umount -c -i -l -a -t fuse.pcrfs || :  # copies of other tests' mounts
fail() { echo "mount_helper_test: $*" >&2; exit 1; }

"$cmake" --install "$build" --prefix "$PWD/usr" >install.log || { cat install.log; fail "cmake --install failed"; }
for name in mount.pcrfs mount.fuse.pcrfs; do
  [[ $(readlink "usr/sbin/$name") == ../bin/pcrfs ]] || fail "usr/sbin/$name is no relative link to the program"
  "usr/sbin/$name" --help | grep -q MOUNTPOINT || fail "$name does not run"
done
[[ -f usr/share/man/man1/pcrfs.1 && -f usr/share/doc/pcrfs/FORMAT.md ]] || fail "manual page or format is not installed"

mkdir photos "mount point"
"$make_photos" photos 6 >/dev/null
usr/bin/pcrfs pack photos "data set"
at="$PWD/mount point" dataset="$PWD/data set"
[[ $(realpath /sbin) == /usr/* ]] || fail "/sbin is not below /usr, as this test wants it"
mount -t overlay -o lowerdir=usr:/usr overlay /usr
trap 'umount -l "$at" 2>/dev/null || :' EXIT

options=_netdev,nofail,noatime,x-systemd.automount,comment=x,dev,suid,exec,auto,user,cache_dir=$PWD/cache
expect_mounted() {
  [[ $(findmnt -no FSTYPE "$at") == fuse.pcrfs ]] || fail "$1: nothing is mounted"
  diff <(cd photos && find . | sort) <(cd "$at$2" && find . | sort) >/dev/null || fail "$1: other names"
}
expect_gone() {
  ! findmnt "$at" >/dev/null || fail "$1: it is still mounted"
}
take_down() {
  umount "$at" || fail "$1: umount(8) fails"
  expect_gone "$1"
}
for type in pcrfs fuse.pcrfs; do
  mount -t $type -o "$options" "$dataset" "$at" >said 2>&1
  [[ ! -s said ]] || fail "mount -t $type says '$(cat said)'"
  expect_mounted "mount -t $type" /scan3
  take_down "mount -t $type"
  mount -t $type -o "$options,level=2" "$dataset" "$at"
  expect_mounted "mount -t $type -o level=2" ""
  for remount in remount,ro remount; do
    mount -o $remount "$at" >said 2>&1 || fail "mount -o $remount says '$(cat said)'"
    expect_mounted "mount -o $remount" ""
  done
  if mount -o remount,ro,level=3 "$at" 2>said; then fail "a remount changes the level"; fi
  grep -q "cannot be changed" said || fail "mount -o remount,level=3 says '$(cat said)'"
  take_down "mount -t $type -o level=2"
  mount -f -t $type -o "$options" "$dataset" "$at" || fail "mount -f -t $type: status $?"
  expect_gone "mount -f -t $type"
  # As mount(8) calls it.
  usr/sbin/mount.$type "$dataset" "$at" -n -v -f -o "rw,$options" || fail "mount.$type -f: status $?"
  expect_gone "mount.$type -f"

  # fstab escapes blanks.
  printf '%s %s %s ro,%s 0 0\n' "${dataset// /\\040}" "${at// /\\040}" $type "${options// /\\040}" >fstab
  mount --fstab fstab "$at"
  expect_mounted "fstab with type $type" /scan10
  take_down "fstab with type $type"

  if mount -t $type -o "$options" "$PWD/nothing" "$at" 2>said; then fail "mount -t $type of nothing succeeds"; fi
  grep -q "^pcrfs: .*nothing" said || fail "mount -t $type of nothing says '$(cat said)'"
  expect_gone "mount -t $type of nothing"
  if mount -t $type -o "$options,frobnicate" "$dataset" "$at" 2>said; then fail "mount -t $type: an unknown option works"; fi
  grep -q "^pcrfs: unknown mount option 'frobnicate'" said || fail "mount -t $type -o frobnicate says '$(cat said)'"
done
