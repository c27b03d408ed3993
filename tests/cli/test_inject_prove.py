"""`stackproof inject prove` as it refuses: nothing is run before everything was read and judged."""

from __future__ import annotations

from pathlib import Path

import pytest

from elflab import Lab
from need import need
from stackproof import cli
from stackproof.errors import ExitCode

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
