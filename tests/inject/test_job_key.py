"""The name of a kept answer about a job: it covers all that the answer was made from."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from elflab import Lab
from need import need
from stackproof.inject import job as jobs
from stackproof.inject.effects import job_judge, named
from stackproof.inject.effects.job_key import JobCase, MountedImage, key_of

MPI = "libmpi.so.40"
CALLS = ["MPI_Init", "MPI_Get_count"]
WORLD = [("ompi_mpi_comm_world", 8)]


class Asked(Mapping[str, str]):
    """An environment that remembers which of its variables somebody asked for."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = dict(values)
        self.names: set[str] = set()

    def __getitem__(self, name: str) -> str:
        self.names.add(name)
        return self._values[name]

    def __contains__(self, name: object) -> bool:
        self.names.add(str(name))
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("an answer may depend on every variable")

    def __len__(self) -> int:
        return len(self._values)


@pytest.fixture
def case(tmp_path: Path) -> JobCase:
    """Return a program with an Open MPI, and another one with a libfabric that is injected."""
    need("gcc")
    lab = Lab(tmp_path)
    for prefix in ("own", "new"):
        lab.library(f"{prefix}/lib/{MPI}", defines=[*CALLS, "MPI_Recv"], data=WORLD)
    lab.library("new/lib/libfabric.so.1", defines=["fi_getinfo"])
    lab.program("bin/solver", needs=[f"own/lib/{MPI}"], calls=CALLS)
    new = str(tmp_path / "new")
    environment = {"LD_LIBRARY_PATH": str(tmp_path / "own/lib"), "PATH": "/usr/bin"}
    return JobCase((), MountedImage(new, new), environment, programs=[str(tmp_path / "bin/solver")])


def with_environment(case: JobCase, **values: str) -> JobCase:
    environment = {**case.environment, **values}
    return JobCase(case.parts, case.injected, environment, programs=case.programs)


def test_the_same_case_has_the_same_key(case: JobCase) -> None:
    assert key_of(case) == key_of(with_environment(case))


def test_every_variable_that_an_answer_is_made_from_is_in_its_key(
    case: JobCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Asked] = []

    def watched(environment: Mapping[str, str]) -> Asked:
        asked.append(Asked(environment))
        return asked[-1]

    plan, setting = jobs.plan_job, named.setting_of
    monkeypatch.setattr(
        job_judge.inject_job, "plan_job",
        lambda judged, mpi, environment, **more: plan(judged, mpi, watched(environment), **more),
    )  # fmt: skip
    monkeypatch.setattr(named, "setting_of", lambda environment: setting(watched(environment)))
    job_judge.examine(case, "/links")
    names = set().union(*(one.names for one in asked))
    assert names >= {"LD_LIBRARY_PATH", "LD_PRELOAD", "OPAL_PREFIX", "FI_PROVIDER_PATH"}
    for name in names:
        assert key_of(with_environment(case, **{name: "/elsewhere"})) != key_of(case), name


@pytest.mark.parametrize("changed", ["bin/solver", f"new/lib/{MPI}"])
def test_every_file_that_an_answer_is_made_from_is_in_its_key(
    case: JobCase, changed: str, tmp_path: Path
) -> None:
    before = key_of(case)
    path = tmp_path / changed
    content, state = path.read_bytes(), path.stat()
    path.write_bytes(content)
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))  # no clock can be set back
    assert key_of(case) != before


def test_a_command_is_looked_for_where_path_says(case: JobCase) -> None:
    def key(path: str, *words: str) -> str:
        environment = {**case.environment, "PATH": path}
        return key_of(JobCase((), case.injected, environment, words=words))

    assert key("/usr/bin", "solver") != key("/opt/bin", "solver")
    assert key("/usr/bin", "solver") != key("/usr/bin", "other")


def test_another_place_of_what_is_injected_is_another_key(case: JobCase) -> None:
    moved = MountedImage(case.injected.path, "/elsewhere")
    assert key_of(JobCase((), moved, case.environment, programs=case.programs)) != key_of(case)
