"""Source distributions are downloaded without running any of them, whatever their digest."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest

from need import need
from stackproof.build.effects import executor
from stackproof.build.effects import pip as build_pip
from stackproof.build.engines.easybuild import tool
from stackproof.build.engines.easybuild.effects.sources import SourceFinder
from stackproof.build.plan import PYTHON
from stackproof.build.stack import Artefact
from stackproof.core.command import Command
from stackproof.core.effects import files
from stackproof.core.effects.run import run
from stackproof.core.errors import Reason, StackproofError
from stackproof.core.monitor import null_monitor

COVERS = ("build/effects/sdist.py",)

NAME = "easybuild-framework"


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    need("python")
    return tmp_path / "executed"


@pytest.fixture(params=["setup.py", "backend"])
def distribution(
    request: pytest.FixtureRequest, tmp_path: Path, mark: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """Return a hostile source distribution, in the folder where pip looks."""
    code = f"open({str(mark)!r}, 'w').close()\n"
    members = {"PKG-INFO": f"Metadata-Version: 2.1\nName: {NAME}\nVersion: 9.9.9\n"}
    if request.param == "backend":
        project = '[build-system]\nrequires = ["no-such-thing"]\nbuild-backend = "evil"\n'
        members |= {"pyproject.toml": f'{project}backend-path = ["."]\n', "evil.py": code}
    else:
        members |= {"setup.py": code}
    path = tmp_path / "links" / "easybuild_framework-9.9.9.tar.gz"
    path.parent.mkdir()
    with tarfile.open(path, "w:gz") as archive:
        for name, text in members.items():
            info = tarfile.TarInfo(f"easybuild_framework-9.9.9/{name}")
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
    monkeypatch.setenv("STACKPROOF_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(path.parent))
    return path


def locked(sha256: str) -> Artefact:
    return tool.artefact(NAME, "9.9.9", "easybuild_framework-9.9.9.tar.gz", sha256)


def test_one_that_is_not_the_locked_one_is_refused_unopened(distribution: Path, mark: Path) -> None:
    with pytest.raises(StackproofError) as caught:
        executor.fetch(locked("0" * 64), tool.fetch_command, null_monitor)
    assert caught.value.reason is Reason.DIGEST_MISMATCH
    assert files.sha256(distribution) in (caught.value.problems[0].detail or "")
    assert not mark.exists()


def test_the_locked_one_comes_and_nothing_of_it_runs(distribution: Path, mark: Path) -> None:
    got = executor.fetch(locked(files.sha256(distribution)), tool.fetch_command, null_monitor)
    assert got.read_bytes() == distribution.read_bytes()
    assert not mark.exists()


def test_making_a_lock_runs_nothing_of_it(distribution: Path, mark: Path) -> None:
    found = SourceFinder((), null_monitor)._tool_file(NAME, "9.9.9")
    assert (found.filename, found.sha256) == (distribution.name, files.sha256(distribution))
    assert not mark.exists()


def test_a_release_that_is_not_there_is_told(distribution: Path) -> None:
    with pytest.raises(StackproofError) as caught:
        SourceFinder((), null_monitor)._tool_file(NAME, "9.9.8")
    assert caught.value.reason is Reason.UNKNOWN_VERSION
    assert "9.9.9" in (caught.value.problems[0].hint or "")


@pytest.mark.battery
@pytest.mark.parametrize("module", ["pip", "stackproof", "json", "sitecustomize"])
def test_a_module_in_the_working_folder_is_not_run(
    tmp_path: Path, mark: Path, monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    """The folder of a recipe may be anybody's."""
    (tmp_path / f"{module}.py").write_text(f"open({os.fspath(mark)!r}, 'w').close()\n")
    monkeypatch.chdir(tmp_path)
    for argv in (("python", "-m", "pip", "--version"), tool.fetch_command(locked(""), "x").argv):
        words = tuple(PYTHON if word == "python" else word for word in argv)
        run(build_pip.index_command(Command(argv=words, timeout_s=60)))
    assert not mark.exists()
