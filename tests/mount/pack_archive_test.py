#!/usr/bin/python3
"""pack_archive_test.py PCRFS MAKE_PHOTOS: packing tars and zips, from a file and through a pipe.

What an archive's pack must hold is compared with a pack of the folder that the archive was made from: shard files byte
for byte where the order of names is the same, contents otherwise.
"""
import contextlib
import hashlib
import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest
import zipfile

PCRFS = os.path.abspath(sys.argv[1])
MAKE_PHOTOS = os.path.abspath(sys.argv[2])
TIMEOUT = 240
NOW = 1_700_000_000


def call(*words, stdin=None, **more):
    source = {"input": stdin} if stdin is not None else {"stdin": subprocess.DEVNULL}
    return subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=TIMEOUT, check=False,
                          **source, **more)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def entry(name, kind=tarfile.REGTYPE, data=b"", mtime=NOW, mode=0o644, link=""):
    info = tarfile.TarInfo(os.fsdecode(name))
    info.type, info.size, info.mtime, info.mode, info.linkname = kind, len(data), mtime, mode, os.fsdecode(link)
    return info, data


def folder(name, **more):
    return entry(name, tarfile.DIRTYPE, mode=more.pop("mode", 0o750), **more)


def tar(*entries, form=tarfile.PAX_FORMAT):
    """The bytes of a tar."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form, errors="surrogateescape") as archive:
        for info, data in entries:
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


class PackArchive(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.photos = tempfile.mkdtemp(prefix="pcrfs_archive_photos_")
        source = cls.photos + "/source"
        subprocess.run([MAKE_PHOTOS, source, "48"], check=True, stdout=subprocess.DEVNULL)
        os.mkdir(source + "/zempty", 0o700)
        with open(source + "/dunes/notes.txt", "wb") as file:
            file.write(b"no picture\n")
        for at, (path, _, names) in enumerate(sorted(os.walk(source))):
            for i, name in enumerate(names):
                os.utime(path + "/" + name, ns=(0, NOW * 10**9 + 1000 * at + i))
        for path, _, _ in os.walk(source):
            os.utime(path, ns=(0, NOW * 10**9 + 17))
        cls.source = source
        cls.tar = cls.photos + "/a.tar"
        subprocess.run(["tar", "--sort=name", "--format=pax", "-C", source, "-cf", cls.tar, "."], check=True)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.photos)

    def setUp(self):
        self.scratch = tempfile.mkdtemp(prefix="pcrfs_archive_")
        self.addCleanup(shutil.rmtree, self.scratch)
        self.made = 0

    # ---- helpers

    def new(self, name):
        self.made += 1
        return f"{self.scratch}/{self.made}.{name}"

    def jpeg(self):
        return read(f"{self.source}/dunes/{max(os.listdir(self.source + '/dunes'))}")

    def file(self, data, name="x.tar"):
        path = self.new(name)
        with open(path, "wb") as out:
            out.write(data)
        os.utime(path, (NOW, NOW))
        return path

    def pack(self, source, *options, stdin=None, dataset=None, status=0):
        """Packs, and returns the data set's folder and what was skipped: path -> (reason, detail)."""
        dataset = dataset or self.new("set")
        report = self.new("report")
        done = call(PCRFS, "pack", source, dataset, "--report", report, *options, stdin=stdin)
        self.assertEqual(done.returncode, status, done.stderr.decode(errors="replace"))
        skipped = {}
        with open(report, encoding="utf-8") as lines:
            for line in map(json.loads, lines):
                if line["kind"] == "skipped":
                    name = bytes.fromhex(line["path_hex"]) if "path_hex" in line else line["path"].encode()
                    skipped[name] = (line["reason"], line["detail"])
        return dataset, skipped

    def refused(self, source, *options, stdin=None, dataset=None):
        """The one sentence that a pack ends with; nothing of a new data set stays."""
        fresh = dataset is None
        dataset = dataset or self.new("set")
        done = call(PCRFS, "pack", source, dataset, *options, stdin=stdin)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        if fresh:
            self.assertFalse(os.path.exists(dataset + "/PCR_index.pb"))
        lines = [line for line in done.stderr.decode().splitlines() if "skipped" not in line]
        self.assertEqual(len(lines), 1, done.stderr)
        return lines[0]

    def content(self, dataset):
        """path -> (mode, mtime in ns, bytes or None for a folder) of everything, as it was packed."""
        out = self.new("out")
        done = call(PCRFS, "extract", "--original", dataset, out)
        self.assertEqual(done.returncode, 0, done.stderr)
        found = {}
        top = os.fsencode(out)
        for path, folders, files in os.walk(top):
            for name in folders + files:
                full = os.path.join(path, name)
                status = os.stat(full)
                data = None
                if name in files:
                    with open(full, "rb") as file:
                        data = file.read()
                found[os.path.relpath(full, top)] = (status.st_mode & 0o7777, status.st_mtime_ns, data)
        self.assertEqual(call(PCRFS, "verify", dataset).returncode, 0)
        return found

    def files(self, dataset):
        return {path: data for path, (_, _, data) in self.content(dataset).items() if data is not None}

    def assert_same_shards(self, one, other, but=()):
        self.assertEqual(sorted(os.listdir(one)), sorted(os.listdir(other)))
        for name in os.listdir(one):
            if name not in but:
                with open(one + "/" + name, "rb") as a, open(other + "/" + name, "rb") as b:
                    self.assertTrue(a.read() == b.read(), name)

    # ---- the same bytes as a folder's

    def test_a_sorted_tar_gives_the_folders_data_set_to_the_byte(self):
        options = ("--record-images", "7")
        folder_set, _ = self.pack(self.source, *options)
        for name, command in (("a.tar", None), ("a.tar.gz", ["gzip", "-c"]), ("a.tar.xz", ["xz", "-0c"]),
                              ("a.tar.zst", ["zstd", "-qc"]), ("a.tar.bz2", ["bzip2", "-c"])):
            with open(self.tar, "rb") as file:
                data = file.read()
            packed = subprocess.run(command, input=data, stdout=subprocess.PIPE, check=True).stdout if command else data
            path = self.file(packed, "no suffix tells")
            self.assert_same_shards(folder_set, self.pack(path, *options, "--jobs", "3")[0])
            self.assert_same_shards(folder_set, self.pack("-", *options, stdin=packed)[0])
        done = call(PCRFS, "verify", folder_set, "--source", self.tar)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"if it is an archive", done.stderr)

    def test_a_zip_holds_the_same(self):
        path = self.new("a.zip")
        subprocess.run(["zip", "-qr", path, "."], cwd=self.source, check=True)
        wanted = self.files(self.pack(self.source)[0])
        dataset, skipped = self.pack(path)
        self.assertEqual(skipped, {})
        self.assertEqual(self.files(dataset), wanted)
        self.assertIn("plain file", self.refused("-", stdin=read(path)))
        streamed = self.new("b.zip")  # sizes behind the data
        with open(streamed, "wb") as out:
            subprocess.run(["zip", "-qr", "-", "."], cwd=self.source, check=True, stdout=out)
        self.assertEqual(self.files(self.pack(streamed)[0]), wanted)

    # ---- names, attributes, missing folders

    def test_names_are_bytes_and_attributes_come_through(self):
        long = b"l" * 200 + b"/" + b"m" * 200 + b"/" + b"n" * 250
        names = [b"caf\xc3\xa9", b"cafe\xcc\x81", b"raw\xff\xfe", b"new\nline", long, b"deep/a/b/c"]
        for form in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
            data = tar(*(entry(name, data=name, mtime=-1, mode=0o4751) for name in names), form=form)
            for source, stdin in ((self.file(data), None), ("-", data)):
                found = self.content(self.pack(source, stdin=stdin)[0])
                for name in names:
                    self.assertEqual(found[name], (found[name][0], -(10**9), name))
                    self.assertEqual(found[name][0] & 0o777, 0o751)
                self.assertEqual(found[b"deep/a"][0], 0o755)
                self.assertEqual(found[b"deep/a"][1], NOW * 10**9 if stdin is None else -(10**9))

    def test_fractions_of_seconds_come_through(self):
        info, data = entry("a", data=b"x")
        info.mtime, info.pax_headers = NOW, {"mtime": f"{NOW}.123456789"}
        before, more = entry("b", data=b"y")
        before.pax_headers = {"mtime": "-1.25"}
        found = self.content(self.pack(self.file(tar((info, data), (before, more))))[0])
        self.assertEqual(found[b"a"][1], NOW * 10**9 + 123456789)
        self.assertEqual(found[b"b"][1], -1_250_000_000)

    def test_leading_dots_and_slashes_are_stripped_and_dot_dot_goes_nowhere(self):
        data = tar(folder("./", mode=0o710), entry("./a", data=b"1"), entry("/etc/b", data=b"2"),
                   entry("c//./d", data=b"3"), entry("../out", data=b"4"), entry("x/../../y", data=b"5"))
        for source, stdin in ((self.file(data), None), ("-", data)):
            dataset, skipped = self.pack(source, stdin=stdin)
            self.assertEqual(self.files(dataset), {b"a": b"1", b"etc/b": b"2", b"c/d": b"3"})
            self.assertEqual({path: why[0] for path, why in skipped.items()},
                             {b"../out": "outside", b"x/../../y": "outside"})
        self.assertFalse(os.path.exists(self.scratch + "/out"))

    def test_what_is_no_file_is_reported(self):
        data = tar(entry("fifo", tarfile.FIFOTYPE), entry("null", tarfile.CHRTYPE), entry("ok", data=b"1"),
                   entry("n" * 256, data=b"1"))
        dataset, skipped = self.pack(self.file(data), "--strict", status=3)
        self.assertEqual({path: why[0] for path, why in skipped.items()},
                         {b"fifo": "special_file", b"null": "special_file", b"n" * 256: "over_limits"})
        self.assertEqual(self.files(dataset), {b"ok": b"1"})

    def test_empty_folders_and_exclude(self):
        data = tar(folder("e", mode=0o711), folder("f"), folder("f/g"), entry("h/x.tmp", data=b"1"),
                   entry("h/y", data=b"2"))
        for source, stdin in ((self.file(data), None), ("-", data)):
            found = self.content(self.pack(source, "--exclude", "*.tmp", stdin=stdin)[0])
            self.assertEqual(sorted(found), [b"e", b"f", b"f/g", b"h", b"h/y"])
            self.assertEqual(found[b"e"][0], 0o711)

    # ---- paths that come twice, links

    def test_the_last_of_one_path_counts_in_a_file_and_the_first_in_a_stream(self):
        data = tar(entry("a", data=b"old"), entry("b", data=b"b"), entry("./a", data=b"new"))
        dataset, skipped = self.pack(self.file(data))
        self.assertEqual(self.files(dataset), {b"a": b"new", b"b": b"b"})
        self.assertEqual(skipped[b"a"][0], "conflict")
        dataset, skipped = self.pack("-", stdin=data)
        self.assertEqual(self.files(dataset), {b"a": b"old", b"b": b"b"})
        self.assertEqual(skipped[b"a"][0], "conflict")

    def test_a_file_where_a_folder_is_gives_way(self):
        data = tar(entry("a/b", data=b"1"), entry("a", data=b"2"), entry("c", data=b"3"), entry("c/d", data=b"4"),
                   entry("e", data=b"5"), folder("e"))
        dataset, skipped = self.pack(self.file(data))
        self.assertEqual(self.files(dataset), {b"a/b": b"1", b"c/d": b"4"})
        self.assertEqual({path: why[0] for path, why in skipped.items()},
                         {b"a": "conflict", b"c": "conflict", b"e": "conflict"})
        dataset, skipped = self.pack("-", stdin=data)
        self.assertEqual(self.files(dataset), {b"a/b": b"1", b"c": b"3", b"e": b"5"})
        self.assertEqual({path: why[0] for path, why in skipped.items()},
                         {b"a": "conflict", b"c/d": "conflict", b"e": "conflict"})

    def test_links_to_members_are_files(self):
        data = tar(entry("before", tarfile.SYMTYPE, link="d/target"), entry("d/target", data=b"bytes", mode=0o600),
                   entry("hard", tarfile.LNKTYPE, link="d/target"), entry("d/soft", tarfile.SYMTYPE, link="./target"),
                   entry("chain", tarfile.SYMTYPE, link="d/soft"), entry("x/up", tarfile.SYMTYPE, link="../hard"),
                   entry("abs", tarfile.SYMTYPE, link="/etc/passwd"), entry("out", tarfile.SYMTYPE, link="../../etc"),
                   entry("gone", tarfile.SYMTYPE, link="nothing"), entry("folder", tarfile.SYMTYPE, link="d"),
                   entry("c1", tarfile.SYMTYPE, link="c2"), entry("c2", tarfile.SYMTYPE, link="c1"),
                   entry("self", tarfile.LNKTYPE, link="self"))
        broken = {name: "broken_link" for name in (b"abs", b"out", b"gone", b"folder", b"c1", b"c2", b"self")}
        same = {name: b"bytes" for name in (b"before", b"d/target", b"hard", b"d/soft", b"chain", b"x/up")}
        for options in ((), ("--record-images", "1"), ("--record-bytes", "1")):
            dataset, skipped = self.pack(self.file(data), *options)
            self.assertEqual(self.files(dataset), same)
            self.assertEqual({path: why[0] for path, why in skipped.items()}, broken)
        self.assertEqual(self.content(dataset)[b"d/soft"][0], 0o600)  # of its target
        dataset, skipped = self.pack("-", stdin=data)  # where what comes later is not known
        del same[b"before"]
        self.assertEqual(self.files(dataset), same)
        self.assertEqual({path: why[0] for path, why in skipped.items()}, {**broken, b"before": "broken_link"})
        dataset, skipped = self.pack("-", "--record-images", "1", stdin=data)
        self.assertEqual(self.files(dataset), {b"d/target": b"bytes", b"hard": b"bytes", b"x/up": b"bytes"})
        self.assertIn("give the archive as a file", skipped[b"d/soft"][1])

    # ---- archives in archives

    def inner(self, name, **more):
        return tar(folder("./"), entry("./1.txt", data=name + b"1"), entry("./sub/2.txt", data=name + b"2"), **more)

    def test_tars_in_a_tar_are_folders(self):
        gz = subprocess.run(["gzip", "-c"], input=self.inner(b"b"), stdout=subprocess.PIPE, check=True).stdout
        zipped = io.BytesIO()
        with zipfile.ZipFile(zipped, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("in.txt", b"zipped" * 100)
        lone = subprocess.run(["gzip", "-c"], input=b"text" * 1000, stdout=subprocess.PIPE, check=True).stdout
        twice = tar(entry("k.tar", data=self.inner(b"k")))
        data = tar(entry("n01.tar", data=self.inner(b"a")), entry("n02.tar.gz", data=gz),
                   entry("n03.zip", data=zipped.getvalue()), entry("n04", data=twice), entry("lone.gz", data=lone),
                   entry("zeros", data=bytes(4096)), entry("text", data=b"t" * 3000))
        wanted = {b"n01/1.txt": b"a1", b"n01/sub/2.txt": b"a2", b"n02/1.txt": b"b1", b"n02/sub/2.txt": b"b2",
                  b"n03/in.txt": b"zipped" * 100, b"n04/k/1.txt": b"k1", b"n04/k/sub/2.txt": b"k2", b"lone.gz": lone,
                  b"zeros": bytes(4096), b"text": b"t" * 3000}
        for options in ((), ("--record-images", "2")):
            for source, stdin in ((self.file(data), None), ("-", data)):
                dataset, skipped = self.pack(source, "--nested", *options, stdin=stdin)
                self.assertEqual(skipped, {})
                self.assertEqual(self.files(dataset), wanted)
        self.assertEqual(len(self.files(self.pack(self.file(data))[0])), 7)

    def test_a_damaged_inner_archive_is_reported_and_the_rest_is_packed(self):
        cut = self.inner(b"a")[:1200]
        data = tar(entry("n01.tar", data=cut), entry("n02.tar", data=self.inner(b"b")))
        for source, stdin in ((self.file(data), None), ("-", data)):
            dataset, skipped = self.pack(source, "--nested", stdin=stdin)
            self.assertEqual(self.files(dataset)[b"n02/1.txt"], b"b1")
            self.assertEqual(skipped[b"n01"][0], "unreadable", skipped)

    def test_nesting_has_an_end(self):
        data = tar(entry("x", data=b"in"))
        for _ in range(12):
            data = tar(entry("t.tar", data=data))
        ((path, content),) = self.files(self.pack(self.file(data), "--nested")[0]).items()
        self.assertEqual(path, b"/".join([b"t"] * 8 + [b"t.tar"]))
        self.assertTrue(tarfile.open(fileobj=io.BytesIO(content)))

    # ---- odd and broken archives

    def test_what_is_no_archive_is_refused(self):
        self.assertIn("neither a tar nor a zip", self.refused(self.file(b"text" * 1000)))
        self.assertIn("is empty", self.refused(self.file(b"")))
        self.assertIn("is empty", self.refused("-", stdin=b""))
        gz = subprocess.run(["gzip", "-c"], input=b"text" * 1000, stdout=subprocess.PIPE, check=True).stdout
        self.assertIn("what it holds is neither", self.refused(self.file(gz)))
        self.assertIn("front to back", self.refused(self.tar, "--order", "shuffle"))
        self.assertIn("--nested", self.refused(self.source, "--nested"))
        os.mkfifo(self.scratch + "/fifo")
        self.assertIn("neither a folder nor a file", self.refused(self.scratch + "/fifo"))

    def test_an_empty_archive_is_an_empty_data_set(self):
        for data in (tar(), bytes(1024)):
            self.assertEqual(self.content(self.pack(self.file(data))[0]), {})
            self.assertEqual(self.content(self.pack("-", stdin=data)[0]), {})
        empty = io.BytesIO()
        zipfile.ZipFile(empty, "w").close()
        self.assertEqual(self.content(self.pack(self.file(empty.getvalue()))[0]), {})

    def test_an_archive_that_is_cut_off_or_damaged_is_refused_whole(self):
        with open(self.tar, "rb") as file:
            data = file.read()
        for cut in (len(data) // 3, len(data) // 2 + 100):
            self.assertIn("runcated", self.refused(self.file(data[:cut])))
        gz = bytearray(subprocess.run(["gzip", "-c"], input=data, stdout=subprocess.PIPE, check=True).stdout)
        self.refused(self.file(gz[:len(gz) // 2]))
        self.refused(self.file(gz[:-6]))
        gz[-8] ^= 1  # the checksum behind the last byte
        self.refused(self.file(gz))
        data = bytearray(data)
        data[data.index(b"ustar\0", 4096) - 257 + 148] ^= 0x55  # in a header's checksum
        self.refused(self.file(data))

    def test_a_tar_that_is_cut_off_between_two_members_is_refused(self):
        data = tar(entry("a", data=b"x" * 512), form=tarfile.USTAR_FORMAT)[:1024]
        self.assertIn("end mark", self.refused(self.file(data)))
        self.assertIn("end mark", self.refused("-", stdin=data))
        self.assertEqual(self.files(self.pack("-", stdin=data + bytes(1024))[0]), {b"a": b"x" * 512})

    def test_sparse_members_have_their_holes(self):
        path = self.scratch + "/sparse"
        with open(path, "wb") as file:
            file.write(b"start")
            file.seek(40 << 20)
            file.write(b"middle")
            file.truncate(50 << 20)
        with open(path, "rb") as file:
            wanted = hashlib.sha256(file.read()).digest()
        for form in ("gnu", "pax"):
            made = self.new("s.tar")
            subprocess.run(["tar", "-S", "--format=" + form, "-C", self.scratch, "-cf", made, "sparse"], check=True)
            self.assertLess(os.path.getsize(made), 1 << 20)
            for options in ((), ("--record-bytes", "1MiB")):  # held, and streamed
                for source, stdin in ((made, None), ("-", read(made))):
                    found = self.files(self.pack(source, *options, stdin=stdin)[0])
                    self.assertEqual(hashlib.sha256(found[b"sparse"]).digest(), wanted)

    def test_files_larger_than_a_shard_are_streamed(self):
        big = random.Random(1).randbytes(3 << 20)
        jpeg = self.jpeg()
        data = tar(entry("a", data=b"1"), entry("big", data=big), entry("p.jpg", data=jpeg),
                   entry("hard", tarfile.LNKTYPE, link="big"), entry("z", data=b"2"))
        wanted = {b"a": b"1", b"big": big, b"p.jpg": jpeg, b"hard": big, b"z": b"2"}
        path = self.file(data)
        first = self.pack(path, "--record-bytes", "1kB")[0]
        self.assertEqual(self.files(first), wanted)
        self.assert_same_shards(first, self.pack(path, "--record-bytes", "1kB", "--jobs", "4")[0])
        del wanted[b"hard"]
        self.assertEqual(self.files(self.pack("-", "--record-bytes", "1kB", stdin=data)[0]), wanted)

    def test_zips_with_any_names_and_a_wrong_byte(self):
        made = io.BytesIO()
        with zipfile.ZipFile(made, "w") as archive:
            archive.writestr("caf\u00e9/x", b"1" * 100)
            archive.writestr("plain", b"2" * 100)
        cp437 = bytearray(made.getvalue()).replace(b"plain", b"pl\x84in")
        self.assertEqual(self.files(self.pack(self.file(cp437))[0]),
                         {"caf\u00e9/x".encode(): b"1" * 100, b"pl\x84in": b"2" * 100})
        damaged = bytearray(made.getvalue()).replace(b"2" * 100, b"2" * 99 + b"3")
        dataset, skipped = self.pack(self.file(damaged))
        self.assertEqual(skipped[b"plain"][0], "unreadable")
        self.assertEqual(list(self.files(dataset)), ["caf\u00e9/x".encode()])

    def test_an_encrypted_zip_is_refused(self):
        path = self.new("e.zip")
        subprocess.run(["zip", "-qrP", "secret", path, "dunes"], cwd=self.source, check=True)
        self.assertIn("encrypted", self.refused(path))
        with open(path, "rb") as file:
            data = tar(entry("in.zip", data=file.read()), entry("ok", data=b"1"))
        dataset, skipped = self.pack(self.file(data), "--nested")
        self.assertEqual(self.files(dataset), {b"ok": b"1"})
        self.assertTrue(skipped)

    # ---- interruptions

    def killed_pack(self, dataset, source, *options, stdin=None, after=1):
        """Kills a pack when so many shards lie there. Returns how many do."""
        with open(stdin, "rb") if stdin else contextlib.nullcontext(subprocess.DEVNULL) as piped:
            with subprocess.Popen([PCRFS, "pack", source, dataset, "--jobs", "2", *options], stdin=piped,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
                deadline = time.monotonic() + TIMEOUT
                while process.poll() is None and time.monotonic() < deadline:
                    with contextlib.suppress(FileNotFoundError):
                        if sum(name.endswith((".pcr", ".files")) for name in os.listdir(dataset)) >= after:
                            break
                    time.sleep(0.002)
                process.send_signal(signal.SIGKILL)
        self.assertTrue(os.path.exists(dataset + "/pack.plan"), "killed too late")
        return sum(name.endswith((".pcr", ".files")) for name in os.listdir(dataset))

    def test_a_killed_pack_goes_on_and_ends_with_the_same_bytes(self):
        options = ("--record-images", "4")
        whole, _ = self.pack(self.tar, *options)
        for source, stdin in ((self.tar, None), ("-", self.tar)):
            dataset = self.new("set")
            for after in (1, 4, 8):
                kept = self.killed_pack(dataset, source, *options, stdin=stdin, after=after)
                self.assertGreater(kept, 0)
            before = {name: os.stat(dataset + "/" + name).st_mtime_ns for name in os.listdir(dataset)
                      if name.endswith(".pcr")}
            data = read(self.tar) if stdin else None
            self.pack(source, *options, dataset=dataset, stdin=data)
            self.assert_same_shards(whole, dataset)
            for name, mtime in before.items():
                self.assertEqual(os.stat(dataset + "/" + name).st_mtime_ns, mtime, "a whole shard was written anew")

    def test_another_archive_does_not_go_on(self):
        options = ("--record-images", "4")
        copy = self.file(read(self.tar))
        dataset = self.new("set")
        self.killed_pack(dataset, copy, *options, after=2)
        self.assertIn("other options", self.refused(copy, "--record-images", "5", dataset=dataset))
        self.assertIn("other options", self.refused(copy, "--nested", *options, dataset=dataset))
        os.utime(copy, (NOW, NOW + 1))
        self.assertIn("size or time", self.refused(copy, *options, dataset=dataset))
        self.assertIn("another source", self.refused(self.source, *options, dataset=dataset))

    def test_another_stream_does_not_go_on(self):
        options = ("--record-images", "4")
        with open(self.tar, "rb") as file:
            data = file.read()
        dataset = self.new("set")
        self.killed_pack(dataset, "-", *options, stdin=self.tar, after=3)
        changed = bytearray(data)
        at = data.index(b"\xff\xd8\xff") + 40
        changed[at] ^= 1
        self.assertIn("send the same archive again", self.refused("-", *options, dataset=dataset, stdin=bytes(changed)))
        self.assertIn("send the same archive again",
                      self.refused("-", *options, dataset=dataset, stdin=tar(folder("q"), entry("q/x", data=b"1"))))
        self.pack("-", *options, dataset=dataset, stdin=data)
        self.assert_same_shards(self.pack(self.tar, *options)[0], dataset)

    def test_a_stream_that_breaks_off_can_be_sent_again(self):
        options = ("--record-images", "4")
        data = read(self.tar)
        dataset = self.new("set")
        cut = data.index(b"\xff\xd8\xff", len(data) * 2 // 3) + 1000
        self.assertIn("standard input", self.refused("-", *options, dataset=dataset, stdin=data[:cut]))
        self.pack("-", *options, dataset=dataset, stdin=data)
        self.assert_same_shards(self.pack(self.tar, *options)[0], dataset)

    def test_an_archive_that_changes_meanwhile_is_not_published(self):
        copy = self.file(tar(*(entry(f"{i:04}.jpg", data=self.jpeg()) for i in range(1000))))  # more than is read ahead
        dataset = self.new("set")
        with subprocess.Popen([PCRFS, "pack", copy, dataset, "--record-images", "2", "--jobs", "1"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
            deadline = time.monotonic() + TIMEOUT
            while not os.path.exists(dataset + "/PCR_0.pcr") and time.monotonic() < deadline:
                time.sleep(0.002)
            os.utime(copy, (NOW, NOW + 5))
            _, said = process.communicate(timeout=TIMEOUT)
        self.assertEqual(process.returncode, 1, said)
        self.assertIn(b"was changed while it was packed", said)
        self.assertFalse(os.path.exists(dataset + "/PCR_index.pb"))

    def test_labels_of_a_stream_are_numbered_as_folders_come_up(self):
        jpeg = self.jpeg()
        data = tar(entry("z/1.jpg", data=jpeg), entry("a/2.jpg", data=jpeg), entry("z/3.jpg", data=jpeg))
        indexes = []
        for source, stdin in ((self.file(data), None), ("-", data)):
            dataset, _ = self.pack(source, stdin=stdin)
            self.assertEqual(call(PCRFS, "verify", dataset).returncode, 0)
            with open(dataset + "/PCR_index.pb", "rb") as index:
                indexes.append(index.read())
            self.assertIn(b"order=archive", indexes[-1])
        self.assertIn(b"\x12\x01a\x12\x01z", indexes[0])
        self.assertIn(b"\x12\x01z\x12\x01a", indexes[1])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
