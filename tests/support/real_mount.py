"""For Python tests that look at a real mount: folders that go away, packing, mounting in either mode, unmounting.

Paths are bytes, since names in a data set are. A machine that cannot mount fails these tests; nothing is skipped.
"""
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

TIMEOUT = 120  # seconds, for any one command


# So that what is mounted is also taken down when a test is told to end.
signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))


class Failed(Exception):
    """What a test found wrong, as a sentence."""


def run(*words, status=0, cwd=None, data=None, env=None):
    """Standard output of a command that must end with `status` and, when that is 0, say nothing on standard error."""
    try:
        done = subprocess.run(words, input=data, stdin=None if data is not None else subprocess.DEVNULL, cwd=cwd,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=TIMEOUT, check=False,
                              env=dict(os.environ, LC_ALL="C", TZ="UTC", **(env or {})))
    except FileNotFoundError as error:
        raise Failed(f"{error.filename!r} is not installed; examples/install_deps.sh test installs it") from error
    if done.returncode != status or (status == 0 and done.stderr):
        said = done.stderr.decode("utf-8", "replace").strip()
        raise Failed(f"{str(words)[:200]} ended with {done.returncode}, expected {status}: {said[-300:]}")
    return done.stdout


@contextlib.contextmanager
def scratch_folder():
    """A folder of the test's own, with a blank in its path, removed at the end with whatever is still mounted in it."""
    path = os.fsencode(tempfile.mkdtemp(prefix="pcrfs test."))
    try:
        yield path
    finally:
        for line in reversed(_mount_table()):
            if _unescaped(line[4]).startswith(path + b"/"):
                subprocess.run(["umount", "-l", _unescaped(line[4])], check=False)
        shutil.rmtree(path, ignore_errors=True)


def eventually(is_so):
    """Asks again and again, for ten seconds at most, until it is so."""
    for _ in range(500):
        if is_so():
            return True
        time.sleep(0.02)
    return False


def _mount_table():
    with open("/proc/self/mountinfo", "rb") as table:
        return [line.split() for line in table]


def _unescaped(field):
    return field.decode("unicode_escape").encode("latin-1")


def mount_lines(path):
    """Fields of mountinfo of all mounts at exactly `path`, the topmost last."""
    wanted = os.path.abspath(path)
    return [line for line in _mount_table() if _unescaped(line[4]) == wanted]


def is_mounted(path):
    return bool(mount_lines(path))


def mount_line(path):
    """Options of the mount at `path`, those of the mount and of the file system, as a list of words."""
    line = mount_lines(path)[-1]
    return os.fsdecode(line[5] + b"," + line[-1]).split(",")


class Pcrfs:
    """The built program with a cache folder of its own."""

    def __init__(self, program, scratch):
        self.program = os.path.abspath(program)
        self.scratch = scratch
        self.env = {"PCRFS_CACHE_DIR": os.path.join(scratch, b"cache")}

    def __call__(self, *words, status=0):
        return run(self.program, *words, status=status, env=self.env)

    @contextlib.contextmanager
    def mounted(self, dataset, options=None, foreground=False, at=None):
        """A mount of `dataset`, taken down at the end; gives its path."""
        mount_point = at or tempfile.mkdtemp(dir=self.scratch, prefix=b"mount ")
        words = [self.program, "mount", dataset, mount_point] + (["-o", options] if options else [])
        daemon = self._foreground(words, mount_point) if foreground else run(*words, env=self.env) and None
        try:
            yield mount_point
        finally:
            self._take_down(mount_point, daemon)

    def _foreground(self, words, mount_point):
        with open(os.path.join(self.scratch, b"foreground.log"), "ab") as log:
            daemon = subprocess.Popen(words + ["-f"], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                      env=dict(os.environ, **self.env))
        if eventually(lambda: is_mounted(mount_point) or daemon.poll() is not None) and daemon.poll() is None:
            return daemon
        daemon.kill()
        raise Failed(f"'pcrfs mount -f' did not mount within ten seconds, status {daemon.wait()}; its log says why")

    def _take_down(self, mount_point, daemon):
        try:
            if daemon is not None:
                daemon.send_signal(signal.SIGTERM)
                if daemon.wait(TIMEOUT) != 0:
                    raise Failed(f"'pcrfs mount -f' ended with {daemon.returncode} at SIGTERM")
            else:
                self("umount", mount_point)
        finally:
            if is_mounted(mount_point):
                subprocess.run(["umount", "-l", mount_point], check=False)


def require_root(what):
    """Ends the test with a failure that says what cannot be tested without root's rights."""
    if os.geteuid() != 0:
        sys.exit(f"NOT TESTED: {what}. That takes root's rights; run the tests as root.")


def in_own_namespace():
    """Runs this program again in a mount namespace of its own, which others do not see into."""
    require_root("mounts beside a data set's")
    if os.environ.get("PCRFS_TEST_NAMESPACE") != str(os.getppid()):
        environment = dict(os.environ, PCRFS_TEST_NAMESPACE=str(os.getpid()))
        done = subprocess.run(["unshare", "--mount", "--propagation", "private", sys.executable, *sys.argv],
                              env=environment, check=False)
        sys.exit(done.returncode)
    # Copies of other tests' mounts: their daemons would serve on here when they are unmounted there.
    subprocess.run(["umount", "-c", "-i", "-l", "-a", "-t", "fuse.pcrfs"], check=False)


@contextlib.contextmanager
def open_fuse_node(folder):
    """A /dev/fuse that everyone may open, as on most machines, in this mount namespace; gives the node's path."""
    run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", folder)
    node = os.path.join(folder, b"fuse")
    os.mknod(node, 0o020000, os.makedev(10, 229))
    os.chmod(node, 0o666)
    run("mount", "--bind", node, "/dev/fuse")
    try:
        yield node
    finally:  # a daemon that is just ending may still have it open
        run("umount", "-l", "/dev/fuse")
        run("umount", "-l", folder)
