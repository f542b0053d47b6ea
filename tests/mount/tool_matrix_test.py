#!/usr/bin/python3
"""tool_matrix_test.py PCRFS MAKE_PHOTOS: do the programs that people point at a folder work on a mount, all of them,
whatever the level, and however it was mounted?

Each tool runs on the mount at levels 1, 3, 5 and 10, at levels 1 to 10 where that is cheap, on original, and with -o
level=3, on a mount in the background and on one in the foreground. What it gives must be what it gives on, or follows
from, a tree of ordinary files that was made without pcrfs (level_trees.py). Prints a table: tools by trees and modes.
"""
import os
import shutil
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import level_trees  # noqa: E402
from real_mount import TIMEOUT, Failed, Pcrfs, run, scratch_folder  # noqa: E402
from tools import TOOLS, Place, walk  # noqa: E402

TREES = [*(b"scan%d" % k for k in range(1, 11)), b"original"]
COLUMNS = [b"scan1", b"scan3", b"scan5", b"scan10", b"original", b"level=3"]
LABELS = {b"original": "orig", b"level=3": "=3"}


def forget(tree):
    """Lets the kernel forget the bytes it has of a tree, so that each tool asks for them itself."""
    for path in [b"", *walk(tree)]:
        descriptor = os.open(os.path.join(tree, path), os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def try_tool(name, place):
    """None, or what is wrong. In a process of its own: a read that fails under mmap kills it."""
    os.mkdir(place.out)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.alarm(TIMEOUT)
        os.write(writer, use_tool(name, place).encode()[:4096])
        os._exit(0)
    os.close(writer)
    with open(reader, "rb") as pipe:
        said = pipe.read().decode("utf-8", "replace")
    _, ended = os.waitpid(child, 0)
    if os.listdir(place.out):  # copies of folders that cannot be written to
        run("chmod", "-R", "u+rwX", place.out)
    shutil.rmtree(place.out)
    return f"ended by signal {ended}" if ended else said or None


def use_tool(name, place):
    try:
        forget(place.tree)
        TOOLS[name][0](place)
        return ""
    except Failed as failed:
        return str(failed)
    except Exception as error:  # whatever it is, it is what a user would see
        return repr(error)


def try_mount(mode, root, level_root, wanted, out, dataset):
    """(tool, column) -> None, or what is wrong."""
    results = {}
    for name, (_, every_level) in TOOLS.items():
        for column in [*TREES, b"level=3"] if every_level else COLUMNS:
            tree = level_root if column == b"level=3" else os.path.join(root, column)
            like = os.path.join(wanted, b"scan3" if column == b"level=3" else column)
            results[name, mode, column] = try_tool(name, Place(tree, like, out, dataset))
    return results


def show(results):
    modes = ("background", "foreground")
    columns = [*TREES, b"level=3"]
    print(f"{'':32}" + "".join(f"{mode:<{5 * len(columns) + 2}}" for mode in modes))
    print(f"{'':32}" + (" ".join(f"{LABELS.get(column, column.decode().removeprefix('scan')):>4}" for column in columns)
                         + "   ") * 2)
    for name in TOOLS:
        cells = []
        for mode in modes:
            for column in columns:
                tried = (name, mode, column) in results
                cells.append(("FAIL" if results[name, mode, column] else "ok") if tried else "")
            cells.append(" ")
        print(f"{name:32}" + " ".join(f"{cell:>4}" if cell != " " else " " for cell in cells))
    wrong = {cell: why for cell, why in results.items() if why}
    for tool_name in {name: None for name, _, _ in wrong}:
        _, mode, column = first = next(cell for cell in wrong if cell[0] == tool_name)
        print(f"FAIL {tool_name}, {mode}, {column.decode()} (of {sum(cell[0] == tool_name for cell in wrong)}): "
              f"{wrong[first]}")
    print(f"{len(TOOLS)} tools, {len(results)} cells (columns are levels and original, =3 is -o level=3): {len(wrong)} failed")
    return wrong


def main(program, make_photos):
    results = {}
    with scratch_folder() as scratch:
        source, dataset, wanted, out = (scratch + name for name in (b"/photos", b"/data set", b"/wanted", b"/out"))
        pcrfs = Pcrfs(program, scratch)
        level_trees.make_source(make_photos, source)
        pcrfs("pack", source, dataset, "--record-images", "9")
        level_trees.make_levels(source, dataset, wanted, range(1, 11))
        level_trees.make_original(source, wanted)
        for mode in ("background", "foreground"):
            with pcrfs.mounted(dataset, foreground=mode == "foreground") as root, \
                    pcrfs.mounted(dataset, "level=3", mode == "foreground") as level_root:
                results |= try_mount(mode, root, level_root, wanted, out, dataset)
    return 1 if show(results) else 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    started = time.monotonic()
    status = main(*sys.argv[1:])
    print(f"{time.monotonic() - started:.1f} s")
    sys.exit(status)
