#!/usr/bin/env bash
# install_deps.sh [build|test]: installs the Debian packages that pcrfs needs, those that are missing, through sudo
# when not root. `build` (the default) is what a user needs to build, pack and mount; `test` adds what tests/run.sh
# needs. The one list of packages: README, quickstart.sh and tests/run.sh all come here. Asks nothing.
set -euo pipefail

build_packages=(
  g++ cmake ninja-build pkg-config
  fuse3 libfuse3-dev               # the mount; fusermount3 lets users other than root mount
  libjpeg62-turbo-dev              # lossless transcoding
  liblmdb-dev                      # the catalog
  libprotobuf-dev protobuf-compiler  # the shard format
  libarchive-dev zlib1g-dev        # pack from tar and zip
  libdeflate-dev libssl-dev        # CRC-32, SHA-256
  libtbb-dev                       # pack's pipeline
  libspdlog-dev libcli11-dev libexpected-dev nlohmann-json3-dev
)
test_packages=(
  libgtest-dev libgmock-dev
  clang libclang-rt-14-dev         # the second compiler; libFuzzer
  git man-db procps xz-utils
  rsync file                       # two of the tools that must work on a mount
  libjpeg-turbo-progs python3-pil imagemagick chromium  # the viewers that must open every level
)

case "${1:-build}" in
  build) packages=("${build_packages[@]}") ;;
  test) packages=("${build_packages[@]}" "${test_packages[@]}") ;;
  *) echo "usage: install_deps.sh [build|test]" >&2; exit 2 ;;
esac

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
  echo "This is no Debian system: install these packages (Debian's names) in its own way:" >&2
  echo "  ${packages[*]}" >&2
  exit 0  # they may well be there; the build says what is not
fi

missing=()
for package in "${packages[@]}"; do
  state=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
  [[ $state == installed ]] || missing+=("$package")
done
((${#missing[@]})) || exit 0

echo "Installing Debian packages: ${missing[*]}"
as_root=()
if ((EUID != 0)); then
  if ! command -v sudo >/dev/null; then
    echo "These packages are missing, and without sudo only root can install them:" >&2
    echo "  apt-get install ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300)
"${apt[@]}" update
"${apt[@]}" install -y --no-install-recommends "${missing[@]}" </dev/null >/dev/null
