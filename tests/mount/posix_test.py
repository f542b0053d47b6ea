#!/usr/bin/python3
"""posix_test.py PCRFS MAKE_PHOTOS TABLE: does a mount answer every system call as a read-only file system does?

Runs the calls of posix_calls.py, as root and as another user, on a mount and on a read-only tmpfs that holds the same
tree, and compares both with TABLE (POSIX.md, beside this). What differs from tmpfs must be among DIFFERENT, with its
reason. With --write behind the arguments it writes the table anew instead of failing.
"""
import itertools
import os
import pickle
import shutil
import sys
import textwrap

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import level_trees  # noqa: E402
import posix_calls  # noqa: E402
from real_mount import Pcrfs, in_own_namespace, run, scratch_folder  # noqa: E402

OTHER_USER = 65534
HEAD = """# How a mount answers system calls

Each line is a call on a mount with `allow_other`, as root, who mounted it, and as another user. `posix_test.py` makes
them all; it fails when this page says otherwise, or when a read-only tmpfs that holds the same tree does (where it may,
the last section says why). The conditions are those that the public POSIX test suites try, as far as they apply to a
file system that is never written; list and code are our own. `posix_test.py ... --write` writes this page.

The order in which a call looks for what is wrong is the kernel's; these answers are those of Linux {kernel}.
"""
KERNEL = ".".join(os.uname().release.split(".")[:2])
# Where a mount and tmpfs may differ, and why: (call, answer of the mount, answer of tmpfs) -> reason.
DIFFERENT = {
    ("getxattr", "ENOTSUP", "ENODATA"): "getxattr is ENOTSUP, tmpfs says ENODATA: a data set has no extended attributes, "
                                        "and saying so once saves a request for each file",
}


def answers(tree, user):
    """Of each row, in a process of its own that has `tree` as its working directory."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.chdir(tree)  # as root: the folders above are the test's own
            if user:
                os.setgroups([])
                os.setresgid(user, user, user)
                os.setresuid(user, user, user)
            with open(writer, "wb") as pipe:
                pipe.write(pickle.dumps([posix_calls.answer(action) for *_, action in posix_calls.rows()]))
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, "rb") as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return pickle.loads(said)


def page_of(rows, by_root, by_user):
    """The page, in lines: calls that have one answer under one condition share a line."""
    lines = HEAD.format(kernel=KERNEL).splitlines()
    for section in posix_calls.SECTIONS:
        grouped, calls, in_condition = {}, {}, {}
        for (of, call, condition), *answer in zip(rows, by_root, by_user, strict=True):
            if of == section:
                grouped.setdefault((condition, *answer), []).append(call)
                calls[call] = in_condition.setdefault(condition, {})[call] = None
        lines += ["", f"## {section}", ""]
        if len(grouped) < 2 * len(in_condition) or len(calls) > 6:
            lines += textwrap.wrap("Calls: " + ", ".join(calls) + ".", 120, break_on_hyphens=False) + [""]
        lines += ["| condition | call | root | another user |", "|---|---|---|---|"]
        for (condition, root, user), some in grouped.items():
            every = len(some) == len(in_condition[condition]) > 3
            named = "all" if every else ", ".join(some).replace("|", "\\|")
            lines.append(f"| {condition} | {named} | {root} | {'the same' if user == root else user} |")
    return lines + ["", "## Not as tmpfs", ""] + [f"* {why}." for why in DIFFERENT.values()]


def reference(wanted, folder):
    """A read-only tmpfs with the tree as ordinary files: scan10 and the link to it."""
    os.mkdir(folder)
    run("mount", "-t", "tmpfs", "-o", "mode=555,nosuid,nodev", "tmpfs", folder)
    shutil.copytree(wanted, folder + b"/scan10", symlinks=True)
    os.symlink("scan10", folder + b"/current")
    run("mount", "-o", "remount,ro,nosuid,nodev", folder)
    return folder


def compare(rows, got, like, who):
    """What a mount and tmpfs answer differently without a known reason, in sentences."""
    return [f"{call}, {condition}, as {who}: {one}, tmpfs {other}"
            for (_, call, condition), one, other in zip(rows, got, like, strict=True)
            if one != other and (call, one, other) not in DIFFERENT]


def compare_page(page, lines):
    """What the page says otherwise; another kernel's page is another one, so there it is only told."""
    with open(page, encoding="utf-8") as file:
        written = file.read().splitlines()
    for here, there in itertools.zip_longest(lines, written):
        if here != there:
            said = f"{page} says\n  {there}\nand it is\n  {here}\n(--write writes it anew)"
            if any(line.endswith(f"those of Linux {KERNEL}.") for line in written):
                return [said]
            print("Not compared, since it was written on another kernel: " + said)
            break
    return []


def main(program, make_photos, page, write):
    in_own_namespace()
    rows = [row[:3] for row in posix_calls.rows()]
    users = {"root": 0, "another user": OTHER_USER}
    with scratch_folder() as scratch:
        source, dataset, wanted = (scratch + name for name in (b"/photos", b"/data set", b"/wanted"))
        pcrfs = Pcrfs(program, scratch)
        level_trees.make_source(make_photos, source, 3)
        pcrfs("pack", source, dataset)
        level_trees.make_levels(source, dataset, wanted, [10])
        like = reference(wanted + b"/scan10", scratch + b"/tmpfs")
        with pcrfs.mounted(dataset, "allow_other") as mount:
            got = {who: answers(mount, user) for who, user in users.items()}
        same = {who: answers(like, user) for who, user in users.items()}
        run("umount", like)
    wrong = [line for who in users for line in compare(rows, got[who], same[who], who)]
    lines = page_of(rows, *got.values())
    if write:
        with open(page, "w", encoding="utf-8") as out:
            out.write("\n".join(lines) + "\n")
    else:
        wrong += compare_page(page, lines)
    print("\n".join(wrong))
    print(f"{len(rows)} calls, as root and as another user: {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    if len(sys.argv) not in (4, 5):
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:4], write=sys.argv[4:] == ["--write"]))
