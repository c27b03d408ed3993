"""No bench without a launch: what would be launched by nobody, and what was not launched in time."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from refusals import refusal
from stackproof.bench.effects import planning
from stackproof.bench.effects.arms import Arms
from stackproof.bench.spec import BenchSpec, parse_bench
from stackproof.core.document import parse
from stackproof.core.errors import ExitCode, Reason

OURS = "stackproof-bench"


def spec_of(**changes: object) -> BenchSpec:
    data = {"baseline": {"image": "a.squashfs"}, "launches": 1, "null-arm": False, **changes}
    return parse_bench(parse(json.dumps(data), file="s.yaml"), folder="/there")


def arms_of(**programs: tuple[str, ...]) -> Arms:
    """Return arms that are known by their programs alone; `near` runs within a node."""
    made = {
        name: SimpleNamespace(
            deployment=SimpleNamespace(programs=dict.fromkeys(own, "/x")),
            arm=SimpleNamespace(placements=("intra-node",) if name == "near" else ()),
        )
        for name, own in programs.items()
    }
    first, *others = made
    by_name = cast("Any", made)
    return Arms(by_name=by_name, baseline=first, null=None, challengers=tuple(others))


@pytest.mark.parametrize(
    ("changes", "arms", "words"),
    [
        ({"programs": ["IMB-MPI1"]}, {"a": (OURS,)}, "no arm would run `IMB-MPI1`"),
        ({"programs": [OURS, "IMB-MPI1"]}, {"a": (OURS,)}, "no arm would run `IMB-MPI1`"),
        ({}, {"a": ()}, f"no arm would run `{OURS}`"),
        ({}, {"a": (OURS,), "b": ()}, "`b` would run nothing"),
        ({"placements": ["inter-node"]}, {"a": (OURS,), "near": (OURS,)}, "`near` would run"),
        ({"placements": ["intra-node", "inter-node"]}, {"near": (OURS,)}, "at `inter-node`"),
    ],
)
def test_what_nobody_would_run_is_refused(
    changes: dict[str, object], arms: dict[str, tuple[str, ...]], words: str
) -> None:
    error = refusal(planning.schedule, spec_of(**changes), arms_of(**arms))
    assert error.reason is Reason.NOTHING_RAN
    assert error.reason.exit_code is ExitCode.NO_WORK
    assert any(words in problem.message for problem in error.problems)
    assert all(problem.hint for problem in error.problems)


def test_a_program_that_one_arm_brings_is_run_by_it() -> None:
    spec = spec_of(programs=[OURS, "IMB-MPI1"])
    launches = planning.schedule(spec, arms_of(a=(OURS,), b=(OURS, "IMB-MPI1")))
    assert {(one.arm, one.program) for one in launches} == {
        ("a", OURS), ("b", OURS), ("b", "IMB-MPI1"),
    }  # fmt: skip


def test_a_warm_up_alone_is_no_result(tmp_path: Path) -> None:
    launches = planning.schedule(spec_of(), arms_of(a=(OURS,)))
    (tmp_path / "launches").mkdir()
    for launch in launches:
        if launch.block == 0:
            (tmp_path / "launches" / launch.file_name).write_text("{}")
    assert refusal(planning.require_launches, launches, tmp_path).reason is Reason.NOTHING_RAN
    (tmp_path / "launches" / launches[-1].file_name).write_text("{}")
    planning.require_launches(launches, tmp_path)


def test_a_machine_is_told_by_what_launches_must_have_in_common() -> None:
    told = planning.machine()
    assert set(told) == {"cpu", "kernel", "machine"}
    assert told["kernel"].endswith(os.uname().release)


def test_results_of_another_specification_say_what_differs(tmp_path: Path) -> None:
    arms = Arms(by_name={}, baseline="a", null=None, challengers=())
    planning.claim(spec_of(), arms, tmp_path)
    planning.claim(spec_of(), arms, tmp_path)
    other = spec_of(launches=7, challengers=[{"pack": "new"}])
    problem = refusal(planning.claim, other, arms, tmp_path).problems[0]
    assert problem.reason is Reason.USAGE
    here = "`/there/a.squashfs` with `/there/new`"
    assert problem.detail == f"it compares `/there/a.squashfs`, and not {here}"
    assert refusal(planning.claim, spec_of(launches=7), arms, tmp_path).problems[0].detail is None
    (tmp_path / "spec.json").write_text("{}")
    assert refusal(planning.claim, other, arms, tmp_path).problems[0].detail is None
