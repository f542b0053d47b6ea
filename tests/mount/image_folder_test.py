#!/usr/bin/python3
"""image_folder_test.py PCRFS MAKE_PHOTOS: does a training script that is pointed at a mount of one level see the
source's classes and samples, and nothing else?

The scan is what image-folder loaders do: a class for each folder in the root, sorted; a sample for each image below it.
"""
import os
import subprocess
import sys
import unittest
import warnings

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from PIL import Image  # noqa: E402
from real_mount import Pcrfs, is_mounted, run, scratch_folder  # noqa: E402

EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")


def scan(root):
    """Classes, and (path below the root, number of its class) of each sample."""
    classes = sorted(entry.name for entry in os.scandir(root) if entry.is_dir())
    samples = []
    for number, name in enumerate(classes):
        for folder, _, files in sorted(os.walk(os.path.join(root, name), followlinks=True)):
            samples += [(os.path.relpath(os.path.join(folder, file), root), number) for file in sorted(files)
                        if file.lower().endswith(EXTENSIONS)]
    return classes, samples


class ImageFolderTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = os.fsdecode(cls.enterClassContext(scratch_folder()))
        cls.source, cls.dataset = scratch + "/photos", scratch + "/data set"
        run(sys.argv[2], cls.source, "24")
        cls.pcrfs = Pcrfs(sys.argv[1], os.fsencode(scratch))
        cls.pcrfs("pack", cls.source, cls.dataset, "--record-images", "5", "--order", "shuffle:7")

    def test_classes_and_samples_are_the_sources(self):
        expected = scan(self.source)
        self.assertEqual((len(expected[0]), len(expected[1])), (8, 24))
        for level in range(1, 11):
            with self.subTest(level), self.pcrfs.mounted(self.dataset, f"level={level}") as mount:
                self.assertEqual(scan(os.fsdecode(mount)), expected)
                self.assertEqual(sorted(os.listdir(os.fsdecode(mount))), expected[0])

    def test_samples_open_with_the_sources_sizes_and_at_the_highest_level_its_pixels(self):
        for level in (1, 3, 10):
            with self.pcrfs.mounted(self.dataset, f"level={level}") as mount, warnings.catch_warnings():
                warnings.simplefilter("error")
                for path, _ in scan(self.source)[1]:
                    with Image.open(os.path.join(os.fsdecode(mount), path)) as shown, \
                            Image.open(os.path.join(self.source, path)) as source:
                        self.assertEqual((shown.size, shown.mode), (source.size, source.mode), path)
                        self.assertEqual(shown.tobytes() == source.tobytes(), level == 10, path)

    def test_one_level_is_what_that_level_shows_beside_the_others(self):
        with self.pcrfs.mounted(self.dataset) as all_levels:
            self.assertEqual(scan(os.fsdecode(all_levels))[0], 
                             sorted([*(f"scan{k}" for k in range(1, 11)), "current", "original"]))
            for level in (2, 10):
                with self.pcrfs.mounted(self.dataset, f"level={level}") as one:
                    run("diff", "-r", one, all_levels + b"/scan%d" % level)

    def test_levels_that_cannot_be_are_refused_with_a_sentence(self):
        for level, status, said in (
                ("11", 1, "has 10 levels, not 11"), ("31", 1, "has 10 levels, not 31"), ("0", 2, "a level from 1 to 31"),
                ("32", 2, "a level from 1 to 31"), ("", 2, "a level from 1 to 31"), ("3x", 2, "a level from 1 to 31"),
                ("-1", 2, "a level from 1 to 31"), ("Original", 2, "or 'original'")):
            with self.subTest(level):
                mount = os.path.join(os.path.dirname(self.dataset), f"refused {level}")
                os.mkdir(mount)
                done = subprocess.run([self.pcrfs.program, "mount", self.dataset, mount, "-o", f"level={level}"],
                                      capture_output=True, check=False, env=dict(os.environ, **self.pcrfs.env))
                self.assertEqual(done.returncode, status)
                self.assertTrue(done.stderr.startswith(b"pcrfs: "), done.stderr)
                self.assertIn(said.encode(), done.stderr)
                self.assertFalse(is_mounted(os.fsencode(mount)))
                self.assertEqual(os.listdir(mount), [])


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    unittest.main(argv=sys.argv[:1], verbosity=2)
