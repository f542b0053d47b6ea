#!/usr/bin/python3
"""decode.py SOURCE MOUNT [ROUNDS]: what decoding costs at each level, against the source files.

Reads every JPEG of SOURCE and the same files of MOUNT/scan1 ... scan10 into memory, then decodes each set with Pillow on
one core, ROUNDS times (default 5), the sets taking turns. Prints the median images/s of each, and it as a ratio to the
source's. Reading is no part of the times.
"""
import io
import os
import statistics
import sys
import time

from PIL import Image


def decode_all(images):
    start = time.perf_counter()
    for data in images:
        Image.open(io.BytesIO(data)).convert('RGB')
    return len(images) / (time.perf_counter() - start)


def read_all(folder, names):
    images = []
    for name in names:
        with open(os.path.join(folder, name), 'rb') as file:
            images.append(file.read())
    return images


def main(source, mount, rounds):
    names = sorted(os.path.relpath(os.path.join(folder, name), source)
                   for folder, _, files in os.walk(source) for name in files if name.lower().endswith(('.jpg', '.jpeg')))
    sets = {'source': read_all(source, names)}
    sets.update(('scan%d' % level, read_all(os.path.join(mount, 'scan%d' % level), names)) for level in range(1, 11))
    rates = {name: [] for name in sets}
    for _ in range(rounds):
        for name, images in sets.items():
            rates[name].append(decode_all(images))
    base = statistics.median(rates['source'])
    print('%d images, Pillow, one core, median of %d rounds' % (len(names), rounds))
    for name, values in rates.items():
        rate = statistics.median(values)
        print('%-7s %6.0f images/s  %5.2f' % (name, rate, rate / base))


if __name__ == '__main__':
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) == 4 else 5)
