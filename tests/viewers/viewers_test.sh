#!/usr/bin/env bash
# viewers_test.sh PCRFS MAKE_PHOTOS: packs made photos, mounts them, and opens every file of every level in djpeg,
# Pillow, ImageMagick and headless Chromium (open_levels.py).
set -euo pipefail
source "$(dirname "$0")/../support/mounted.sh"

"$2" "$scratch/photos" 24
pack_and_mount "$1" "$scratch/photos"
/usr/bin/python3 "$(dirname "$0")/open_levels.py" "$scratch/photos" "$mount"
