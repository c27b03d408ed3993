"""A clock that jumps while an arm is timed: its launches are named, and nothing is judged by them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from benchroom import stackproof, verdicts, write_spec

pytestmark = pytest.mark.machine

SENTENCE = re.compile(r"the clock of rank 1 jumped by (29|30)\d µs during the launch")


def test_a_jump_of_a_rank_s_clock_is_named_and_decides_nothing(room: Path) -> None:
    spec = write_spec(
        room, "jump",
        **{
            "null-arm": True,
            "challengers": [
                {
                    "name": "jumps", "image": "faulty.squashfs",
                    "env": {"FAULT": "jump", "JUMP": str(room / "jumpclock.so")},
                },
            ],
            "benchmarks": ["latency", "allreduce"],
            "launches": 5,
        },
    )  # fmt: skip
    done = stackproof("bench", spec, "-o", "jump", "--json", cwd=room, ok=(9,))
    comparison = json.loads(done.stdout)
    assert comparison["verdict"] == "INCONCLUSIVE"
    assert not {"PASS", "FAIL"} & set(verdicts(comparison, "jumps").values())
    discarded = [one for one in comparison["discarded"] if one["arm"] == "jumps"]
    assert {one["reason"] for one in discarded} == {"clock-jumped"}
    assert all(SENTENCE.search(one["evidence"]) for one in discarded), discarded
    # Others keep their launches: nothing of them has jumped.
    kept = {one["arm"] for one in comparison["discarded"]} - {"jumps", ""}
    assert kept == set()
    told = stackproof("compare", "jump", cwd=room, ok=(9,)).stdout
    assert SENTENCE.search(" ".join(told.split()))
    stackproof("report", "jump", "-o", "jump.html", cwd=room)
    assert SENTENCE.search((room / "jump.html").read_text(encoding="utf-8"))
