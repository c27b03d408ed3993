"""A machine that cannot mount the images of a bench says so once, before anything is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from refusals import refusal
from stackproof.bench.effects import nodes
from stackproof.bench.effects import run as bench_run
from stackproof.bench.effects.arms import Arms
from stackproof.bench.effects.nodes import LaunchNodes
from stackproof.bench.ready import ReadyArm
from stackproof.bench.spec import Arm, BenchSpec
from stackproof.core.errors import ExitCode, Reason
from stackproof.core.value import replace
from stackproof.image.model import Deployment, Image, ImageMount, MpiFacts
from stackproof.launch.effects.scheduler_job import SchedulerJob
from stackproof.mount.methods import MountFacts

NOTHING = MountFacts(
    kernel_mounts=False, mounts=False, user_namespaces=True, fuse=False, squashfuse="/usr/bin/x"
)
SPEC = BenchSpec(baseline=Arm(image="a.squashfs"), placements=("intra-node",))
HERE = LaunchNodes(nodes={"here": (0, 1)})


def make_arms(point: str, *, mounted: bool = True) -> Arms:
    """Return two arms and the null arm, as images to be mounted at `point`, or as packs."""
    facts = MpiFacts(family="mpich", version="5.0.2", prefix=f"{point}/mpich", launcher="mpiexec")
    image = Image(path="a.squashfs", name="a", mount=point, size=1, mpi=facts)
    by_name = {
        name: ReadyArm(
            arm=Arm(image="a.squashfs"),
            image=image,
            deployment=Deployment(
                name=name,
                mounts=(ImageMount(image="a.squashfs", mount_point=point),) if mounted else (),
                mpi=facts,
                programs={},
            ),
        )
        for name in ("a", "b", "a-again")
    }
    return Arms(by_name=by_name, baseline="a", null="a-again", challengers=("b",))


@pytest.fixture(autouse=True)
def _machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes, "load_mount_facts", lambda: NOTHING)


def test_one_problem_names_the_arms_and_the_packs_to_measure_instead(tmp_path: Path) -> None:
    (problem,) = nodes.find_mount_problems(make_arms(str(tmp_path)), HERE)
    assert (problem.reason, problem.reason.exit_code) == (Reason.NO_FUSE, ExitCode.NOT_POSSIBLE)
    assert "the images of `a`, `b` here" in problem.message
    assert problem.hint
    assert "`stackproof pack IMAGE -o DIR`" in problem.hint
    assert "`--challenger pack:DIR`" in problem.hint


def test_the_helper_mounts_where_the_mount_point_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    helped = replace(NOTHING, helper="/usr/bin/stackproof-mount", helper_mounts=True)
    monkeypatch.setattr(nodes, "load_mount_facts", lambda: helped)
    assert nodes.find_mount_problems(make_arms(str(tmp_path)), HERE) == []
    assert nodes.find_mount_problems(make_arms(str(tmp_path / "gone")), HERE)


def test_packs_and_nodes_of_a_job_are_not_asked(tmp_path: Path) -> None:
    assert nodes.find_mount_problems(make_arms(str(tmp_path), mounted=False), HERE) == []
    job = SchedulerJob(scheduler="flux", job="1", launcher="flux", program="flux", nodes=("n1",))
    elsewhere = replace(HERE, job=job)
    assert nodes.find_mount_problems(make_arms(str(tmp_path)), elsewhere) == []


def test_a_bench_is_refused_when_it_is_prepared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a dry run is refused as well, and nothing has been compiled or probed."""
    monkeypatch.setattr(bench_run.planning, "with_work", None)  # calling it would raise
    monkeypatch.setattr(bench_run.nodes, "here", lambda _: HERE)
    error = refusal(bench_run.prepare, SPEC, make_arms(str(tmp_path)))
    assert [problem.reason for problem in error.problems] == [Reason.NO_FUSE]
