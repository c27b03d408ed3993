from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackproof.core.errors import ExitCode, Location, Problem, Reason, StackproofError, fail


def test_every_reason_has_an_exit_code_that_is_not_success():
    for reason in Reason:
        assert reason.exit_code in ExitCode
        assert reason.exit_code is not ExitCode.DONE


def test_every_exit_code_but_success_has_a_reason():
    assert {reason.exit_code for reason in Reason} == set(ExitCode) - {ExitCode.DONE}


def test_exit_codes_are_the_documented_numbers():
    numbers = {code.name: int(code) for code in ExitCode}
    assert numbers == {
        "DONE": 0, "BUG": 1, "USAGE": 2, "INVALID": 3, "NOT_POSSIBLE": 4, "BUILD": 5,
        "IMAGE": 6, "JOB": 7, "WORSE": 8, "UNKNOWN": 9, "STEPS": 10, "NO_WORK": 11, "INTERRUPTED": 130,
    }  # fmt: skip


def test_reasons_are_words_for_machines():
    for reason in Reason:
        assert reason.value == reason.name.lower().replace("_", "-")


@pytest.mark.parametrize(
    ("location", "text"),
    [
        (Location(file="a.yaml"), "a.yaml"),
        (Location(file="a.yaml", line=3, column=7), "a.yaml:3:7"),
    ],
)
def test_location(location, text):
    assert str(location) == text


def test_problem_with_everything():
    problem = Problem(
        reason=Reason.UNKNOWN_KEY,
        message="unknown key `mpii`",
        hint="did you mean `mpi`?",
        where=Location(file="r.yaml", line=2, column=1),
        detail="first\nsecond\n",
    )
    assert str(problem).split("\n") == [
        "error: unknown key `mpii` [unknown-key]",
        "  --> r.yaml:2:1",
        "  | first",
        "  | second",
        "hint: did you mean `mpi`?",
    ]


def test_problem_with_a_message_alone_is_one_line():
    assert str(Problem(reason=Reason.BUG, message="no")) == "error: no [bug]"


def test_error_of_many_problems_ends_with_the_first_reason():
    first = Problem(reason=Reason.DUPLICATE_KEY, message="one")
    second = Problem(reason=Reason.BUSY, message="two")
    error = StackproofError(first, second)
    assert error.reason is Reason.DUPLICATE_KEY
    assert error.problems == (first, second)
    assert str(error) == "error: one [duplicate-key]\nerror: two [busy]"


def test_error_without_a_problem_is_a_bug():
    with pytest.raises(ValueError, match="at least one"):
        StackproofError()


def test_fail_returns_and_does_not_raise():
    where = Location(file="x")
    error = fail(Reason.NO_FUSE, "no", hint="do", where=where, detail="d")
    assert error.problems == (
        Problem(reason=Reason.NO_FUSE, message="no", hint="do", where=where, detail="d"),
    )


@given(st.sampled_from(Reason), st.text(), st.text() | st.none())
def test_problems_survive_pickling(reason, message, detail):
    problem = Problem(reason=reason, message=message, detail=detail)
    again = pickle.loads(pickle.dumps(StackproofError(problem, problem)))
    assert again.problems == (problem, problem)
    assert str(again) == str(StackproofError(problem, problem))
