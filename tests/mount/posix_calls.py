"""System calls on a read-only tree, as rows: call, condition, and what to do. posix_test.py runs them.

Each action runs with the tree as its working directory and returns what it saw; an OSError is its answer, too. The tree
holds `current` (a link to scan10) and scan10, the tree that level_trees.make_source makes.
"""
import ctypes
import errno
import fcntl
import mmap
import os
import socket
import stat
import struct

FILE, EMPTY_FILE, SCRIPT, PRIVATE = "scan10/large.bin", "scan10/nothing.txt", "scan10/run.sh", "scan10/private.txt"
FOLDER, EMPTY_FOLDER = "scan10/empty", "scan10/empty/er"
CLOSED, SEARCH, LISTED = "scan10/closed", "scan10/search", "scan10/listed"  # modes 0500, 0511, 0555
LINK, MISSING, NO_FOLDER, THROUGH = "current", "scan10/missing", "scan10/missing/below", FILE + "/below"
LONG_NAME, LONG_MISSING, LONG_PATH = "scan10/" + "n" * 256, "scan10/" + "m" * 255, "./" * 2048 + FILE
OUTSIDE = "/tmp"

LIBC = ctypes.CDLL(None, use_errno=True)
AT_FDCWD, AT_EMPTY_PATH, AT_EACCESS, AT_SYMLINK_NOFOLLOW = -100, 0x1000, 0x200, 0x100
RENAME_NOREPLACE, RENAME_EXCHANGE = 1, 2
FS_IOC_SETFLAGS, F_SETLEASE, F_RDLCK = 0x40086602, 1024, 0
SYS_OPENAT2, SYS_FACCESSAT2 = 437, 439
RESOLVE_NO_XDEV, RESOLVE_BENEATH = 1, 8


def libc(name, *arguments):
    """A call that Python's os has not, or not with its flags."""
    if getattr(LIBC, name)(*[os.fsencode(a) if isinstance(a, str) else a for a in arguments]) == -1:
        raise OSError(ctypes.get_errno(), name)


def opened(path, flags, mode=0o600):
    os.close(os.open(path, flags, mode))


def open2(path, resolve):
    how = struct.pack("QQQ", os.O_RDONLY, 0, resolve)
    libc("syscall", SYS_OPENAT2, AT_FDCWD, path, how, ctypes.c_size_t(len(how)))


def on_descriptor(path, action, flags=os.O_RDONLY):
    """What `action` gives on an open file."""
    descriptor = os.open(path, flags)
    try:
        return action(descriptor)
    finally:
        os.close(descriptor)


def and_back(change):
    """Changes the working directory for a moment."""
    on_descriptor(".", lambda back: (change(), os.fchdir(back)) and None)


def bind_socket(path):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)


def execute(path):
    """The child's exit status, or why it could not begin."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(os.open("/dev/null", os.O_WRONLY), 1)
        try:
            os.execv(path, ["program"])
        except OSError as error:
            os.write(writer, struct.pack("i", error.errno))
        finally:
            os._exit(1)
    os.close(writer)
    said = os.read(reader, 4)
    os.close(reader)
    status = os.waitpid(child, 0)[1]
    if said:
        raise OSError(struct.unpack("i", said)[0], path)
    return f"exit {status}"


def shared_writable_map(path):
    return on_descriptor(path, lambda fd: mmap.mmap(fd, 100, mmap.MAP_SHARED, mmap.PROT_WRITE).close())


def lookups():
    """Calls that only look at a path, each of them with each path that is hard to follow."""
    calls = {
        "stat": os.stat, "lstat": os.lstat, "open(O_RDONLY)": lambda path: opened(path, os.O_RDONLY),
        "open(O_PATH)": lambda path: opened(path, os.O_PATH), "access(F_OK)": lambda path: libc("access", path, 0),
        "chdir": lambda path: and_back(lambda: os.chdir(path)),
        "opendir": lambda path: os.scandir(path).close(), "readlink": os.readlink,
        "statfs": lambda path: os.statvfs(path).f_namemax, "getxattr": lambda path: os.getxattr(path, "user.x"),
        "execve": execute,
    }
    paths = {
        "a missing name": MISSING, "below a missing folder": NO_FOLDER, "below a file": THROUGH,
        "a file with a slash behind it": FILE + "/", "a file with /. behind it": FILE + "/.",
        "a file with /.. behind it": FILE + "/..", "a name of 256 bytes": LONG_NAME,
        "a missing name of 255 bytes": LONG_MISSING, "a path of more than 4095 bytes": LONG_PATH, "an empty path": "",
        "a folder with /. behind it": FOLDER + "/.", "a folder with /../empty behind it": FOLDER + "/../empty",
        "two slashes": FOLDER + "//er", "the link": LINK, "the link with a slash behind it": LINK + "/",
        "below the link": LINK + "/empty", "below a folder with mode 0500": CLOSED + "/in.txt",
        "below a folder with mode 0511": SEARCH + "/in.txt", "a folder with mode 0511": SEARCH,
        "a file with mode 0400": PRIVATE,
    }
    for condition, path in paths.items():
        for call, action in calls.items():
            yield call, condition, lambda action=action, path=path: action(path)


def permissions():
    for name, path in {"a file with mode 0444": FILE, "a file with mode 0400": PRIVATE, "a file with mode 0555": SCRIPT,
                       "a folder with mode 0500": CLOSED, "a folder with mode 0555": LISTED, "a missing name": MISSING,
                       "the link": LINK}.items():
        for letters, bits in {"R_OK": os.R_OK, "W_OK": os.W_OK, "X_OK": os.X_OK, "R_OK|W_OK": os.R_OK | os.W_OK}.items():
            yield f"access({letters})", name, lambda path=path, bits=bits: libc("access", path, bits)
        yield "faccessat2(W_OK, AT_EACCESS)", name, lambda path=path: libc(
            "syscall", SYS_FACCESSAT2, AT_FDCWD, path, os.W_OK, AT_EACCESS)


def opens():
    flags = {
        "O_WRONLY": os.O_WRONLY, "O_RDWR": os.O_RDWR, "O_RDONLY|O_TRUNC": os.O_TRUNC, "O_WRONLY|O_APPEND":
        os.O_WRONLY | os.O_APPEND, "O_RDONLY|O_APPEND": os.O_APPEND, "O_RDONLY|O_CREAT": os.O_CREAT,
        "O_CREAT|O_EXCL": os.O_CREAT | os.O_EXCL, "O_WRONLY|O_CREAT": os.O_WRONLY | os.O_CREAT, "O_DIRECTORY":
        os.O_DIRECTORY, "O_DIRECTORY|O_WRONLY": os.O_DIRECTORY | os.O_WRONLY, "O_NOFOLLOW": os.O_NOFOLLOW,
        "O_PATH|O_NOFOLLOW": os.O_PATH | os.O_NOFOLLOW, "O_TMPFILE|O_RDWR": os.O_TMPFILE | os.O_RDWR,
        "O_DIRECT": os.O_DIRECT, "O_NOATIME": os.O_NOATIME, "O_SYNC": os.O_SYNC, "O_NONBLOCK": os.O_NONBLOCK,
    }
    for name, path in {"a file": FILE, "a folder": FOLDER, "a missing name": MISSING, "the link": LINK,
                       "a file with mode 0400": PRIVATE, "below a missing folder": NO_FOLDER,
                       "a name of 256 bytes": LONG_NAME, "a missing name and a slash": MISSING + "/"}.items():
        for words, bits in flags.items():
            yield f"open({words})", name, lambda path=path, bits=bits: opened(path, bits)
    yield "openat2(RESOLVE_BENEATH)", "a file", lambda: open2(FILE, RESOLVE_BENEATH)
    yield "openat2(RESOLVE_BENEATH)", "a path that leaves the tree", lambda: open2("scan10/../../x", RESOLVE_BENEATH)
    yield "openat2(RESOLVE_NO_XDEV)", "a path that leaves the mount", lambda: open2("scan10/../..", RESOLVE_NO_XDEV)


def changes():
    """Calls that would change something, each with each path that matters to it."""
    make = {
        "mkdir": lambda path: os.mkdir(path), "mknod(file)": lambda path: os.mknod(path, stat.S_IFREG | 0o600),
        "mknod(device)": lambda path: os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 3)),
        "mkfifo": lambda path: os.mkfifo(path), "symlink": lambda path: os.symlink("target", path),
        "link(of a file)": lambda path: os.link(FILE, path), "bind(socket)": bind_socket,
        "rename(of a file)": lambda path: os.rename(FILE, path),
        "rename(of a folder)": lambda path: os.rename(EMPTY_FOLDER, path),
        "renameat2(of a file, RENAME_NOREPLACE)": lambda path: libc(
            "renameat2", AT_FDCWD, FILE, AT_FDCWD, path, RENAME_NOREPLACE),
        "renameat2(of a file, RENAME_EXCHANGE)": lambda path: libc(
            "renameat2", AT_FDCWD, FILE, AT_FDCWD, path, RENAME_EXCHANGE),
    }
    take = {
        "unlink": os.unlink, "rmdir": os.rmdir, "truncate(0)": lambda path: os.truncate(path, 0),
        "truncate(-1)": lambda path: libc("truncate", path, ctypes.c_long(-1)),
        "chmod": lambda path: os.chmod(path, 0o600), "chown": lambda path: os.chown(path, 1, 1),
        "chown(-1, -1)": lambda path: os.chown(path, -1, -1),
        "lchown": lambda path: os.lchown(path, 1, 1), "utimensat(now)": lambda path: os.utime(path),
        "utimensat(a time)": lambda path: os.utime(path, ns=(1, 1)),
        "utimensat(AT_SYMLINK_NOFOLLOW)": lambda path: os.utime(path, ns=(1, 1), follow_symlinks=False),
        "setxattr": lambda path: os.setxattr(path, "user.x", b"1"),
        "removexattr": lambda path: os.removexattr(path, "user.x"),
        "setxattr(an ACL)": lambda path: os.setxattr(path, "system.posix_acl_access", struct.pack("I", 2)),
        "rename(to a missing name)": lambda path: os.rename(path, MISSING),
        "rename(out of the tree)": lambda path: os.rename(path, OUTSIDE + "/pcrfs posix test"),
        "link(to a missing name)": lambda path: os.link(path, MISSING, follow_symlinks=False),
        "link(out of the tree)": lambda path: os.link(path, OUTSIDE + "/pcrfs posix test", follow_symlinks=False),
    }
    paths = {
        "a missing name": MISSING, "a file": FILE, "an empty folder": EMPTY_FOLDER, "a folder that is not empty": FOLDER,
        "the link": LINK, "below a missing folder": NO_FOLDER, "below a file": THROUGH, "a name of 256 bytes": LONG_NAME,
        "a path of more than 4095 bytes": LONG_PATH, "a folder with /. behind it": FOLDER + "/.",
        "a folder with /.. behind it": EMPTY_FOLDER + "/..", "a missing name and a slash": MISSING + "/",
        "a file and a slash": FILE + "/", "the mount's root": ".", "below a folder with mode 0500": CLOSED + "/in.txt",
        "a missing name in a folder with mode 0500": CLOSED + "/missing",
    }
    for condition, path in paths.items():
        for call, action in (make | take).items():
            if call == "bind(socket)" and len(path) > 100:
                continue  # the kernel's addresses are shorter
            yield call, condition, lambda action=action, path=path: action(path)
    yield "rename", "a folder into itself", lambda: os.rename(FOLDER, EMPTY_FOLDER + "/x")
    yield "rename", "a file to itself", lambda: os.rename(FILE, FILE)
    yield "rename", "a file over a folder", lambda: os.rename(FILE, FOLDER)
    yield "rename", "a folder over a file", lambda: os.rename(FOLDER, FILE)
    yield "rename", "of a file from outside", lambda: os.rename("/bin/sh", MISSING)
    yield "link", "of a file from outside", lambda: os.link("/bin/sh", MISSING)
    yield "linkat(AT_EMPTY_PATH)", "an open file", lambda: on_descriptor(FILE, lambda fd: libc(
        "linkat", fd, "", AT_FDCWD, MISSING, AT_EMPTY_PATH))


def on_open_files():
    calls = {
        "write": lambda fd: os.write(fd, b"x"), "pwrite": lambda fd: os.pwrite(fd, b"x", 0),
        "ftruncate": lambda fd: os.ftruncate(fd, 0), "posix_fallocate": lambda fd: os.posix_fallocate(fd, 0, 10),
        "fallocate(PUNCH_HOLE)": lambda fd: libc("fallocate", fd, 3, ctypes.c_long(0), ctypes.c_long(10)),
        "fchmod": lambda fd: os.fchmod(fd, 0o600), "fchown": lambda fd: os.fchown(fd, 1, 1),
        "futimens": lambda fd: os.utime(fd), "fsetxattr": lambda fd: os.setxattr(fd, "user.x", b"1"),
        "fsync": os.fsync, "fdatasync": os.fdatasync, "read": lambda fd: len(os.read(fd, 10)),
        "fchdir": lambda fd: and_back(lambda: os.fchdir(fd)), "getdents": lambda fd: len(os.listdir(fd)), "isatty": os.isatty,
        "fcntl(F_SETLEASE)": lambda fd: fcntl.fcntl(fd, F_SETLEASE, F_RDLCK),
        "fcntl(O_APPEND)": lambda fd: fcntl.fcntl(fd, fcntl.F_SETFL, os.O_APPEND),
        "ioctl(FS_IOC_SETFLAGS)": lambda fd: fcntl.ioctl(fd, FS_IOC_SETFLAGS, struct.pack("l", 0)) and None,
        "lseek(SEEK_HOLE)": lambda fd: os.lseek(fd, 0, os.SEEK_HOLE),
        "lseek(SEEK_DATA)": lambda fd: os.lseek(fd, 0, os.SEEK_DATA),
    }
    for call, action in calls.items():
        yield call, "an open file", lambda action=action: on_descriptor(FILE, action)
        yield call, "an open empty file", lambda action=action: on_descriptor(EMPTY_FILE, action)
        if not call.startswith("lseek"):
            yield call, "an open folder", lambda action=action: on_descriptor(EMPTY_FOLDER, action)
        yield call, "a file open with O_PATH", lambda action=action: on_descriptor(FILE, action, os.O_PATH)
    yield "mmap(MAP_SHARED, PROT_WRITE)", "an open file", lambda: shared_writable_map(FILE)
    yield "execve", "a script with mode 0555", lambda: execute(SCRIPT)
    yield "execve", "a file with mode 0444", lambda: execute(FILE)
    yield "execve", "a folder", lambda: execute(FOLDER)
    yield "fstat", "mode of a script that was setuid", lambda: oct(os.stat(SCRIPT).st_mode)
    yield "fstat", "mode of a folder that had 0744", lambda: oct(os.stat(LISTED).st_mode)


SECTIONS = {"Looking at a path": lookups, "Permissions": permissions, "Opening": opens, "Changing": changes,
            "Open files and programs": on_open_files}


def rows():
    """(section, call, condition, action)"""
    for section, group in SECTIONS.items():
        for call, condition, action in group():
            yield section, call, condition, action


def answer(action):
    """What a call gave, in a word: `ok`, a value, or the name of its errno."""
    try:
        value = action()
    except OSError as error:
        return errno.errorcode[error.errno]
    return "ok" if value is None or isinstance(value, os.stat_result) else str(value)
