"""Reading a results folder."""

import json

import pytest

from stackproof.compare.compare import compare
from stackproof.compare.effects.results import load_results
from stackproof.core import noun
from stackproof.core.errors import Reason, StackproofError
from stackproof.core.value import replace
from stackproof.results.path import MessagePaths
from synthetic import Plan, simulate, write_results

PLAN = Plan(challengers=("mpich",), sizes=(8, 64), blocks=2, samples=1)


@pytest.fixture
def folder(tmp_path):
    return write_results(simulate(PLAN), tmp_path / "results")


def test_what_was_written_is_read(folder):
    results = replace(load_results(folder), digests=None, files=())
    assert results == simulate(PLAN)
    assert replace(load_results(str(folder)), digests=None, files=()) == results


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", Reason.YAML_SYNTAX),
        (b'{"schema": "stackproof/measurement/1", "arm": "mp', Reason.YAML_SYNTAX),
        (b"\xff\xfe\x00", Reason.YAML_SYNTAX),
        (b'{"schema": "stackproof/measurement/9"}', Reason.UNSUPPORTED),
        (b'{"schema": "stackproof/measurement/1", "arm": 3}', Reason.WRONG_TYPE),
        (b"[]", Reason.UNSUPPORTED),
    ],
)
def test_a_broken_launch_file_costs_only_itself(folder, content, reason):
    broken = folder / "launches" / "0003.json"
    broken.write_bytes(content)
    results = load_results(folder)
    assert len(results.measurements) == len(simulate(PLAN).measurements) - 1
    assert [(p.reason, p.where.file) for p in results.problems] == [(reason, str(broken))]


def test_all_broken_files_are_named(folder):
    for name in ("0001.json", "0002.json"):
        (folder / "launches" / name).write_text("{")
    assert len(load_results(folder).problems) == 2


def test_other_files_are_left_alone(folder):
    (folder / "launches" / "notes.txt").write_text("not ours")
    assert load_results(folder).problems == ()


def test_a_launch_file_that_is_a_folder_is_a_problem(folder):
    (folder / "launches" / "9999.json").mkdir()
    assert len(load_results(folder).problems) == 1


def test_no_readable_launch(folder):
    for file in (folder / "launches").iterdir():
        file.write_text("garbage")
    with pytest.raises(StackproofError) as caught:
        load_results(folder)
    assert caught.value.reason is Reason.NO_RESULTS
    assert len(caught.value.problems) == 1 + len(simulate(PLAN).measurements)


def test_no_launch_at_all(folder):
    for file in (folder / "launches").iterdir():
        file.unlink()
    (folder / "launches").rmdir()
    with pytest.raises(StackproofError) as caught:
        load_results(folder)
    assert caught.value.reason is Reason.NO_RESULTS


def test_a_bench_that_ended_while_it_warmed_up():
    """No launch failed, so that there is no reason above."""
    results = simulate(PLAN)
    first = tuple(replace(one, block=0) for one in results.measurements)
    with pytest.raises(StackproofError) as caught:
        compare(replace(results, measurements=first))
    (problem,) = caught.value.problems
    assert problem.reason is Reason.NO_RESULTS
    assert problem.detail is None
    assert "the same `bench` command with `-o` makes them" in (problem.hint or "")


def test_a_broken_specification_is_an_error(folder):
    data = json.loads((folder / "bench.json").read_text())
    del data["baseline"]
    (folder / "bench.json").write_text(json.dumps(data))
    with pytest.raises(StackproofError) as caught:
        load_results(folder)
    assert caught.value.reason is Reason.WRONG_TYPE
    assert caught.value.problems[0].where.file.endswith("bench.json")


def test_unknown_keys_of_a_specification_are_ignored(folder):
    data = json.loads((folder / "bench.json").read_text())
    data["later"] = {"more": 1}
    (folder / "bench.json").write_text(json.dumps(data))
    assert load_results(folder).spec.baseline == "impi"


def test_not_a_results_folder(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    for name, reason in (
        ("file", Reason.INVALID_VALUE),
        ("empty", Reason.FILE_MISSING),
        ("absent", Reason.FILE_MISSING),
    ):
        with pytest.raises(StackproofError) as caught:
            load_results(tmp_path / name)
        assert caught.value.reason is reason


def test_probes_are_read_with_the_launches(folder):
    placement = simulate(PLAN).measurements[0].case.placement
    found = MessagePaths(
        arm="mpich", placement=placement, transport="shm", family="mpich", version="5.0.2",
        launcher="hydra", identity="x", started="2026-01-01T00:00:00+00:00", seconds=0.4,
    )  # fmt: skip
    (folder / "probes").mkdir()
    (folder / "probes" / "mpich-intra-node-0.json").write_text(noun.to_json(found))
    broken = folder / "probes" / "openmpi-intra-node-0.json"
    broken.write_text("{")
    results = load_results(folder)
    assert results.paths == (found,)
    notes = [note.text for note in compare(results).notes]
    assert [text for text in notes if "could not be told" in text] == [
        "which path mpich took at intra-node could not be told"
    ]
    assert [(one.reason, one.where.file) for one in results.problems] == [
        (Reason.YAML_SYNTAX, str(broken))
    ]
    assert len(results.measurements) == len(simulate(PLAN).measurements)
