"""`stackproof install`: an image at a prefix, switched to by one rename, and gone back from."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from eessilab import EVERY
from need import need
from packs import CALLS_ANSWER, Stack, out, small
from stackproof import cli
from stackproof.core.errors import ExitCode
from stackproof.inject.effects import versions
from stackproof.pack.effects import install
from stackproof.pack.options import InstallOptions

COVERS = ("pack/cli/install.py",)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need("gcc", "patchelf", "mksquashfs")
    return small(tmp_path_factory.mktemp("image"))


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    stack = Stack(tmp_path_factory.mktemp("other"))
    stack.library("libanswer", "int answer(void) { return 43; }")
    stack.program("hello", CALLS_ANSWER, needs=("answer",))
    return stack.image("other")


def called(capsys, *words: str | Path) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        cli.main(["install", *map(str, words)])
    said = capsys.readouterr()
    return int(stop.value.code or 0), said.out, said.err


def answer(prefix: Path) -> str:
    return out(prefix / "bin" / "hello").stdout.split()[1]


@pytest.mark.battery
def test_there_and_back(image, other, tmp_path, capsys):
    """Programs are found at the prefix; each version is whole, and undone one by one."""
    prefix = tmp_path / "site" / "stack"
    code, text, err = called(capsys, image, "--to", prefix)
    assert (code, err) == (ExitCode.DONE, "")
    assert "each was rewritten or explained" in text
    assert f"programs: {prefix}/bin" in text
    assert "inject" not in text
    assert answer(prefix) == "42"
    assert "nothing was changed" in called(capsys, image, "--to", prefix)[1]
    assert os.listdir(prefix.parent / ".stackproof") != []
    assert called(capsys, other, "--to", f"{prefix}/")[0] == ExitCode.DONE
    assert answer(prefix) == "43"
    assert called(capsys, "--undo", "--to", prefix)[0] == ExitCode.DONE
    assert answer(prefix) == "42"
    assert called(capsys, "--undo", "--to", prefix, "--json")[0] == ExitCode.DONE
    assert not os.path.lexists(prefix)
    assert called(capsys, "--undo", "--to", prefix)[0] == ExitCode.INVALID


def test_where_it_was_built_for_nothing_is_moved(tmp_path, capsys):
    need("gcc", "patchelf", "mksquashfs")
    prefix = tmp_path / "here"
    stack = Stack(tmp_path / "of", str(prefix))
    stack.library("libanswer", "int answer(void) { return 44; }")
    program = stack.program("hello", CALLS_ANSWER, needs=("answer",)).read_bytes()
    code, text, err = called(capsys, stack.image(), "--to", prefix)
    assert (code, err) == (ExitCode.DONE, "")
    assert f". {prefix}/env/default/activate.sh" in text
    assert (prefix / "bin" / "hello").read_bytes() == program
    assert answer(prefix) == "44"


def test_it_says_what_to_inject(tmp_path, capsys):
    """A prefix with an MPI is what `--with` takes."""
    need("gcc", "patchelf", "mksquashfs")
    stack = Stack(tmp_path / "of")
    calls = "".join(f"int {name}(void) {{ return 0; }}\n" for name in EVERY)
    library = stack.library(
        "libmpi", f"int answer(void) {{ return 42; }}\n{calls}", "-Wl,-soname,libmpi.so.12"
    )
    library.rename(library.with_name("libmpi.so.12"))
    library.with_name("libmpi.so").unlink()
    library.with_name("libmpi.so").symlink_to("libmpi.so.12")
    stack.program("hello", CALLS_ANSWER, needs=("mpi",))
    prefix = tmp_path / "site"
    code, text, err = called(capsys, stack.image(), "--to", prefix)
    assert (code, err) == (ExitCode.DONE, "")
    assert f"stackproof inject check PROGRAM --with {prefix}\n" in text


def test_what_cannot_be_moved_is_listed(tmp_path, capsys):
    """Every file that names the old place, with the place in it; nothing is left behind."""
    need("gcc", "patchelf", "mksquashfs")
    stack = Stack(tmp_path / "of")
    stack.library("libanswer", "int answer(void) { return 42; }")
    stack.program("hello", CALLS_ANSWER, needs=("answer",))
    for name in ("one", "two"):
        stack.script(f"share/{name}.conf", f"data = {stack.mount}/share/data\n")
    prefix = tmp_path / "site" / "stack"
    code, _, err = called(capsys, stack.image(), "--to", prefix)
    assert code == ExitCode.INVALID
    assert "share/one.conf` at byte 7" in err
    assert "share/two.conf` at byte 7" in err
    assert sorted(os.listdir(prefix.parent)) == [".stackproof"]
    assert os.listdir(prefix.parent / ".stackproof") == ["lock"]


@pytest.mark.battery
@pytest.mark.parametrize("step", ["name_version", "switch"])
def test_killed_at_any_step(image, other, tmp_path, capsys, monkeypatch, step):
    """What was there stays whole, and the next one clears up."""
    prefix = tmp_path / "stack"
    called(capsys, image, "--to", prefix)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(versions, step, killed)
        assert called(capsys, other, "--to", prefix)[0] == ExitCode.INTERRUPTED
    assert answer(prefix) == "42"
    left = tmp_path / ".stackproof" / "staging.stack" / "stack"
    left.mkdir(parents=True)
    (tmp_path / ".stackproof" / "staging.link.stack").symlink_to("nowhere")
    assert called(capsys, other, "--to", prefix)[0] == ExitCode.DONE
    assert answer(prefix) == "43"
    assert not [name for name in os.listdir(tmp_path / ".stackproof") if "staging" in name]


def test_a_prefix_of_others(image, tmp_path, capsys):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    (tmp_path / "file").write_text("x")
    for name in ("folder", "link", "file"):
        code, _, err = called(capsys, image, "--to", tmp_path / name)
        assert (code, "did not make it" in err) == (ExitCode.USAGE, True)
    assert "is a mount point" in called(capsys, image, "--to", "/proc")[2]
    assert called(capsys, image, "--to", tmp_path / "file" / "in")[0] == ExitCode.INVALID
    assert sorted(os.listdir(tmp_path)) == ["file", "folder", "link"]


@pytest.mark.battery
def test_a_running_program_keeps_its_version(image, other, tmp_path, capsys):
    """In use: what runs goes on, from the files that it was started from."""
    prefix = tmp_path / "stack"
    called(capsys, image, "--to", prefix)
    real = os.path.realpath(prefix / "bin" / "hello")
    called(capsys, other, "--to", prefix)
    assert out(Path(real)).stdout.split()[1] == "42"
    shutil.rmtree(tmp_path / ".stackproof" / "stack.1")
    code, _, err = called(capsys, "--undo", "--to", prefix)
    assert (code, "is gone" in err) == (ExitCode.INVALID, True)
    assert answer(prefix) == "43"


def test_another_file_system_that_is_full(image, tmp_path, capsys):
    need("root")
    small_one = tmp_path / "small"
    small_one.mkdir()
    argv = ["mount", "-t", "tmpfs", "-o", "size=200k", "none", small_one]
    if subprocess.run(argv, check=False, timeout=600, capture_output=True).returncode:
        pytest.skip("root may not mount here")
    try:
        code, _, err = called(capsys, image, "--to", small_one / "stack")
        assert (code, "space" in err) == (ExitCode.NOT_POSSIBLE, True), err
        assert os.listdir(small_one / ".stackproof") == ["lock"]
    finally:
        subprocess.run(["umount", small_one], check=True, timeout=600)


def test_words_that_do_not_go_together(tmp_path, capsys):
    for words in (
        ["x", "--undo", "--to", "y"],
        ["--to", "y"],
        ["x"],
        ["x.squashfs", "--to", "a:b"],
    ):
        assert called(capsys, *words)[0] in {ExitCode.USAGE, ExitCode.INVALID}


def test_the_record_names_the_image(image, tmp_path, capsys):
    called(capsys, image, "--to", tmp_path / "stack")
    record = install.undo(InstallOptions(image=None, to=str(tmp_path / "stack"), undo=True))
    assert record.image == str(image)
    assert record.before == ""
    assert len(record.image_sha256) == 64
