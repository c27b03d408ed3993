"""A pack as one file: it mounts itself once on a node, or is unpacked where that is asked for."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from pathlib import Path

import pytest

import mounting
import packs
from need import as_unprivileged, need
from packs import MOUNT, Stack, out, pack
from stackproof.pack.effects import one_file

EXPLAIN = {"STACKPROOF_PACK_EXPLAIN": "1"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder for everybody with `p.self`, of the small stack."""
    need("gcc", "mksquashfs", "patchelf")
    folder = tmp_path_factory.mktemp("one")
    done = pack(packs.small(folder), "-o", "p.self", cwd=folder)
    assert done.returncode == 0, done.stderr
    for above in (folder, *folder.parents[:-2]):
        above.chmod(above.stat().st_mode | 0o055)
    assert one_file.__doc__
    return folder


def plain(*argv: str | Path) -> list[str]:
    """Return a command of a user without rights."""
    words = [os.fspath(word) for word in argv]
    return as_unprivileged(words) if os.geteuid() == 0 else words


def test_parts_begin_at_pages_in_order() -> None:
    parts = one_file.lay_out(5000, [("l", "ld", 1), ("b", "libc", 4096), ("O", "", 10)])
    assert [(one.kind, one.begin, one.size) for one in parts] == [
        ("l", 8192, 1), ("b", 12288, 4096), ("O", 16384, 10),
    ]  # fmt: skip
    found = one_file.tools({"squashfuse": "/a", "squashfuse_ll": "/b", "unsquashfs": None})
    assert found == {"squashfuse": "/b"}


@pytest.mark.battery
def test_a_program_is_named_by_a_word_or_by_a_link(folder: Path) -> None:
    need("unprivileged-user", "unprivileged-userns")
    file = folder / "p.self"
    assert out(*plain(file, "--pack-list")).stdout.split() == ["hello", "say"]
    done = out(*plain(file, "hello", "a b"))
    name, answer, _, *words = done.stdout.split(maxsplit=3)
    assert (os.path.basename(name), answer, words) == ("hello", "42", ["a b\n"]), done.stderr
    link = folder / "hello"
    link.symlink_to("p.self")
    assert out(*plain(link, "x")).stdout.endswith("\nx\n")
    for words in ((), ("nothing",)):
        done = out(*plain(file, *words))
        assert done.returncode == 126
        assert "--pack-list` prints them" in done.stderr


@pytest.mark.battery
def test_the_only_program_needs_no_name(tmp_path: Path, folder: Path) -> None:
    need("userns")
    done = pack(folder / "stack.squashfs", "hello", "-o", "h.self", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert out(tmp_path / "h.self", "hello").stdout.endswith("/stack/lib\nhello\n")


def test_without_fuse_it_is_unpacked_to_memory_once(folder: Path) -> None:
    """For a user without rights, to whom the machine gives no /dev/fuse; nothing stays."""
    need("root", "unprivileged-user", "unprivileged-userns")
    before = sorted(os.listdir("/")), sorted(os.listdir(folder))
    hold = ["unshare", "--mount", "sh", "-c", 'mount --bind /dev/null /dev/fuse; exec "$@"', "sh"]
    argv = [*hold, *plain(folder / "p.self", "say", "x")]
    done = out(*argv, env={**os.environ, **EXPLAIN})
    assert done.stdout.splitlines()[1:] == ["said", "x"], done.stderr
    assert "made a mount namespace and unpacked to memory" in done.stderr
    assert (sorted(os.listdir("/")), sorted(os.listdir(folder))) == before


def test_squashfuse_of_the_file_itself_mounts_it_for_a_user(folder: Path) -> None:
    way = mounting.way("fuse", folder)
    argv = [*way.argv("env", "STACKPROOF_PACK_EXPLAIN=1", way.folder / "p.self", "say", "x")]
    done = out(*argv)
    assert done.stdout.splitlines()[1:] == ["said", "x"], done.stderr
    assert "made a mount namespace and mounted by squashfuse" in done.stderr


def test_root_has_it_mounted_by_the_kernel(folder: Path) -> None:
    need("root", "kernel-mount")
    done = out(folder / "p.self", "hello", env={**os.environ, **EXPLAIN})
    assert "and mounted by the kernel" in done.stderr
    assert str(folder) not in Path("/proc/self/mountinfo").read_text()


def test_it_is_unpacked_where_that_is_asked_for(folder: Path, tmp_path: Path) -> None:
    """No namespace is needed for that, nor by what is unpacked."""
    file, target = folder / "p.self", tmp_path / "a folder"
    deny = ["unshare", "--user", "--map-root-user", "sh", "-c",
            'echo 0 >/proc/sys/user/max_user_namespaces; exec "$@"', "sh",
            "setpriv", "--bounding-set=-all", "--inh-caps=-all"]  # fmt: skip
    need("userns")
    done = out(*deny, file, "hello")
    assert done.returncode == 126
    assert f"`{file} --pack-extract FOLDER`" in done.stderr
    done = out(*deny, file, "--pack-extract", target)
    assert done.returncode == 0, done.stderr
    done = out(*deny, target / "bin/hello")
    assert done.stdout == f"{target}/bin/hello 42 {target}/stack/lib\n", done.stderr
    for words, said in (((), "needs a folder"), ((target,), "it is there")):
        done = out(file, "--pack-extract", *words)
        assert (done.returncode, said in done.stderr) == (126, True)
    assert sorted(os.listdir(tmp_path)) == ["a folder"]


def test_a_disk_that_is_full_is_told(folder: Path, tmp_path: Path) -> None:
    need("root")
    script = 'mount -t tmpfs -o size=300k tmpfs "$0"; "$1" --pack-extract "$0/out"; ls "$0"; exit 9'
    done = out("unshare", "--mount", "sh", "-c", script, tmp_path, folder / "p.self")
    assert (done.returncode, done.stdout) == (9, "out.part\n")
    assert "is unpacked in part only" in done.stderr


def test_a_file_that_was_cut_off_is_told(folder: Path, tmp_path: Path) -> None:
    need("userns")
    part = tmp_path / "part"
    content = (folder / "p.self").read_bytes()
    for size in (len(content) // 2, len(content) - 400_000):
        part.write_bytes(content[:size])
        part.chmod(0o755)
        done = out(*plain(part, "--pack-list")) if os.geteuid() else out(part, "--pack-list")
        assert done.stdout.split() == ["hello", "say"]
        done = out(part, "--pack-extract", tmp_path / "out")
        assert done.returncode == 126
        assert "not whole" in done.stderr or "in part only" in done.stderr
        shutil.rmtree(tmp_path / "out.part")


@pytest.mark.battery
def test_its_stack_is_where_it_was_built_for_as_well(tmp_path: Path) -> None:
    need("gcc", "mksquashfs", "patchelf", "userns")
    stack = Stack(tmp_path)
    stack.script("share/data", "the data\n")
    stack.script("bin/ask", f"#!/bin/sh\ncat {MOUNT}/share/data\n")
    assert pack(stack.image(), "ask", "-o", "p.self", cwd=tmp_path).returncode == 0
    done = out(tmp_path / "p.self")
    assert done.stdout == "the data\n", done.stderr


@pytest.mark.battery
def test_twice_made_it_has_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        done = pack(folder / "stack.squashfs", "-o", "again.self", cwd=tmp_path)
    finally:
        os.umask(before)
    assert done.returncode == 0, done.stderr
    found = [hashlib.sha256(one.read_bytes()).hexdigest()
             for one in (folder / "p.self", tmp_path / "again.self")]  # fmt: skip
    assert found[0] == found[1]
    again = pack(folder / "stack.squashfs", "-o", "again.self", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    (tmp_path / "program").write_bytes(Path(sys.executable).read_bytes())
    other = pack(folder / "stack.squashfs", "-o", "program", "--format", "self", cwd=tmp_path)
    assert "is not a pack" in other.stderr
