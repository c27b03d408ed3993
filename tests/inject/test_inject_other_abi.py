"""An MPI of another ABI: that is the first sentence, and nothing that would do harm follows."""

from __future__ import annotations

import json

import pytest

from elflab import Lab
from injectlab import MPICH, causes, found_in, judged, mpich, openmpi, uses_openmpi
from stackproof import cli
from stackproof.inject.job import reasons_against
from stackproof.inject.model import Cause, Effect, InjectionVerdict, Judgement

CALLS = ["MPI_Init", "MPI_Comm_rank"]
HARMFUL = ("LD_PRELOAD", "DT_RPATH", "install it", "find out")


def library(lab: Lab, folder: str = "old") -> None:
    lab.library(f"{folder}/lib/libmpi.so.12", defines=[*MPICH, "MPI_Comm_rank"])


def program(lab: Lab, calls: list[str], **more: object) -> str:
    """Return a program for MPICH whose code shows no datatype."""
    library(lab)
    flags = more.pop("flags", found_in(lab, "old/lib"))
    return lab.program(needs=["old/lib/libmpi.so.12"], calls=calls, flags=flags, **more)


def refused(found: Judgement) -> None:
    first = found.findings[0]
    assert (found.verdict, first.cause) == (InjectionVerdict.FAILS, Cause.OTHER_ABI), found
    assert causes(found, Effect.FAILS) == {Cause.OTHER_ABI}
    remedies = " ".join(one.remedy for one in found.findings)
    assert not [word for word in HARMFUL if word in remedies]
    problem, *_ = reasons_against([found])
    assert "is compiled for the mpich ABI" in problem.message
    assert "Open MPI" in problem.message


@pytest.mark.parametrize("flags", ["runpath", "rpath", "gone"])
def test_whatever_the_program_finds_now(lab: Lab, flags: str) -> None:
    openmpi(lab, "new", defines=["MPI_Comm_rank"])
    words = {
        "runpath": found_in(lab, "old/lib"),
        "rpath": [f"-Wl,--disable-new-dtags,-rpath,{lab.path('old/lib')}"],
        "gone": [],
    }[flags]
    refused(judged(lab, program(lab, CALLS, flags=words), "new"))


def test_the_other_way_round_it_is_the_first_sentence_too(lab: Lab) -> None:
    openmpi(lab, "old")
    mpich(lab, "new")
    asks = uses_openmpi(lab)
    found = judged(lab, asks, "new")
    assert [one.cause for one in found.findings if one.effect is Effect.FAILS] == [Cause.OTHER_ABI]


def test_a_program_that_hands_over_no_handle_is_not_decided(lab: Lab) -> None:
    openmpi(lab, "new")
    found = judged(lab, program(lab, ["MPI_Init"]), "new")
    first = found.findings[0]
    assert (first.cause, first.effect) == (Cause.ABI_UNKNOWN, Effect.CANNOT_TELL)


def test_a_module_may_get_its_handles_from_elsewhere(lab: Lab) -> None:
    openmpi(lab, "new", defines=["MPI_Comm_rank"])
    library(lab)
    module = lab.library(
        "module.so", defines=["start"], imports=CALLS, needs=["old/lib/libmpi.so.12"],
        flags=found_in(lab, "old/lib"),
    )  # fmt: skip
    assert Cause.OTHER_ABI not in causes(judged(lab, module, "new"))


def test_handles_that_come_of_numbers_of_fortran_are_not_decided(lab: Lab) -> None:
    openmpi(lab, "new", defines=["MPI_Comm_rank", "MPI_Comm_f2c"])
    lab.library("old/lib/libmpi.so.12", defines=[*MPICH, "MPI_Comm_rank", "MPI_Comm_f2c"])
    asks = lab.program(
        needs=["old/lib/libmpi.so.12"], calls=[*CALLS, "MPI_Comm_f2c"],
        flags=found_in(lab, "old/lib"),
    )  # fmt: skip
    assert Cause.OTHER_ABI not in causes(judged(lab, asks, "new"))


def test_check_and_apply_say_it_first(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    openmpi(lab, "new", defines=["MPI_Comm_rank"])
    path, new = program(lab, CALLS, flags=[]), lab.path("new")
    said = []
    for words in (
        ["check", path, "--with", new],
        ["check", path, "--with", new, "--json"],
        ["apply", path, "--with", new, "--wrapper", lab.path("wrapped")],
    ):
        with pytest.raises(SystemExit) as stop:
            cli.main(["inject", *words])
        assert stop.value.code == 8
        printed = capsys.readouterr()
        said.append(printed.out + printed.err)
    assert json.loads(said[1])["programs"][0]["findings"][0]["cause"] == "other-abi"
    for text in (said[0], said[2]):
        assert "is compiled for the mpich ABI" in text
        assert not [word for word in HARMFUL if word in text], text
