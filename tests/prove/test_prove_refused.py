"""`stackproof inject prove` as it refuses: nothing is run before everything was read and judged."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from elflab import Lab
from images import MOUNT, env_json
from need import need
from refusals import refusal
from stackproof import cli
from stackproof.core.command import Completed
from stackproof.core.errors import ExitCode, Reason
from stackproof.core.value import replace
from stackproof.prove.effects import arms as prove_arms
from stackproof.prove.effects import mounting
from stackproof.prove.effects import mpi as prove_mpi
from stackproof.prove.options import ProveRequest

EVERY = ["MPI_Init", "MPI_Recv", "MPII_Win_get_attr"]


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """A program with an MPICH in its run path, and another MPICH, both without a launcher."""
    need("gcc")
    lab = Lab(tmp_path)
    for name in ("own", "new"):
        lab.library(f"{name}/lib/libmpi.so.12", defines=EVERY)
    path = f"-Wl,--enable-new-dtags,-rpath,{tmp_path}/own/lib"
    lab.program("bin/app", needs=["own/lib/libmpi.so.12"], calls=["MPI_Init"], flags=[path])
    lab.program("bin/plain")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("")
    return lab


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["bin/app", "--with", "new"], ExitCode.INVALID),
        (["bin/plain", "--with", "new"], ExitCode.INVALID),
        (["bin/nowhere", "--with", "new"], ExitCode.INVALID),
        (["bin/app", "--with", "nowhere"], ExitCode.INVALID),
        (["bin/app", "--with", "new", "--own", "own"], ExitCode.INVALID),
        (["bin/app", "--with", "new", "-o", "full"], ExitCode.USAGE),
        (["bin/app", "--with", "new", "-o", "bin/app"], ExitCode.USAGE),
        (["bin/app", "--with", "new", "--launches", "9"], ExitCode.USAGE),
        (["bin/app", "--with", "new", "--wait-for-quiet", "soon"], ExitCode.USAGE),
        (["bin/app", "--with", "new", "--launches", "0", "--wait-for-quiet", "1h"], ExitCode.USAGE),
        (["bin/app", "--with", "new", "--ranks", "1"], ExitCode.USAGE),
        (["bin/app", "--with", "new", "--launches", "-1"], ExitCode.USAGE),
        (["bin/app", "--with", "new", "--set", "word"], ExitCode.USAGE),
        (["bin/app", "--with", "new", "--expect", "("], ExitCode.USAGE),
        (["bin/app", "--with", "new", "--timeout", "0"], ExitCode.USAGE),
        (["bin/app", "--with", "new", "--cluster", "nowhere"], ExitCode.NOT_POSSIBLE),
        (["bin/app"], ExitCode.USAGE),
    ],
)
def test_what_it_refuses(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    words: list[str], code: ExitCode,
) -> None:  # fmt: skip
    monkeypatch.chdir(lab.folder)
    with pytest.raises(SystemExit) as stop:
        cli.main(["inject", "prove", *words])
    assert stop.value.code == code
    assert "bug in stackproof" not in capsys.readouterr().err
    assert not (lab.folder / "proof").exists()


def packed(lab: Lab, name: str, mpi: dict[str, str] | None) -> None:
    """Make an image of a folder."""
    meta = env_json(name=name, mpi=mpi, views={}, **{"default-view": None})
    (lab.folder / name / "meta").mkdir()
    (lab.folder / name / "meta" / "env.json").write_text(json.dumps(meta))
    argv = ["mksquashfs", name, f"{name}.squashfs", "-noappend", "-no-progress", "-quiet"]
    subprocess.run(argv, check=True, timeout=600, capture_output=True, cwd=lab.folder)


def test_two_images_in_one_place(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    need("mksquashfs")
    monkeypatch.chdir(lab.folder)
    monkeypatch.setenv("STACKPROOF_CACHE", str(lab.folder / "cache"))
    mpi = {"family": "mpich", "version": "5.0.2", "prefix": MOUNT, "launcher": "hydra"}
    packed(lab, "own", mpi)
    packed(lab, "new", mpi)
    with pytest.raises(SystemExit) as stop:
        cli.main(["inject", "prove", "bin/app", "--own", "own.squashfs", "--with", "new.squashfs"])
    assert stop.value.code == ExitCode.IMAGE
    assert f"two images at `{MOUNT}`" in capsys.readouterr().err
    assert not (lab.folder / "proof").exists()


def test_an_image_that_cannot_be_mounted(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No arm starts, and no prediction is called wrong."""
    need("mksquashfs")
    monkeypatch.chdir(lab.folder)
    monkeypatch.setenv("STACKPROOF_CACHE", str(lab.folder / "cache"))
    lab.library("own/bin/texts", texts=["hydra_pmi_proxy"])
    (lab.folder / "own" / "bin" / "texts").rename(lab.folder / "own" / "bin" / "mpiexec")
    packed(lab, "new", None)
    inside = lab.path("bin/plain/place")  # nobody can make a folder in a file
    with pytest.raises(SystemExit) as stop:
        cli.main(["inject", "prove", "./bin/app", "--with", f"new.squashfs:{inside}"])
    assert stop.value.code in {ExitCode.IMAGE, ExitCode.NOT_POSSIBLE}
    said = capsys.readouterr()
    assert "cannot start an arm" in said.err
    assert "WRONG" not in said.out
    assert not (lab.folder / "proof").exists()


def test_a_mount_that_fails_is_no_wrong_prediction() -> None:
    """`mount_exec` says why, and so does the proof."""
    text = b"error: [no-fuse] cannot open /dev/fuse: Permission denied\nhint: ask for it\n"
    done = Completed(argv=("mpiexec",), returncode=4, stdout=b"", stderr=text, seconds=0.1)
    stop = refusal(mounting.refuse_unmounted, done)
    assert stop.reason is Reason.NO_FUSE
    assert stop.reason.exit_code == ExitCode.NOT_POSSIBLE
    assert "stackproof install" in str(stop.problems[0].hint)
    for other in (b"error: [command-not-found] app\n", b"error: no bracket\n", b""):
        mounting.refuse_unmounted(replace(done, stderr=other))
    mounting.refuse_unmounted(replace(done, returncode=0))


def test_the_pages_own_form_of_a_program(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """`./app` is read from the folder that the command runs in."""
    monkeypatch.chdir(lab.folder)
    stop = refusal(prove_mpi.found_by, "./bin/app")
    assert "mpiexec" in stop.problems[0].message  # the MPI was found, without a launcher


@pytest.mark.parametrize("there", [False, True])
def test_half_a_proof_is_not_left_behind(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], there: bool
) -> None:
    def stopped(_wanted: object, folder: Path) -> None:
        (folder / "ranks").mkdir(parents=True)
        raise KeyboardInterrupt

    monkeypatch.chdir(lab.folder)
    monkeypatch.setattr(prove_arms, "prepare", stopped)
    if there:
        (lab.folder / "proof").mkdir()
    with pytest.raises(SystemExit) as stop:
        cli.main(["inject", "prove", "bin/app", "--with", "new"])
    assert stop.value.code == ExitCode.INTERRUPTED
    assert "interrupted" in capsys.readouterr().err
    assert list(lab.folder.glob("proof/*")) == []
    assert (lab.folder / "proof").exists() is there


def test_variables_are_for_every_arm() -> None:
    wanted = ProveRequest(command=("x",), replacement="new", variables=("A=b=c", "D="))
    assert prove_arms.variables_of(wanted) == {"A": "b=c", "D": ""}
