"""Launch files that are read with what they have alike held once."""

import json

import pytest

from refusals import refusal
from stackproof.core import noun
from stackproof.core.value import replace
from stackproof.results.effects.record import Record, load_launch
from stackproof.results.measurement import Disturbance, Measurement, RankClock
from stackproof.results.model import LAUNCHES
from stackproof.results.record import read_record
from synthetic import INTER, Plan, simulate

MEASUREMENTS = simulate(
    Plan(challengers=("mpich",), placements=(INTER,), sizes=(8, 1024), blocks=2)
).measurements


def with_facts(one):
    seen = Disturbance(wall_s=2.0, other_load=0.25, frequency_mhz=2600)
    clock = RankClock(
        shared=True, skew_us=0.5, skew_bound_us=1, moved_us=0, moved_bound_us=1, jump_us=0
    )
    ranks = tuple(
        replace(rank, disturbance=seen, clock=clock, parts={"latency 8": {"eth0": 9}})
        for rank in one.output.ranks
    )
    return replace(one, output=replace(one.output, ranks=ranks))


@pytest.mark.parametrize("one", [*MEASUREMENTS, *map(with_facts, MEASUREMENTS)])
def test_a_launch_is_read_as_it_was_written(one):
    content = noun.to_json(one).encode()
    found = read_record(content, file="x.json")
    assert found == one == noun.from_json(Measurement, content)
    assert repr(found) == repr(noun.from_json(Measurement, content))


def test_what_launches_have_alike_is_held_once():
    first, second = (
        read_record(noun.to_json(one).encode(), file="x.json")
        for one in MEASUREMENTS
        if one.arm == "mpich" and one.block
    )
    assert first.order != second.order
    assert first.case is second.case
    assert first.argv is second.argv
    for one, other in zip(first.output.ranks, second.output.ranks, strict=True):
        assert one.libraries is other.libraries


def changed(change):
    data = json.loads(noun.to_json(MEASUREMENTS[0]))
    change(data)
    return json.dumps(data)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        "null",
        '"stackproof/measurement/1"',
        b"\xff\xfe",
        "[" * 100_000,
        changed(lambda data: data.pop("schema")),
        changed(lambda data: data.update(schema="stackproof/measurement/2")),
        changed(lambda data: data.pop("argv")),
        changed(lambda data: data.update(argv="mpiexec")),
        changed(lambda data: data["case"].pop("placement")),
        changed(lambda data: data.update(output=[])),
        changed(lambda data: data["output"].update(ranks={})),
        changed(lambda data: data["output"]["ranks"].append(1)),
        changed(lambda data: data["output"]["ranks"][0].pop("host")),
        changed(lambda data: data["output"]["series"][0].update(values=["1"])),
    ],
)
def test_what_is_no_launch_is_refused_in_the_words_of_every_document(text):
    content = text if isinstance(text, bytes) else text.encode()
    expected = refusal(noun.from_json, Measurement, content, file="x.json")
    assert refusal(read_record, content, file="x.json").problems == expected.problems


def test_keys_that_nobody_knows_are_left_out():
    content = changed(lambda data: data.update(later=1, SCHEMA="x")).encode()
    assert read_record(content, file="x.json") == MEASUREMENTS[0]


def test_a_launch_is_kept_as_it_was_where_there_are_no_digests(tmp_path):
    (tmp_path / LAUNCHES).mkdir()
    Record(tmp_path, None).keep("one.json", MEASUREMENTS[0])
    assert load_launch(tmp_path / LAUNCHES / "one.json") == MEASUREMENTS[0]
