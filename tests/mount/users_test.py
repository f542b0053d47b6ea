#!/usr/bin/python3
"""users_test.py PCRFS MAKE_PHOTOS: who may mount, who may read, and what mount options say about it.

Runs as root, in a mount namespace of its own where /dev/fuse can be opened by everyone (as on most machines) and
/etc/fuse.conf is the test's. Users other than root mount through fusermount3.
"""
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import level_trees  # noqa: E402
from real_mount import (TIMEOUT, Pcrfs, eventually, in_own_namespace, is_mounted, mount_line, open_fuse_node,  # noqa: E402
                        run, scratch_folder)

NOBODY, SOMEBODY, GROUP = 65534, 1234, 4321  # fusermount3 mounts only for users that have a name
FUSE_CONF = "/etc/fuse.conf"


def setUpModule():
    global scratch, pcrfs, dataset, wanted, stack, fuse_node
    stack = contextlib.ExitStack()
    scratch = stack.enter_context(scratch_folder())
    os.chmod(scratch, 0o755)
    program = scratch + b"/pcrfs"  # the build folder may be closed to others
    shutil.copy(sys.argv[1], program)
    pcrfs = Pcrfs(program, scratch)
    source, dataset, wanted = (scratch + name for name in (b"/photos", b"/data set", b"/wanted"))
    level_trees.make_source(sys.argv[2], source, 3)
    pcrfs("pack", source, dataset)
    run("chmod", "-R", "a+rX", dataset)
    level_trees.make_levels(source, dataset, wanted, [3])
    run("chown", "-R", str(NOBODY), wanted)
    os.mkdir(scratch + b"/devices")
    fuse_node = stack.enter_context(open_fuse_node(scratch + b"/devices"))
    with open(scratch + b"/fuse.conf", "wb"):
        pass
    if not os.path.exists(FUSE_CONF):
        raise AssertionError(f"there is no {FUSE_CONF} to put another over; Debian's package fuse3 brings it")
    run("mount", "--bind", scratch + b"/fuse.conf", FUSE_CONF)


def tearDownModule():
    run("umount", FUSE_CONF)
    stack.close()


def as_user(user, *words, group=None):
    """How a command ends that another user runs."""
    return subprocess.run(words, user=user, group=group or user, extra_groups=[], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=TIMEOUT, check=False, cwd="/",
                          env=dict(os.environ, LC_ALL="C", PCRFS_CACHE_DIR=os.fsdecode(scratch) + f"/cache of {user}"))


def can_read(path, user, group=None):
    return as_user(user, "cat", path, group=group).returncode == 0


def processes_of(mount_point):
    """Daemons with that mount point on their command line."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/cmdline", "rb") as words:
                if mount_point in words.read().split(b"\0"):
                    found.append(int(name))
    return found


class Users(unittest.TestCase):
    def setUp(self):
        self.mount_point = scratch + b"/mount " + self.id().rsplit(".", 1)[1].encode()
        os.mkdir(self.mount_point)
        os.chown(self.mount_point, NOBODY, NOBODY)
        cache = scratch + b"/cache of %d" % NOBODY
        if not os.path.exists(cache):
            os.mkdir(cache, 0o700)
            os.chown(cache, NOBODY, NOBODY)
        self.addCleanup(self.leave_nothing)

    def leave_nothing(self):
        while is_mounted(self.mount_point):
            run("umount", "-l", self.mount_point)
        with open(scratch + b"/fuse.conf", "wb"):
            pass
        os.chmod(fuse_node, 0o666)

    def mount_as(self, user, *options, status=0):
        done = as_user(user, pcrfs.program, "mount", dataset, self.mount_point, *options)
        self.assertEqual(done.returncode, status, done.stderr.decode())
        self.assertEqual(is_mounted(self.mount_point), status == 0)
        if status != 0:
            self.assertTrue(eventually(lambda: processes_of(self.mount_point) == []))
        return done.stderr.decode().strip().splitlines()

    def at(self, path):
        return self.mount_point + b"/" + path


class NotRootTest(Users):
    def test_a_user_mounts_reads_everything_and_unmounts(self):
        self.assertEqual(self.mount_as(NOBODY), [])
        options = mount_line(self.mount_point)
        for option in ("ro", "nosuid", "nodev", f"user_id={NOBODY}", "default_permissions"):
            self.assertIn(option, options)
        compared = as_user(NOBODY, "diff", "-r", self.at(b"scan3"), wanted + b"/scan3")
        self.assertEqual((compared.returncode, compared.stdout, compared.stderr), (0, b"", b""))
        self.assertEqual(as_user(NOBODY, "stat", "-c", "%u %a", self.at(b"scan3/private.txt")).stdout,
                         b"%d 400\n" % NOBODY)
        done = as_user(NOBODY, pcrfs.program, "umount", self.mount_point)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertFalse(is_mounted(self.mount_point))

    def test_others_are_kept_out_also_root_who_may_unmount(self):
        self.mount_as(NOBODY)
        with self.assertRaises(PermissionError):
            os.listdir(self.mount_point)
        self.assertFalse(can_read(self.at(b"scan3/root.jpg"), SOMEBODY))
        refused = as_user(SOMEBODY, pcrfs.program, "umount", self.mount_point)
        self.assertEqual(refused.returncode, 1)
        self.assertIn(b"is user %d's" % NOBODY, refused.stderr)
        self.assertTrue(is_mounted(self.mount_point))
        pcrfs("umount", self.mount_point)
        self.assertFalse(is_mounted(self.mount_point))

    def test_allow_other_is_refused_and_the_sentence_says_what_allows_it(self):
        for options in (["-o", "allow_other"], ["-f", "-o", "allow_other,level=3"]):
            said = self.mount_as(NOBODY, *options, status=1)
            self.assertEqual(len(said), 1, said)
            self.assertRegex(said[0], "^pcrfs: cannot mount on .*: fusermount3: .* allow_other .*'user_allow_other'")

    def test_allow_other_works_where_fuse_conf_allows_it(self):
        with open(scratch + b"/fuse.conf", "wb") as conf:
            conf.write(b"# as an administrator writes it\nuser_allow_other\n")
        self.assertEqual(self.mount_as(NOBODY, "-o", "allow_other"), [])
        self.assertIn("allow_other", mount_line(self.mount_point))
        self.assertTrue(can_read(self.at(b"scan3/root.jpg"), SOMEBODY))
        self.assertFalse(can_read(self.at(b"scan3/private.txt"), SOMEBODY))
        self.assertTrue(can_read(self.at(b"scan3/private.txt"), NOBODY))
        self.assertTrue(can_read(self.at(b"scan3/private.txt"), 0))

    def test_a_killed_daemon_is_replaced_by_its_user_and_its_mount_taken_down(self):
        self.mount_as(NOBODY)
        for command in ("mount", "umount"):
            [daemon] = processes_of(self.mount_point)
            os.kill(daemon, signal.SIGKILL)
            self.assertTrue(eventually(lambda: as_user(NOBODY, "ls", self.mount_point).returncode != 0))
            if command == "mount":
                self.mount_as(NOBODY)
                self.assertTrue(can_read(self.at(b"scan3/root.jpg"), NOBODY))
            else:
                done = as_user(NOBODY, pcrfs.program, "umount", self.mount_point)
                self.assertEqual(done.returncode, 0, done.stderr)
        self.assertFalse(is_mounted(self.mount_point))

    def test_root_of_a_user_namespace_mounts_as_containers_do(self):
        inside = ["unshare", "--user", "--map-root-user", "--mount"]
        if as_user(NOBODY, *inside, "true").returncode != 0:
            self.skipTest("NOT TESTED: this kernel does not let users make namespaces")
        script = '"$1" mount "$2" "$3" -o allow_other && diff -r "$3/scan3" "$4" && "$1" umount "$3" && ! ls "$3/scan3"'
        done = as_user(NOBODY, *inside, "sh", "-c", script, "sh", pcrfs.program, dataset, self.mount_point,
                       wanted + b"/scan3")
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)

    def test_a_device_that_the_user_may_not_open_is_named(self):
        os.chmod(fuse_node, 0o600)
        said = self.mount_as(NOBODY, status=1)
        self.assertEqual(len(said), 1)
        self.assertIn("cannot open /dev/fuse", said[0])
        self.assertIn("chmod 666", said[0])

    def test_a_mount_point_of_someone_else_is_refused(self):
        os.chown(self.mount_point, 0, 0)
        [said] = self.mount_as(NOBODY, status=1)
        self.assertRegex(said, "^pcrfs: cannot mount on .*: fusermount3: ")


class RootTest(Users):
    def test_read_only_without_devices_and_setuid_whatever_is_asked(self):
        for options in ("rw,suid,dev,exec", "ro,nosuid,nodev", "defaults,user,auto,_netdev,noatime"):
            with pcrfs.mounted(dataset, options, at=self.mount_point):
                line = mount_line(self.mount_point)
                for option in ("ro", "nosuid", "nodev", "default_permissions"):
                    self.assertIn(option, line)
                self.assertNotIn("noexec", line)
                self.assertNotIn("rw", line)
                run(self.at(b"scan3/run.sh"))

    def test_noexec_keeps_programs_from_being_run(self):
        with pcrfs.mounted(dataset, "noexec", at=self.mount_point):
            self.assertIn("noexec", mount_line(self.mount_point))
            self.assertEqual(run("sh", self.at(b"scan3/run.sh")), b"it runs\n")
            with self.assertRaises(PermissionError):
                subprocess.run([self.at(b"scan3/run.sh")], check=False)

    def test_owner_group_and_umask_decide_who_reads(self):
        owner, group = f"uid={SOMEBODY}", f"gid={GROUP}"
        by_owner, by_group, by_other = (SOMEBODY, NOBODY), (NOBODY, GROUP), (NOBODY, NOBODY)
        for options, public, private in (
                ("allow_other", {by_owner, by_group, by_other}, set()),
                (f"allow_other,{owner}", {by_owner, by_group, by_other}, {by_owner}),
                (f"allow_other,{owner},umask=077", {by_owner}, {by_owner}),
                (f"allow_other,{owner},{group},umask=007", {by_owner, by_group}, {by_owner}),
                (f"allow_other,{group},umask=007", {by_group}, set()),
                (f"allow_other,{owner},umask=400", {by_group, by_other}, set()),
                (owner, set(), set())):
            with self.subTest(options), pcrfs.mounted(dataset, options, at=self.mount_point):
                for path, allowed in (b"scan3/root.jpg", public), (b"scan3/private.txt", private):
                    self.assertEqual({who for who in (by_owner, by_group, by_other)
                                      if can_read(self.at(path), who[0], who[1])}, allowed, path)
                self.assertTrue(can_read(self.at(b"scan3/private.txt"), 0))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    in_own_namespace()
    unittest.main(argv=sys.argv[:1], verbosity=2)
