"""A kernel without Landlock: an unpacker still writes into its folder alone, or is not started."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from need import need
from stackproof.core import limits
from stackproof.core.effects.foreign import parser, unpack, walls
from stackproof.core.effects.foreign.unpack import Packed, UnpackRules
from stackproof.core.errors import Reason, StackproofError

pytestmark = [
    pytest.mark.guarantee(
        "Foreign trees",
        "A parser can do little else than parse.",
    ),
]

NOBODY = 65534


def made(folder: Path, kind: str, names: dict[str, str]) -> Path:
    """Make an image of files, one of which has another name in the bytes of an ext image."""
    source, image = folder / "source", folder / f"image.{kind}"
    source.mkdir()
    (source / "file").write_text("content")
    for name in names:
        (source / name).write_text("escaped")
    if kind == "squashfs":
        need("mksquashfs")
        argv = ["mksquashfs", source, image, "-quiet", "-no-progress"]
    else:
        need("e2fsprogs")
        plain = "none,ext_attr,filetype"
        argv = ["mke2fs", "-q", "-t", "ext2", "-O", plain, "-d", source, image, "2M"]
    subprocess.run(argv, check=True, capture_output=True, timeout=600)
    content = image.read_bytes()
    for name, other in names.items():
        assert len(name) == len(other)
        assert content.count(name.encode()) == 1
        content = content.replace(name.encode(), other.encode())
    image.write_bytes(content)
    image.chmod(0o644)
    return image


@pytest.fixture
def home(tmp_path):
    """Return the home of a user who unpacks, in a folder that he reaches."""
    need("root", "unprivileged-user", "unprivileged-userns")
    for folder in (tmp_path, *tmp_path.parents):
        if folder.name.startswith(("pytest-", "popen-", "test_")):
            folder.chmod(0o755)
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    os.chown(home, NOBODY, NOBODY)
    return home


def unpacked(
    home: Path,
    kind: str,
    image: Path,
    *,
    program: str = "",
    walled: bool = True,
    user: int = NOBODY,
) -> str:
    """Unpack an image to `out` as a user, without Landlock; return what is said of it."""
    output, end = os.pipe()
    child = os.fork()
    if child == 0:
        said = "nothing"
        try:
            if user:
                os.setgroups([])
                os.setresgid(user, user, user)
                os.setresuid(user, user, user)
            walls._libc.prctl(4, 1, 0, 0, 0)  # /proc/self is his, as of a process that he started
            walls.landlock_version = lambda: 0  # type: ignore[assignment]
            if not walled:
                walls.leave_all_but = lambda *_: True  # type: ignore[assignment]
            if program:
                parser.find = lambda _: program  # type: ignore[assignment]
            with unpack.unpack(
                Packed(path=str(image), kind=kind), home / "out", UnpackRules()
            ) as tree:
                said = tree.read("file", limits.SMALL_RECORD).decode()
        except BaseException as error:  # noqa: BLE001 - this process ends here
            said = f"{type(error).__name__}: {error}"
        finally:
            os.write(end, said.encode())
            os._exit(0)
    os.close(end)
    with open(output, encoding="utf-8") as stream:
        said = stream.read()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    return said


@pytest.mark.parametrize("kind", ["squashfs", "ext"])
def test_it_unpacks_as_before(home, kind):
    said = unpacked(home, kind, made(home.parent, kind, {}))
    assert said == "content"
    assert (home / "out/file").stat().st_uid == NOBODY


@pytest.mark.parametrize(
    "escape", ["../../.profile", "../.././.profile", f"/{12 * '../'}{{home}}/.profile"]
)
def test_names_with_slashes_lead_nowhere(home, escape):
    """Of an ext image a name may be any bytes, and debugfs takes it for a path."""
    need("e2fsprogs")
    profile = home / ".profile"
    other = escape.format(home=os.path.relpath(home, "/"))
    image = made(home.parent, "ext", {"x" * len(other): other})
    for walled, left in ((False, "escaped"), (True, "mine")):
        profile.write_text("mine")
        os.chown(profile, NOBODY, NOBODY)
        said = unpacked(home, "ext", image, walled=walled)
        assert profile.read_text() == left, said
        assert {path.name for path in home.iterdir()} <= {".profile", "out"}
        shutil.rmtree(home / "out", ignore_errors=True)


@pytest.mark.parametrize(
    "escape", ["../x-in-the-new-root", "../proc/self/oom_score_adj", "../usr/lib/x", "../tmp/xx"]
)
def test_the_root_that_it_gets_stays_as_it_is(home, escape):
    """Neither the memory that this root lies in, nor other processes, nor the system's folders."""
    need("e2fsprogs")
    said = unpacked(home, "ext", made(home.parent, "ext", {"x" * len(escape): escape}))
    assert said.startswith("StackproofError"), said
    assert "cannot be unpacked" in said
    assert list(home.iterdir()) == []


@pytest.mark.parametrize("kind", ["squashfs", "ext"])
def test_a_file_that_is_cut_off_is_told(tmp_path, kind):
    """Whoever writes may end well though the disk, or a limit, did not let it write all."""
    image = made(tmp_path, kind, {})
    rules = UnpackRules(file_bytes=3)
    with pytest.raises(StackproofError):
        unpack.unpack(Packed(path=str(image), kind=kind), tmp_path / "out", rules)
    assert not (tmp_path / "out").exists()


def test_a_file_of_many_names_counts_once(tmp_path):
    need("mksquashfs")
    source, image = tmp_path / "source", tmp_path / "image.squashfs"
    source.mkdir()
    (source / "file").write_bytes(os.urandom(500_000))
    for number in range(100):
        os.link(source / "file", source / f"name{number}")
    subprocess.run(["mksquashfs", source, image, "-quiet", "-no-progress"], check=True, timeout=600)
    unpack.unpack(Packed(path=str(image)), tmp_path / "out", UnpackRules(most=limits.META)).close()
    assert (tmp_path / "out/name99").stat().st_nlink == 101


@pytest.mark.parametrize("prefix", ["conda/bin", "."])
def test_a_program_from_elsewhere_runs(home, prefix):
    """One that the user has installed reads any prefix, and writes into the folder alone, too."""
    need("mksquashfs")
    library = home.parent / "store/zlib/lib/program"
    library.parent.mkdir(parents=True)
    library.symlink_to(shutil.which("unsquashfs") or "")
    program = home.parent / "own" / prefix / "unsquashfs"
    program.parent.mkdir(parents=True)
    program.write_text(
        f'#!/bin/sh\necho x >../../mine\necho x >"$0-written"\nexec {library} "$@"\n'
    )
    program.chmod(0o755)
    program.parent.chmod(0o777)
    image = made(home.parent, "squashfs", {})
    assert unpacked(home, "squashfs", image, program=str(program)) == "content"
    assert {path.name for path in home.iterdir()} == {"out"}
    assert os.listdir(program.parent) == ["unsquashfs"]


@pytest.mark.parametrize("user", [0, NOBODY])
def test_nobody_writes_where_everybody_may(home, user):
    """Neither root's parser, which is a user without rights, nor that of a user."""
    need("mksquashfs")
    home.chmod(0o777)
    (home.parent / "open").mkdir()
    (home.parent / "open").chmod(0o777)
    program = home.parent / "own/unsquashfs"
    program.parent.mkdir()
    mine = home.parent / "open/file"
    program.write_text(
        f"#!/bin/sh\necho x >{mine}\necho x >/dev/shm/{home.parent.name}\n"
        '[ -e /dev/tty ] && exit 1\nexec unsquashfs "$@"\n'
    )
    program.chmod(0o755)
    image = made(home.parent, "squashfs", {})
    assert unpacked(home, "squashfs", image, program=str(program), user=user) == "content"
    assert not mine.exists()
    assert not Path("/dev/shm", home.parent.name).exists()


def test_without_any_wall_nothing_is_started(tmp_path, monkeypatch):
    image = made(tmp_path, "squashfs", {})
    monkeypatch.setattr(walls, "restrict_files", lambda *_: False)
    monkeypatch.setattr(walls, "leave_all_but", lambda *_: False)
    monkeypatch.setattr(walls, "become", lambda _: False)
    with pytest.raises(StackproofError) as error:
        unpack.unpack(Packed(path=str(image)), tmp_path / "out", UnpackRules())
    assert "no Landlock" in str(error.value)
    assert error.value.reason is Reason.TOOL_MISSING
    assert not (tmp_path / "out").exists()
