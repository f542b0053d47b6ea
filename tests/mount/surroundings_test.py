#!/usr/bin/python3
"""surroundings_test.py PCRFS MAKE_PHOTOS: a mount among other mounts, and paths as nobody chooses them.

Overlayfs on top, bind mounts of parts, namespaces that outlive the mount; data sets and mount points with blanks,
commas, line feeds, backslashes, no UTF-8, and very long ones. As root, in a mount namespace of its own.
"""
import contextlib
import os
import shutil
import stat
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import level_trees  # noqa: E402
from real_mount import (TIMEOUT, Pcrfs, eventually, in_own_namespace, is_mounted, mount_lines, open_fuse_node,  # noqa: E402
                        run, scratch_folder)

NOBODY = 65534
ODD = [b"a,b", b" blank ", b"tab\tbed", b"line\nfeed", b"back\\slash", b"\\040", b"ends in \\", b"#hash", b"a=b,level=2",
       b"quo'\"te", b"\xff\xfe", b"\xc3\xa9t\xc3\xa9", b"\x01\x1b[31m", b"-o", b"%s%n", b"$(id)", b"n" * 255]


def setUpModule():
    global scratch, pcrfs, dataset, wanted, stack
    stack = contextlib.ExitStack()
    scratch = stack.enter_context(scratch_folder())
    pcrfs = Pcrfs(sys.argv[1], scratch)
    source, dataset, wanted = (scratch + name for name in (b"/photos", b"/data set", b"/wanted"))
    level_trees.make_source(sys.argv[2], source, 3)
    pcrfs("pack", source, dataset)
    level_trees.make_levels(source, dataset, wanted, [3, 10])


def tearDownModule():
    stack.close()


def read(path):
    with open(path, "rb") as file:
        return file.read()


def same_tree(shown, level):
    """Nothing, or what diff says of a tree and what a level must show."""
    done = subprocess.run(["diff", "-r", shown, wanted + b"/scan%d" % level], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=TIMEOUT, check=False)
    return done.stdout


def source_of(mount_point):
    """What mountinfo says is mounted there, as bytes."""
    line = mount_lines(mount_point)[-1]
    return line[line.index(b"-") + 2].decode("unicode_escape").encode("latin-1")


class Around(unittest.TestCase):
    def folder(self, name):
        path = scratch + b"/" + self.id().rsplit(".", 1)[1].encode() + b"." + name
        os.makedirs(path)
        return path

    @contextlib.contextmanager
    def mounted(self, *words):
        """Whatever mount(8) mounts at the last of the words."""
        run("mount", *words)
        try:
            yield words[-1]
        finally:
            run("umount", words[-1])


class OverlayTest(Around):
    @contextlib.contextmanager
    def overlay(self, lower):
        room, merged = self.folder(b"room"), self.folder(b"merged")
        with self.mounted("-t", "tmpfs", "tmpfs", room):
            os.mkdir(room + b"/upper")
            os.mkdir(room + b"/work")
            link = room + b"/lower"  # overlayfs takes ':' and ',' in paths for its own
            os.symlink(lower, link)
            options = b"lowerdir=" + link + b",upperdir=" + room + b"/upper,workdir=" + room + b"/work"
            with self.mounted("-t", "overlay", "-o", options, "overlay", merged):
                yield merged, room + b"/upper"

    def test_everything_is_seen_through_an_overlay(self):
        with pcrfs.mounted(dataset) as mount, self.overlay(mount + b"/scan3") as (merged, _):
            self.assertEqual(same_tree(merged, 3), b"")
            self.assertEqual(os.stat(merged + b"/root.jpg").st_mtime_ns, os.stat(mount + b"/scan3/root.jpg").st_mtime_ns)

    def test_changes_go_to_the_upper_layer_and_the_data_set_stays(self):
        with pcrfs.mounted(dataset, "level=10") as mount, self.overlay(mount) as (merged, upper):
            before = read(merged + b"/root.jpg")
            with open(merged + b"/root.jpg", "ab") as file:
                file.write(b"more")
            self.assertEqual(read(merged + b"/root.jpg"), before + b"more")
            self.assertEqual(read(upper + b"/root.jpg"), before + b"more")
            os.chmod(merged + b"/private.txt", 0o640)
            self.assertEqual(read(upper + b"/private.txt"), b"mode 0400\n")
            os.unlink(merged + b"/large.bin")
            self.assertTrue(stat.S_ISCHR(os.lstat(upper + b"/large.bin").st_mode))
            self.assertFalse(os.path.exists(merged + b"/large.bin"))
            shutil.rmtree(merged + b"/odd names")
            os.mkdir(merged + b"/odd names")  # hides the lower one as a whole
            self.assertEqual(os.listdir(merged + b"/odd names"), [])
            os.rename(merged + b"/nothing.txt", merged + b"/empty/renamed.txt")
            self.assertIn(b"renamed.txt", os.listdir(merged + b"/empty"))
            self.assertEqual(sorted(set(os.listdir(mount)) - set(os.listdir(merged))), [b"large.bin", b"nothing.txt"])
            self.assertEqual(same_tree(mount, 10), b"")

    def test_two_levels_can_be_layered(self):
        merged = self.folder(b"merged")
        with pcrfs.mounted(dataset, at=self.folder(b"mount")) as mount:
            run("mount", "-t", "tmpfs", "tmpfs", merged)
            try:
                links = [merged + b"/one", merged + b"/other"]
                for link, level in zip(links, (b"/scan3", b"/scan10"), strict=True):
                    os.symlink(mount + level, link)
                with self.mounted("-t", "overlay", "-o", b"lowerdir=" + b":".join(links), "overlay", merged):
                    self.assertEqual(same_tree(merged, 3), b"")
            finally:
                run("umount", merged)


class BindTest(Around):
    def test_one_levels_folder_can_be_bound_elsewhere(self):
        target = self.folder(b"target")
        with pcrfs.mounted(dataset) as mount, self.mounted("--bind", "-o", "ro", mount + b"/scan3", target):
            self.assertEqual(same_tree(target, 3), b"")
            self.assertEqual(os.stat(target + b"/..").st_ino, os.stat(scratch).st_ino)
            self.assertEqual(os.statvfs(target).f_blocks, os.statvfs(mount + b"/scan3").f_blocks)
            with self.assertRaises(OSError):
                os.mkdir(target + b"/new")

    def test_a_single_file_can_be_bound(self):
        target = self.folder(b"target") + b"/file"
        with open(target, "wb"):
            pass
        with pcrfs.mounted(dataset) as mount, self.mounted("--bind", mount + b"/scan10/root.jpg", target):
            self.assertEqual(read(target), read(wanted + b"/scan10/root.jpg"))

    def test_a_bound_part_goes_on_after_umount(self):
        target, mount = self.folder(b"target"), self.folder(b"mount")
        with pcrfs.mounted(dataset, at=mount):
            run("mount", "--bind", mount + b"/scan3", target)
        self.assertFalse(is_mounted(mount))
        self.assertEqual(same_tree(target, 3), b"")
        with pcrfs.mounted(dataset, "level=10", at=mount):  # the place is free
            self.assertEqual(same_tree(mount, 10), b"")
            self.assertEqual(same_tree(target, 3), b"")
        run("umount", target)


class NamespaceTest(Around):
    def test_a_namespace_that_outlives_umount_reads_on_and_then_the_daemon_ends(self):
        mount = self.folder(b"mount")
        pcrfs("mount", dataset, mount)
        reader = subprocess.Popen(["unshare", "--mount", "--propagation", "private", "sh", "-c",
                                   'echo ready; read go; cat "$1"; echo; read end', "sh", mount + b"/scan3/large.bin"],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.assertEqual(reader.stdout.readline(), b"ready\n")
        [daemon] = self.daemons(mount)
        done = subprocess.run([pcrfs.program, "umount", mount], stderr=subprocess.PIPE, timeout=TIMEOUT, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, b" is unmounted, but its daemon, process %s, has not ended" % daemon.encode())
        self.assertFalse(is_mounted(mount))
        self.assertEqual(self.daemons(mount), [daemon])
        reader.stdin.write(b"go\n")
        reader.stdin.flush()
        data = read(wanted + b"/scan3/large.bin") + b"\n"
        self.assertEqual(reader.stdout.read(len(data)), data)
        reader.communicate(b"end\n", timeout=TIMEOUT)
        self.assertTrue(eventually(lambda: not self.daemons(mount)))

    @staticmethod
    def daemons(mount_point):
        found = []
        for name in os.listdir("/proc"):
            with contextlib.suppress(OSError):
                if name.isdigit() and mount_point in read(f"/proc/{name}/cmdline").split(b"\0"):
                    found.append(name)
        return [name for name in found if b"pcrfs" in read(f"/proc/{name}/comm")]


class PathsTest(Around):
    def check(self, source, mount_point):
        """A mount that is up: the kernel, df, findmnt and a reader all say what it is."""
        self.assertEqual(source_of(mount_point), source)
        self.assertEqual(read(mount_point + b"/scan3/root.jpg"), read(wanted + b"/scan3/root.jpg"))
        self.assertEqual(run("findmnt", "-rno", "FSTYPE", "--mountpoint", mount_point), b"fuse.pcrfs\n")
        self.assertEqual(run("df", "--output=fstype", mount_point).split()[-1], b"fuse.pcrfs")

    def test_data_sets_with_odd_names(self):
        mount, sets = self.folder(b"mount"), self.folder(b"sets")
        for name in ODD:
            os.symlink(dataset, sets + b"/" + name)  # the mount is named for the path that was given
            with self.subTest(name), pcrfs.mounted(sets + b"/" + name, at=mount):
                self.check(sets + b"/" + name, mount)
            self.assertFalse(is_mounted(mount))

    def test_mount_points_with_odd_names(self):
        points = self.folder(b"points")
        for name in ODD:
            mount = points + b"/" + name
            os.mkdir(mount)
            with self.subTest(name), pcrfs.mounted(dataset, at=mount):
                self.check(dataset, mount)
            self.assertFalse(is_mounted(mount))

    def test_very_long_paths(self):
        # Together with a name in the data set or the mount, below the kernel's 4,095 bytes.
        deep = b"/".join([self.folder(b"long")] + [b"d" * 200] * 17)
        os.makedirs(deep + b"/mount")
        shutil.copytree(dataset, deep + b"/set")
        with pcrfs.mounted(deep + b"/set", at=deep + b"/mount"):
            self.check(deep + b"/set", deep + b"/mount")
        self.assertFalse(is_mounted(deep + b"/mount"))

    def test_relative_slashed_and_linked_mount_points(self):
        place = self.folder(b"place")
        mount = place + b"/real"
        os.mkdir(mount)
        os.symlink("real", place + b"/link")
        os.mkdir(place + b"/-dash")
        back = os.getcwd()
        os.chdir(place)
        self.addCleanup(os.chdir, back)
        for words, target in (([b"real"], mount), ([b"./real/"], mount), ([b"real///"], mount), ([b"link"], mount),
                              ([b"link/"], mount), ([place + b"/../" + os.path.basename(place) + b"/real"], mount),
                              ([b"--", b"-dash"], place + b"/-dash")):
            with self.subTest(words):
                pcrfs("mount", *words[:-1], dataset, words[-1])
                self.check(dataset, target)
                pcrfs("umount", *words)
                self.assertFalse(is_mounted(target))

    def test_a_mount_that_someone_works_in_is_in_use(self):
        mount = self.folder(b"mount")
        back = os.getcwd()
        self.addCleanup(os.chdir, back)
        os.chdir(mount)
        pcrfs("mount", dataset, b".")
        os.chdir(mount)  # into what is mounted there now
        done = subprocess.run([pcrfs.program, "umount", "."], capture_output=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"in use", done.stderr)
        self.assertTrue(is_mounted(mount))
        os.chdir(back)
        pcrfs("umount", mount)
        self.assertFalse(is_mounted(mount))

    def test_a_data_set_given_relatively_or_through_a_link(self):
        place = self.folder(b"place")
        os.symlink(dataset, place + b"/link")
        os.mkdir(place + b"/mount")
        back = os.getcwd()
        os.chdir(place)
        self.addCleanup(os.chdir, back)
        for given in (b"link", b"./link/", b"../data set"):
            with self.subTest(given), pcrfs.mounted(given, at=place + b"/mount"):
                self.assertTrue(source_of(place + b"/mount").startswith(b"/"))
                self.assertEqual(read(place + b"/mount/scan3/root.jpg"), read(wanted + b"/scan3/root.jpg"))


class OddPathsOfUsersTest(Around):
    """The same through fusermount3, which parses options and paths anew."""

    def test_odd_data_sets_and_mount_points_of_a_user(self):
        place = self.folder(b"place")
        for path in (scratch, place):
            os.chmod(path, 0o755)
        program = place + b"/pcrfs"
        shutil.copy(pcrfs.program, program)
        with open_fuse_node(self.folder(b"devices")):
            self.as_user(place, program)

    def as_user(self, place, program):
        readable = place + b"/a data set"
        run("cp", "-r", dataset, readable)
        run("chmod", "-R", "a+rX", readable)
        os.mkdir(place + b"/cache")
        os.chown(place + b"/cache", NOBODY, NOBODY)

        def user(*words):
            done = subprocess.run(words, user=NOBODY, group=NOBODY, extra_groups=[], capture_output=True, check=False,
                                  timeout=TIMEOUT, env=dict(os.environ, PCRFS_CACHE_DIR=os.fsdecode(place) + "/cache"))
            self.assertEqual((done.returncode, done.stderr), (0, b""))
            return done.stdout

        for i, name in enumerate(ODD):
            odd, mount = place + b"/" + name, place + b"/mount of %d " % i + name[:200]
            os.symlink(readable, odd)
            os.mkdir(mount)
            os.chown(mount, NOBODY, NOBODY)
            with self.subTest(name):
                user(program, "mount", odd, mount)
                self.assertEqual(source_of(mount), odd)
                self.assertEqual(user("cat", mount + b"/scan3/root.jpg"), read(wanted + b"/scan3/root.jpg"))
                user(program, "umount", mount)
                self.assertFalse(is_mounted(mount))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    in_own_namespace()
    unittest.main(argv=sys.argv[:1], verbosity=2)
