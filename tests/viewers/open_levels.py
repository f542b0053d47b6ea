#!/usr/bin/python3
"""open_levels.py SOURCE MOUNT: does every file of every level open, without a warning, in what people look at images with?

Opens each JPEG of MOUNT/scan1 ... scan10 with djpeg, Pillow, ImageMagick and headless Chromium. A file fails when a
program complains, however mildly, or shows another size than that of the file in SOURCE. Chromium decodes each image and
draws it; its mean brightness must be that of the source, or a little off at the lower levels.
"""
import html
import os
import re
import subprocess
import sys
import tempfile
import warnings

from PIL import Image, ImageOps, ImageStat

LEVELS = range(1, 11)
# Grey levels by which the mean of a picture may differ from its source's. Level 1 has the exact mean of each block, so
# only clipping and rounding move it.
MEAN_TOLERANCE = 3.0

faults = []


def fault(path, program, what):
    faults.append('%s: %s: %s' % (path, program, what))


def complaints(command):
    """What a command that should be silent said, or how it ended; '' when all is well."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=120)
    said = done.stderr.decode('utf-8', 'replace').strip()
    return said or ('' if done.returncode == 0 else 'exit status %d' % done.returncode)


def open_with_djpeg(path):
    said = complaints(['djpeg', '-outfile', '/dev/null', path])
    if said:
        fault(path, 'djpeg', said)


def open_with_pillow(path, source):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter('error')
            with Image.open(path) as image:
                image.load()
                if image.size != source.size or image.mode != source.mode:
                    fault(path, 'Pillow', '%s %s, the source is %s %s' % (image.mode, image.size, source.mode, source.size))
    except Exception as error:  # whatever it is, it is what a user would see
        fault(path, 'Pillow', repr(error))


def open_with_imagemagick(paths):
    if complaints(['convert', '-regard-warnings', *paths, 'null:']):
        for path in paths:  # which one is it?
            said = complaints(['convert', '-regard-warnings', path, 'null:'])
            if said:
                fault(path, 'ImageMagick', said)


PAGE = '''<!doctype html><meta charset="utf-8"><title>every level</title>
<style>img { image-orientation: from-image; width: 60px }</style>
%s
<pre id="result">not finished</pre>
<script>
// A line for each image: number, decoded?, width, height, mean of all channels of all pixels.
async function look(image, number) {
  try { await image.decode(); } catch (error) { return number + ' ' + error; }
  const canvas = document.createElement('canvas');
  canvas.width = image.naturalWidth; canvas.height = image.naturalHeight;
  const context = canvas.getContext('2d');
  context.drawImage(image, 0, 0);
  const data = context.getImageData(0, 0, canvas.width, canvas.height).data;
  let sum = 0;
  for (let i = 0; i < data.length; i += 4) sum += data[i] + data[i + 1] + data[i + 2];
  return [number, 'ok', canvas.width, canvas.height, (sum / (data.length / 4 * 3)).toFixed(2)].join(' ');
}
Promise.all(Array.from(document.images).map(look)).then(
    lines => { document.getElementById('result').textContent = lines.join('\\n'); });
</script>'''


def open_with_chromium(expected):
    """expected: [(path, (width, height), mean)], sizes after EXIF rotation, which browsers apply."""
    with tempfile.TemporaryDirectory() as folder:
        page = os.path.join(folder, 'page.html')
        with open(page, 'w') as out:
            out.write(PAGE % '\n'.join('<img src="file://%s">' % html.escape(path) for path, _, _ in expected))
        done = subprocess.run(
            ['chromium', '--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
             '--disable-background-networking', '--disable-component-update', '--disable-sync',
             '--user-data-dir=' + os.path.join(folder, 'profile'), '--allow-file-access-from-files',
             '--virtual-time-budget=60000', '--dump-dom', 'file://' + page],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300)
    result = re.search(r'<pre id="result">(.*?)</pre>', done.stdout.decode('utf-8', 'replace'), re.S)
    lines = result.group(1).split('\n') if result else []
    if len(lines) != len(expected):
        fault('the page', 'Chromium', 'gave %d lines for %d images: %s\n%s' % (
            len(lines), len(expected), lines[:3], done.stderr.decode('utf-8', 'replace')[-2000:]))
        return
    for line, (path, size, mean) in zip(lines, expected):
        words = line.split(' ')
        if words[1] != 'ok':
            fault(path, 'Chromium', line)
        elif (int(words[2]), int(words[3])) != size:
            fault(path, 'Chromium', '%s x %s, the source is %d x %d' % (words[2], words[3], *size))
        elif abs(float(words[4]) - mean) > MEAN_TOLERANCE:
            fault(path, 'Chromium', 'mean brightness %s, the source has %.2f' % (words[4], mean))


def main(source_folder, mount):
    names = sorted(os.path.relpath(os.path.join(folder, name), source_folder)
                   for folder, _, files in os.walk(source_folder) for name in files)
    for_chromium = []
    for name in names:
        with Image.open(os.path.join(source_folder, name)) as source:
            upright = ImageOps.exif_transpose(source).convert('RGB')
            mean = sum(ImageStat.Stat(upright).mean) / 3
            for level in LEVELS:
                path = os.path.join(mount, 'scan%d' % level, name)
                open_with_djpeg(path)
                open_with_pillow(path, source)
                for_chromium.append((path, upright.size, mean))
    for level in LEVELS:
        open_with_imagemagick([os.path.join(mount, 'scan%d' % level, name) for name in names])
    open_with_chromium(for_chromium)
    for line in faults:
        print(line)
    print('%d files at %d levels, 4 programs: %d faults' % (len(names), len(LEVELS), len(faults)))
    return 1 if faults or not names else 0


if __name__ == '__main__':
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])))
