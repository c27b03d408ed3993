"""What every way to mount keeps."""

from __future__ import annotations

import pytest

from stackproof.core.errors import ExitCode, Reason
from stackproof.core.value import replace
from stackproof.mount import methods, without_mount
from stackproof.mount.effects.methods import WAYS
from stackproof.mount.methods import MountFacts

_ALL = MountFacts(
    kernel_mounts=True, mounts=True, user_namespaces=True, fuse=True, squashfuse="/usr/bin/x",
    helper="/usr/bin/stackproof-mount", helper_mounts=True,
)  # fmt: skip
_NOTHING = MountFacts(
    kernel_mounts=False, mounts=False, user_namespaces=False, fuse=False, squashfuse=None
)
_USER = MountFacts(
    kernel_mounts=False, mounts=False, user_namespaces=True, fuse=True, squashfuse="/usr/bin/x"
)
_HELPED = replace(_USER, helper="/usr/bin/stackproof-mount", helper_mounts=True)
each_way = pytest.mark.parametrize("name", list(methods.TITLES))


def test_the_registry_is_what_mountexec_can_do() -> None:
    assert set(methods.TITLES) == set(WAYS)


@each_way
def test_no_problem_where_there_is_everything(name: str) -> None:
    assert methods.find_problems(name, _ALL) == ()


@each_way
def test_every_problem_is_one_of_the_machine_and_has_a_hint(name: str) -> None:
    problems = methods.find_problems(name, _NOTHING)
    assert problems
    assert all(p.hint and p.reason.exit_code is ExitCode.NOT_POSSIBLE for p in problems)


@pytest.mark.parametrize(
    ("facts", "way"),
    [(_ALL, "kernel"), (_HELPED, "helper"), (_USER, "fuse"), (_NOTHING, None)],
)
def test_the_first_way_that_can_be_gone(facts: MountFacts, way: str | None) -> None:
    assert methods.first(facts) == way


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"squashfuse": None}, Reason.TOOL_MISSING),
        ({"fuse": False}, Reason.NO_FUSE),
        ({"user_namespaces": False}, Reason.NO_USER_NAMESPACES),
    ],
)
def test_fuse_needs_each_of_its_parts(change: dict, reason: Reason) -> None:
    problems = methods.find_problems("fuse", replace(_USER, **change))
    assert [problem.reason for problem in problems] == [reason]
    assert all(without_mount.PACK in problem.hint for problem in problems)


def test_fuse_needs_no_user_namespace_where_mounting_is_allowed() -> None:
    facts = replace(_USER, user_namespaces=False, mounts=True)
    assert methods.find_problems("fuse", facts) == ()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"helper": None}, Reason.TOOL_MISSING),
        ({"helper_mounts": False}, Reason.NOT_PERMITTED),
    ],
)
def test_the_helper_must_be_there_and_have_rights(change: dict, reason: Reason) -> None:
    problems = methods.find_problems("helper", replace(_HELPED, **change))
    assert [problem.reason for problem in problems] == [reason]
    assert methods.first(replace(_HELPED, **change)) == "fuse"
