"""The programs that people point at a folder, each run on a tree in a mount and compared with a tree of ordinary files.

TOOLS has them by name; tool_matrix_test.py runs them. A tool raises Failed, or anything else, when something is wrong.
"""
import collections
import contextlib
import functools
import hashlib
import mmap
import os
import re
import shutil
import sqlite3
import stat
import tarfile
import warnings
import zipfile

from PIL import Image
from real_mount import Failed, is_mounted, run

# What a tool is run on: the tree in the mount, the same tree of ordinary files, a folder for what it makes, and the
# data set's path.
Place = collections.namedtuple("Place", "tree wanted out dataset")
TOOLS = {}


def tool(name, every_level=False):
    def add(function):
        TOOLS[name] = (function, every_level)
        return function
    return add


# ---- Trees as Python sees them

def walk(tree):
    """Relative paths of everything below, sorted, folders among them."""
    return sorted(os.path.join(at, name)[len(tree) + 1:] for at, folders, files in os.walk(tree)
                  for name in folders + files)


def files(tree):
    return [path for path in walk(tree) if stat.S_ISREG(os.lstat(os.path.join(tree, path)).st_mode)]


@functools.lru_cache(maxsize=None)  # of wanted trees only, which never change
def contents(tree):
    return {path: read(os.path.join(tree, path)) for path in files(tree)}


def read(path):
    with open(path, "rb") as file:
        return file.read()


def same(got, wanted, what):
    if got == wanted:
        return
    if isinstance(got, dict) and isinstance(wanted, dict) and got.keys() == wanted.keys():
        for key in wanted:
            same(got[key], wanted[key], f"{what} of {key!r}")
    if isinstance(got, (list, tuple, dict)):
        for one, other in zip(sorted(got), sorted(wanted), strict=False):
            if one != other:
                raise Failed(f"{what}: {short(one)}, expected {short(other)}")
    if isinstance(got, bytes) and isinstance(wanted, bytes) and got[:200] == wanted[:200]:
        first = next((i for i, (one, other) in enumerate(zip(got, wanted, strict=False)) if one != other), None)
        what += f", of {len(got)} bytes instead of {len(wanted)}, other from byte {first}"
    raise Failed(f"{what}: {short(got)}, expected {short(wanted)}")


def short(value):
    text = str(value)
    return text if len(text) <= 160 else text[:160] + "..."


def same_tree(copy, wanted, attributes=True):
    """`copy`, made by a tool, holds what `wanted` holds, with its modes and times."""
    same(walk(copy), walk(wanted), "names")
    same({path: read(os.path.join(copy, path)) for path in files(copy)}, contents(wanted), "bytes")
    if attributes:
        same({path: marks(os.path.join(copy, path)) for path in walk(copy)},
             {path: marks(os.path.join(wanted, path)) for path in walk(wanted)}, "mode and time")


def marks(path):
    seen = os.lstat(path)
    return oct(seen.st_mode), seen.st_mtime_ns


def same_output(place, *words, edit=lambda output: output):
    """A command prints the same in both trees."""
    same(edit(run(*words, cwd=place.tree)), edit(run(*words, cwd=place.wanted)), short(words))


def in_order(output):
    """Of records that end in NUL."""
    return sorted(output.split(b"\0"))


# ---- Copying

@tool("cp -r")
def cp(place):
    run("cp", "-r", place.tree, place.out + b"/copy")
    same_tree(place.out + b"/copy", place.wanted, attributes=False)


@tool("cp -a")
def cp_a(place):
    run("cp", "-a", place.tree, place.out + b"/copy")
    same_tree(place.out + b"/copy", place.wanted)


@tool("cp --reflink=auto")
def cp_reflink(place):
    run("cp", "-r", "--reflink=auto", "--sparse=always", place.tree, place.out + b"/copy")
    same_tree(place.out + b"/copy", place.wanted, attributes=False)


@tool("rsync -a -c")
def rsync(place):
    said = run("rsync", "-ac", "-i", place.tree + b"/", place.out + b"/copy/")
    if said.count(b"\n") < len(files(place.wanted)):
        raise Failed("rsync copied too few files")
    same_tree(place.out + b"/copy", place.wanted)
    same(run("rsync", "-ac", "-i", place.tree + b"/", place.out + b"/copy/"), b"", "second run, by checksum")
    same(run("rsync", "-a", "-i", place.tree + b"/", place.out + b"/copy/"), b"", "third run, by size and time")


@tool("rsync -acn (compare)", every_level=True)
def rsync_compare(place):
    same(run("rsync", "-acni", place.tree + b"/", place.wanted + b"/"), b"", "differences")


@tool("tar, tar -d")
def tar(place):
    archive = place.out + b"/all.tar"
    run("tar", "-cf", archive, "-C", place.tree, ".")
    kinds = {line[:1] for line in run("tar", "-tvf", archive).splitlines()}
    same(kinds, {b"-", b"d"}, "kinds of members (h: a hard link)")
    run("tar", "-df", archive, "-C", place.tree)
    os.mkdir(place.out + b"/copy")
    run("tar", "--warning=no-timestamp", "-xpf", archive, "-C", place.out + b"/copy")
    same_tree(place.out + b"/copy", place.wanted, attributes=False)


@tool("tar --sort=inode")
def tar_by_inode(place):
    archive = place.out + b"/all.tar"
    run("tar", "--sort=inode", "-cf", archive, "-C", place.tree, ".")
    with tarfile.open(os.fsdecode(archive)) as members:
        names = [os.fsencode(member.name) for member in members if member.isfile()]
    same(len(names), len(files(place.wanted)), "members")
    in_folder = collections.defaultdict(list)
    for name in names:
        in_folder[os.path.dirname(name)].append(os.lstat(os.path.join(place.tree, name)).st_ino)
    for folder, inodes in in_folder.items():
        same(inodes, sorted(inodes), f"inode numbers in {folder!r}")


@tool("zip (Python's)")
def zip_files(place):
    archive = place.out + b"/all.zip"
    with zipfile.ZipFile(os.fsdecode(archive), "w", strict_timestamps=False) as members:
        for number, path in enumerate(files(place.tree)):
            members.write(os.fsdecode(os.path.join(place.tree, path)), str(number))
    with zipfile.ZipFile(os.fsdecode(archive)) as members:
        same(members.testzip(), None, "damaged member")
        same({path: members.read(str(number)) for number, path in enumerate(files(place.wanted))},
             contents(place.wanted), "members")


@tool("shutil.copytree")
def copytree(place):
    shutil.copytree(place.tree, place.out + b"/copy")
    same_tree(place.out + b"/copy", place.wanted)


# ---- Listing

@tool("find -printf", every_level=True)
def find_printf(place):
    same_output(place, "find", ".", "-printf", r"%y %m %U %T@ %h/%f\0", edit=in_order)
    same_output(place, "find", ".", "-type", "f", "-printf", r"%s %p\0", edit=in_order)


@tool("find -type -size -newer")
def find_tests(place):
    for tests in (["-type", "d"], ["-type", "f", "-size", "+8k"], ["-type", "f", "-size", "-3"], ["-perm", "-111"],
                  ["-empty", "-type", "f"], ["-empty", "-type", "d"], ["-newer", place.wanted + b"/root.jpg"], ["-name", "*.jpg", "-links", "1"],
                  ["-type", "f", "-samefile", "root.jpg"], ["-depth", "-mindepth", "5"]):
        same_output(place, "find", ".", *tests, "-print0", edit=in_order)


@tool("ls -lR", every_level=True)
def ls(place):
    # Not the same on two file systems: blocks, links and sizes of folders.
    def edit(output):
        output = re.sub(rb"^total \d+$", b"", output, flags=re.M)
        output = re.sub(rb"^(d\S+) +\d+ (\S+ \S+) +\d+", rb"\1 \2", output, flags=re.M)
        return re.sub(rb" +", b" ", output)
    same_output(place, "ls", "-lRAb", "--full-time", edit=edit)


@tool("ls -f", every_level=True)
def ls_unsorted(place):
    for folder in (b".", b"odd names", b"empty"):
        first = run("ls", "-f", "--zero", "--", folder, cwd=place.tree)
        same(run("ls", "-f", "--zero", "--", folder, cwd=place.tree), first, "order")
        same(sorted(first.split(b"\0")),
             sorted(run("ls", "-f", "--zero", "--", folder, cwd=place.wanted).split(b"\0")), "names")


@tool("du -a", every_level=True)
def du(place):
    def expected(unit):
        sizes = collections.Counter({b".": 0})
        for path in walk(place.wanted):
            seen = os.lstat(os.path.join(place.wanted, path))
            size = -(-seen.st_size // unit) if stat.S_ISREG(seen.st_mode) else 0
            while path:
                sizes[b"./" + path] += size
                path = os.path.dirname(path)
            sizes[b"."] += size
        return dict(sizes)

    for options, unit in (["-B512"], 512), (["-b"], 1):  # -b: --apparent-size --block-size=1
        lines = run("du", "-a0", *options, cwd=place.tree).split(b"\0")[:-1]
        same({line.split(b"\t")[1]: int(line.split(b"\t")[0]) for line in lines}, expected(unit), f"du {options}")


@tool("df, stat -f", every_level=True)
def df(place):
    all_bytes = sum(len(data) for data in contents(place.wanted).values())
    said = run("df", "-B1", "--output=source,fstype,used,avail,target", place.tree).split(b"\n")[1]
    source, kind, used, available, target = re.fullmatch(rb"(.*\S) +(\S+) +(\d+) +(\d+) +(/.*)", said).groups()
    same((source, kind), (place.dataset, b"fuse.pcrfs"), "source and type")
    same((int(used), int(available)), (-(-all_bytes // 4096) * 4096, 0), "bytes used and available")
    if not is_mounted(target):
        raise Failed(f"df says that {target!r} is the mount point")
    same(run("stat", "-f", "-c", "%l %f %a", place.tree), b"255 0 0\n", "name length, blocks free and available")
    if int(run("stat", "-f", "-c", "%c", place.tree)) < len(walk(place.wanted)):
        raise Failed("statfs counts too few files")
    same(run("df", "--output=itotal", place.tree).split()[-1], run("stat", "-f", "-c", "%c", place.tree).strip(),
         "files, by df and by stat -f")


@tool("os.walk, os.scandir", every_level=True)
def scandir(place):
    same(walk(place.tree), walk(place.wanted), "os.walk")

    def seen(tree):
        found = {}
        for folder in [b""] + [path for path in walk(tree) if os.path.isdir(os.path.join(tree, path))]:
            with os.scandir(os.path.join(tree, folder)) as entries:
                for entry in entries:
                    status = entry.stat(follow_symlinks=False)
                    same(entry.inode(), os.lstat(entry.path).st_ino, "inode number")
                    found[os.path.join(folder, entry.name)] = (
                        entry.is_dir(follow_symlinks=False), entry.is_file(follow_symlinks=False), entry.is_symlink(),
                        oct(status.st_mode), status.st_mtime_ns, status.st_size if entry.is_file() else 0)
        return found
    same(seen(place.tree), seen(place.wanted), "os.scandir")


# ---- Reading

@tool("md5sum, sha256sum -c", every_level=True)
def checksums(place):
    for program in ("md5sum", "sha256sum"):
        listing = place.out + program.encode()
        with open(listing, "wb") as out:
            for path, data in contents(place.wanted).items():
                if b"\n" not in path and b"\\" not in path:
                    digest = hashlib.new(program[:-3], data).hexdigest().encode()
                    out.write(digest + b" *./" + path + b"\n")
        run(program, "-c", "--quiet", "--strict", listing, cwd=place.tree)


@tool("cat, wc -c", every_level=True)
def cat(place):
    names = [b"./" + path for path in files(place.wanted)]
    same(run("cat", "--", *names, cwd=place.tree), b"".join(contents(place.wanted).values()), "cat")
    same_output(place, "wc", "-c", "--", *names)


@tool("cmp, diff -r", every_level=True)
def diff(place):
    same(run("diff", "-r", place.tree, place.wanted), b"", "diff")
    run("cmp", place.tree + b"/large.bin", place.wanted + b"/large.bin")


@tool("dd, iflag=direct, odd bs")
def dd(place):
    for path in (b"large.bin", b"root.jpg", b"deep/" * 12 + b"tail.jpg", b"nothing.txt"):
        data = contents(place.wanted)[path]
        for options in (["bs=777"], ["bs=1", "count=5"], ["bs=4096", "iflag=direct"], ["bs=1000", "iflag=direct"],
                        ["bs=1M", "iflag=direct"], ["bs=4096", "iflag=direct,skip_bytes", "skip=513"],
                        ["bs=512", "skip=3", "count=2"], ["bs=64k", "iflag=nocache,fullblock"]):
            said = dict(word.split("=") for word in options)
            unit = {"64k": 65536, "1M": 1 << 20}.get(said["bs"]) or int(said["bs"])
            start = int(said.get("skip", 0)) * (1 if "skip_bytes" in said.get("iflag", "") else unit)
            end = start + int(said["count"]) * unit if "count" in said else len(data)
            got = run("dd", "if=" + os.fsdecode(os.path.join(place.tree, path)), "status=none", *options,
                      status=0) if start <= len(data) else b""
            same(got, data[start:end], f"{path!r} {options}")


@tool("head -c, tail -c")
def head_tail(place):
    for path in (b"large.bin", b"root.jpg", b"nothing.txt"):
        data = contents(place.wanted)[path]
        for count in (1, 4097, 131073, 10**6):
            same(run("head", "-c", str(count), path, cwd=place.tree), data[:count], f"head -c {count}")
            same(run("tail", "-c", str(count), path, cwd=place.tree), data[-count:], f"tail -c {count}")
        same(run("head", "-c", "-100", path, cwd=place.tree), data[:-100], "all but the last 100 bytes")


@tool("grep -c")
def grep(place):
    same_output(place, "grep", "-caZ", "JFIF", "--", *[b"./" + path for path in files(place.wanted)])
    same_output(place, "grep", "-rlZ", "names\\|named", ".", edit=in_order)


@tool("file")
def file_kinds(place):
    same_output(place, "file", "-b", "--", *[b"./" + path for path in files(place.wanted)])


@tool("Python mmap", every_level=True)
def python_mmap(place):
    for path, data in contents(place.wanted).items():
        if data:
            with open(os.path.join(place.tree, path), "rb") as file:
                with mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
                    same(mapped[:], data, f"{path!r}")


@tool("sendfile, copy_file_range")
def sendfile(place):
    for path, data in contents(place.wanted).items():
        for copy in (os.sendfile, lambda out, file, offset, size: os.copy_file_range(file, out, size, offset)):
            with open(os.path.join(place.tree, path), "rb") as file, open(place.out + b"/copy", "w+b") as out:
                done = 0
                try:
                    while part := copy(out.fileno(), file.fileno(), done, 1 << 20):
                        done += part
                except OSError as error:
                    same(os.strerror(error.errno), "Invalid cross-device link", f"{path!r}")
                    continue
                same(read(place.out + b"/copy"), data, f"{path!r}")


@tool("PIL open and load")
def pillow(place):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for path in files(place.wanted):
            if path.endswith(b".jpg"):
                with Image.open(os.fsdecode(os.path.join(place.tree, path))) as shown, \
                        Image.open(os.fsdecode(os.path.join(place.wanted, path))) as wanted:
                    same((shown.size, shown.mode, shown.tobytes()), (wanted.size, wanted.mode, wanted.tobytes()),
                         f"{path!r}")


@tool("SQLite (Python's)")
def sqlite(place):
    """Locks, reads pages in any order, looks for a journal beside the file."""
    def rows(tree):
        with contextlib.closing(sqlite3.connect(os.fsdecode(tree) + "/labels.sqlite")) as database:
            return [database.execute(query).fetchall() for query in (
                "pragma integrity_check", "select count(*), sum(label) from labels",
                "select name from labels where label = 3 order by name desc limit 20")]
    same(rows(place.tree), rows(place.wanted), "rows")


@tool("exec of a script")
def execute(place):
    same(run(place.tree + b"/run.sh"), b"it runs\n", "output")
