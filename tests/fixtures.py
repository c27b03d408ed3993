"""Fixtures of several rooms: clusters, MPIs, a Python for everybody, a place for benches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import everybody
import inprocess
from elflab import Lab
from mpitrees import Trees
from need import need
from stackproof.cluster.effects import up as cluster_up

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def stackproof(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Call:
    """Return a function that runs a command line in the test's folder, with a cache of its own.

    It gives exit code, output and messages.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STACKPROOF_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("STACKPROOF_SPACK_MIRROR", raising=False)

    def run(*words: object) -> tuple[int, str, str]:
        code = inprocess.exit_code(*words)
        found = capsys.readouterr()
        return code, found.out, found.err

    return run


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """Give a test a folder in which it compiles programs and libraries."""
    need("gcc")
    return Lab(tmp_path)


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Give a test its own folder of clusters, and take down what it leaves."""
    need("netns")
    folder = tmp_path / "runtime"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    yield folder
    for entry in (folder / "stackproof").glob("*/"):
        cluster_up.down(entry.name)


@pytest.fixture(scope="session")
def for_everybody(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """Return a Python and a checkout that users without rights may use, wherever ours lie."""
    need("root", "unprivileged-user")
    return everybody.python(tmp_path_factory.mktemp("everybody"))


@pytest.fixture(scope="session")
def trees(tmp_path_factory: pytest.TempPathFactory) -> Trees:
    """Give tests the MPIs, installed once in a test run."""
    need("network", "gcc")
    return Trees(tmp_path_factory.mktemp("trees"))
