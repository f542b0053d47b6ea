"""A source folder of every kind of file that pack knows, and what each level must show of it, told without pcrfs.

Images are cut out of the stored records by tests/format/independent_reader.py, which knows the published format and no
index; a record holds no names, but pack keeps the byte order of paths. Everything else is copied from the source.
"""
import contextlib
import io
import os
import re
import shutil
import sqlite3
import sys

from PIL import Image, ImageChops

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "format"))
import independent_reader  # noqa: E402

from real_mount import run

TAIL = b"bytes behind the end of the image"
LARGE = bytes(i * i % 251 for i in range(300_007))
# Hard names: blanks, quotes, a leading hyphen, a line feed, control bytes, no UTF-8, the longest there are.
NAMES = [b"-rf", b" blank ", b"it's \"quoted\"", b"line\nfeed", b"\x01\x1b[31m", b"\xff\xfe", b"\\040", b"*?[a]",
         b"n" * 255, b"\xc3\xa9" * 127]


def _write(path, data, mode=0o644, mtime=1_600_000_000.25):
    with open(path, "wb") as out:
        out.write(data)
    os.chmod(path, mode)
    os.utime(path, (mtime, mtime))


def _make_database(path):
    with contextlib.closing(sqlite3.connect(os.fsdecode(path))) as database:
        database.execute("create table labels (name text primary key, label integer)")
        database.executemany("insert into labels values (?, ?)", ((f"image {i}", i % 10) for i in range(3000)))
        database.commit()


def make_source(make_photos, folder, photos=12):
    """Photos in class folders; an image in the root, one that is kept with a tail; opaque files; odd names and modes."""
    run(make_photos, folder, str(photos))
    paths = sorted(os.path.join(at, name) for at, _, names in os.walk(folder) for name in names)
    for i, path in enumerate(paths):
        os.utime(path, ns=(0, 1_500_000_000_000_000_000 + i * 123_456_789_012))
        os.chmod(path, (0o644, 0o600, 0o444, 0o755)[i % 4])
    picture = io.BytesIO()
    with Image.open(paths[0]) as image:
        image.save(picture, "JPEG", quality=80, progressive=True)
    _write(os.path.join(folder, b"root.jpg"), picture.getvalue())
    deep = os.path.join(folder, *[b"deep"] * 12)
    os.makedirs(deep)
    _write(os.path.join(deep, b"tail.jpg"), picture.getvalue() + TAIL)
    os.makedirs(os.path.join(folder, b"empty", b"er"))
    odd = os.path.join(folder, b"odd names")
    os.mkdir(odd)
    for name in NAMES:
        _write(os.path.join(odd, name), b"named " + name)
    _write(os.path.join(folder, b"large.bin"), LARGE)
    _write(os.path.join(folder, b"nothing.txt"), b"")
    _write(os.path.join(folder, b"private.txt"), b"mode 0400\n", 0o400, 86_400)
    _write(os.path.join(folder, b"run.sh"), b"#!/bin/sh\necho it runs\n", 0o6755, 4_000_000_000.5)
    _write(os.path.join(folder, b"old.txt"), b"from before 1970\n", 0o644, -1000.5)
    _make_database(os.path.join(folder, b"labels.sqlite"))
    os.chmod(odd, 0o1777)
    for name, mode in (b"closed", 0o700), (b"search", 0o711), (b"listed", 0o744):
        os.mkdir(os.path.join(folder, name))
        _write(os.path.join(folder, name, b"in.txt"), b"in " + name)
        os.chmod(os.path.join(folder, name), mode)


def _files_below(folder):
    return sorted(os.path.join(at, name)[len(folder) + 1:] for at, _, names in os.walk(folder) for name in names)


def _images_of(dataset):
    """(labels aside) for each image of the data set, in the order of records, its fragments."""
    records = [name for name in os.listdir(dataset) if name.endswith(b".pcr")]
    for name in sorted(records, key=lambda record: int(re.search(rb"\d+", record)[0])):
        with open(os.path.join(dataset, name), "rb") as file:
            _, groups, _ = independent_reader.read_record(file.read())
        for position in range(len(groups[0])):
            yield [group[position] for group in groups]


def _tail(source_bytes):
    return TAIL if source_bytes.endswith(TAIL) else b""


def _same_picture(a, b):
    with Image.open(io.BytesIO(a)) as one, Image.open(io.BytesIO(b)) as other:
        return one.size == other.size and ImageChops.difference(one, other).getbbox() is None


def make_levels(source, dataset, folder, levels):
    """Writes folder/scanK for each K of `levels`: what scanK must show of `source`, packed into `dataset`."""
    paths = _files_below(source)
    images = [path for path in paths if path.endswith(b".jpg")]
    fragments = dict(zip(images, _images_of(dataset), strict=False))
    assert len(fragments) == len(images) and len(list(_images_of(dataset))) == len(images), "records hold other images"
    for path in images:
        with open(os.path.join(source, path), "rb") as file:
            whole = file.read()
        fragments[path].append(_tail(whole))
        shown = b"".join(fragments[path][:-1]) + b"\xff\xd9"
        assert _same_picture(shown, whole), f"{path!r} is not the image in its place"
    for level in levels:
        _make_tree(source, os.path.join(folder, b"scan%d" % level),
                   lambda path, shown, level=level: _show(os.path.join(source, path), shown, fragments.get(path), level))


def make_original(source, folder):
    """Writes folder/original: what original must show of `source`, all of which can be restored."""
    _make_tree(source, os.path.join(folder, b"original"),
               lambda path, shown: _show(os.path.join(source, path), shown, None, 0))


def _make_tree(source, tree, show):
    shutil.copytree(source, tree, copy_function=lambda a, b: None)
    for path in _files_below(source):
        show(path, os.path.join(tree, path))
    for at, _, _ in os.walk(tree, topdown=False):
        _attributes(os.path.join(source, at[len(tree) + 1:]), at)


def _show(source, shown, fragments, level):
    if fragments is None:
        shutil.copyfile(source, shown)
    else:
        tail = fragments[-1] if level == len(fragments) - 1 else b""
        with open(shown, "wb") as out:
            out.write(b"".join(fragments[:level]) + b"\xff\xd9" + tail)
    _attributes(source, shown)


def _attributes(source, shown):
    """The source's mode without writing, setuid, setgid and sticky, for folders with x wherever r is; and its time."""
    seen = os.stat(source)
    mode = seen.st_mode & 0o555
    os.chmod(shown, mode | (mode & 0o444) >> 2 if os.path.isdir(shown) else mode)
    os.utime(shown, ns=(seen.st_atime_ns, seen.st_mtime_ns))
