"""What results say of themselves and of the machine, and how a launch is written down."""

from __future__ import annotations

import os
from pathlib import Path

from stackproof.bench.effects import planning
from stackproof.core import noun
from stackproof.results.effects.record import Record
from stackproof.results.measurement import Measurement
from stackproof.results.model import LAUNCHES
from synthetic import Plan, simulate


def test_a_machine_is_told_by_what_launches_must_have_in_common() -> None:
    told = planning.machine()
    assert set(told) == {"cpu", "kernel", "machine"}
    assert told["kernel"].endswith(os.uname().release)


def test_a_launch_is_kept_as_it_was_where_there_are_no_digests(tmp_path: Path) -> None:
    (one, *_) = simulate(Plan(blocks=1, sizes=(8,))).measurements
    (tmp_path / LAUNCHES).mkdir()
    Record(tmp_path, None).keep("one.json", one)
    text = (tmp_path / LAUNCHES / "one.json").read_text()
    assert noun.from_json(Measurement, text) == one
