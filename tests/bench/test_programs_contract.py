"""What every benchmark program keeps."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackproof.bench import programs
from stackproof.bench.programs import Benchmark
from stackproof.bench.programs.osu import OSU_TESTS
from stackproof.core.noun import from_data, to_data
from stackproof.core.value import replace
from stackproof.results.case import Case, Placement, Rank
from stackproof.results.measurement import Output
from stackproof.results.metrics import CORE, METRICS, SOLVER

CAPTURES = Path(__file__).parents[1] / "captures" / "benchmarks"
# A run of each program that went well, and what it was asked for.
SIZES = (0, 1, 4, 8, 1024, 65536)
GOOD = {
    "stackproof-bench": ("native-mpich.txt", tuple(CORE)),
    "IMB-MPI1": (
        "imb-mpich.txt",
        ("latency", "bandwidth", "message_rate", "bibandwidth", "allreduce", "alltoall",
         "allgather", "bcast", "barrier"),
    ),
    "stackproof-solver": ("solver-openmpi.txt", tuple(SOLVER)),
}  # fmt: skip
PLACEMENT = Placement(name="pair", ranks=(Rank(node="node1", cpu=0), Rank(node="node1", cpu=1)))

# Each of OSU's tests is a program that prints next to nothing of itself: test_osu_programs.py.
OSU = {test.program for test in OSU_TESTS.values()}
each_program = pytest.mark.parametrize(
    "program",
    [program for name, program in programs.REGISTRY.items() if name not in OSU],
    ids=lambda program: program.name,
)


def case_of(program: Benchmark) -> Case:
    return Case(
        program=program.name,
        benchmarks=GOOD[program.name][1],
        sizes=SIZES,
        placement=PLACEMENT,
    )


def is_sized(program: Benchmark) -> bool:
    return any(METRICS[name].sized for name in GOOD[program.name][1])


def good(program: Benchmark) -> bytes:
    return (CAPTURES / GOOD[program.name][0]).read_bytes()


def test_every_program_has_a_capture() -> None:
    assert set(GOOD) == set(programs.REGISTRY) - OSU


@each_program
def test_registered_under_its_name(program: Benchmark) -> None:
    assert programs.REGISTRY[program.name] is program


@each_program
def test_a_good_case_has_no_problem(program: Benchmark) -> None:
    assert program.problems(case_of(program)) == ()


@each_program
def test_a_bad_case_has_all_its_problems(program: Benchmark) -> None:
    bad = replace(
        case_of(program),
        benchmarks=("speed",),
        window=0,
        sizes=(-1,),
        placement=Placement(name="one", ranks=(Rank(node="node1"),)),
    )
    problems = program.problems(bad)
    assert len(problems) >= (4 if is_sized(program) else 2)
    assert all(text == text.strip() and not text.endswith(".") for text in problems)


@each_program
def test_argv_begins_with_the_program_and_is_words(program: Benchmark) -> None:
    argv = program.argv("/mnt/bin/program", case_of(program))
    assert argv[0] == "/mnt/bin/program"
    assert all(word and word == word.strip() for word in argv)
    assert argv == program.argv("/mnt/bin/program", case_of(program))


@each_program
def test_argv_names_every_size(program: Benchmark) -> None:
    words = ",".join(program.argv("p", case_of(program))).split(",")
    assert {str(size) for size in SIZES} <= set(words) or not is_sized(program)


@each_program
def test_a_good_run_is_complete_and_in_the_units_of_the_metrics(program: Benchmark) -> None:
    output = program.parse(good(program), case_of(program))
    assert output.program == program.name
    assert output.complete
    assert output.worlds == 1
    assert output.world_size == 2
    assert output.program_version
    assert output.garbage == ()
    assert {s.benchmark for s in output.series} == set(GOOD[program.name][1])
    for series in output.series:
        assert series.unit == METRICS[series.benchmark].unit
        assert series.iterations > 0
        assert all(math.isfinite(value) and value > 0 for value in series.values)
    assert from_data(Output, to_data(output)) == output


@each_program
def test_what_was_asked_for_is_there_or_has_a_reason(program: Benchmark) -> None:
    output = program.parse(good(program), case_of(program))
    found = {(s.benchmark, s.size) for s in output.series}
    for name in GOOD[program.name][1]:
        for size in SIZES if METRICS[name].sized else (0,):
            assert ((name, size) in found) != (f"{name} {size}" in output.skipped)


@each_program
def test_an_output_of_another_case_is_not_complete(program: Benchmark) -> None:
    for change in ({"sizes": (*SIZES, 16)}, {"sizes": SIZES[1:]}, {"sizes": ()}):
        other = program.parse(good(program), replace(case_of(program), **change))
        assert other.complete is not is_sized(program)
    fewer = replace(case_of(program), benchmarks=("bcast", "bibandwidth"))
    output = program.parse(good(program), fewer)
    assert {s.benchmark for s in output.series} <= {"bcast", "bibandwidth"}


@each_program
def test_silence_is_not_complete(program: Benchmark) -> None:
    output = program.parse(b"", case_of(program))
    assert output == Output(program=program.name)


@each_program
@given(noise=st.binary(max_size=400))
def test_no_bytes_raise(program: Benchmark, noise: bytes) -> None:
    output = program.parse(noise, case_of(program))
    assert output.series == ()
    assert not output.complete


@each_program
@given(data=st.data())
def test_damage_makes_no_number(program: Benchmark, data: st.DataObject) -> None:
    """Lines are lost, the output is cut, characters are lost, or others come in between."""
    whole, case = good(program), case_of(program)
    truth = set(program.parse(whole, case).series)
    lines = whole.splitlines(keepends=True)
    lost = data.draw(st.sets(st.integers(0, len(lines) - 1), min_size=1, max_size=60))
    at, count = data.draw(st.integers(0, len(whole) - 1)), data.draw(st.integers(1, 40))
    noise = data.draw(st.binary(min_size=1, max_size=12))
    word = data.draw(st.text(min_size=1, max_size=20)).encode(errors="replace")
    kept = b"".join(line for number, line in enumerate(lines) if number not in lost)
    damaged = (
        kept, whole[:at], whole[:at] + whole[at + count :], whole[:at] + noise + whole[at:],
        whole[:at] + word + whole[at:],
    )  # fmt: skip
    for output in (program.parse(text, case) for text in damaged):
        assert set(output.series) <= truth
        assert not output.complete or set(output.series) == truth
    numbered = program.name != "IMB-MPI1"  # each line carries its number
    assert not (numbered and program.parse(kept, case).complete)


@each_program
@pytest.mark.parametrize(
    "label", ["", "0: ", "0:", " 0: ", "10: ", "[0] ", "[1,0]<stdout>: ", "[1,0]<stdout>:"]
)
def test_labels_and_carriage_returns_do_no_harm(program: Benchmark, label: str) -> None:
    if program.name == "IMB-MPI1" and label.endswith(":"):
        label += " "  # its rows begin with a blank, which would belong to the label
    whole, case = good(program), case_of(program)
    labelled = b"".join(label.encode() + line + b"\r\n" for line in whole.splitlines())
    assert program.parse(labelled, case) == program.parse(whole, case)


@each_program
@given(data=st.data())
def test_noise_between_lines_changes_no_number(program: Benchmark, data: st.DataObject) -> None:
    lines = good(program).splitlines(keepends=True)
    at = data.draw(st.integers(0, len(lines)))
    words = data.draw(
        st.text(st.characters(codec="utf-8", exclude_characters="#\n\r"), min_size=1, max_size=60)
    )
    noisy = b"".join([*lines[:at], words.encode(), b"\n", *lines[at:]])
    output = program.parse(noisy, case_of(program))
    assert set(output.series) <= set(program.parse(good(program), case_of(program)).series)
