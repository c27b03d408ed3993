"""`sweep:` of a specification: its settings, and what it cannot be."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stackproof.bench.spec import BenchSpec, parse_bench
from stackproof.bench.sweep import settings
from stackproof.core.document import parse
from stackproof.core.errors import Reason, StackproofError

BASE = {"name": "base", "image": "a.squashfs", "env": {"KEPT": "yes", "FI_SHM_TX_SIZE": "8"}}


def spec(sweep: dict[str, Any], **more: Any) -> BenchSpec:
    return parse_bench(parse(json.dumps({"baseline": BASE, "sweep": sweep, **more}), file="x.yaml"))


def test_one_value_is_changed_at_a_time() -> None:
    found = spec(
        {
            "env": {"FI_SHM_TX_SIZE": ["16", "32"], "OTHER": ["a"]},
            "transports": [{"inter-node": "lnx"}],
        }
    )
    assert [arm.name for arm in found.challengers] == [
        "shm_tx_size-16",
        "shm_tx_size-32",
        "other-a",
        "lnx",
    ]
    assert [dict(arm.env) for arm in found.challengers] == [
        {"KEPT": "yes", "FI_SHM_TX_SIZE": "16"},
        {"KEPT": "yes", "FI_SHM_TX_SIZE": "32"},
        {"KEPT": "yes", "FI_SHM_TX_SIZE": "8", "OTHER": "a"},
        dict(BASE["env"]),  # type: ignore[call-overload]
    ]
    assert found.challengers[-1].transports == {"inter-node": "lnx"}
    assert (found.sweep, found.null_arm, found.launches, found.looks_between) == (
        True,
        False,
        20,
        True,
    )


def test_the_product_has_every_combination() -> None:
    asked = {
        "env": {"A": ["1", "2"], "B": ["3", "4"]},
        "transports": [{"inter-node": "tcp"}],
        "product": True,
    }
    found = spec(asked)
    assert [arm.name for arm in found.challengers] == [
        "a-1+b-3+tcp",
        "a-1+b-4+tcp",
        "a-2+b-3+tcp",
        "a-2+b-4+tcp",
    ]
    assert found.challengers[1].env == {**BASE["env"], "A": "1", "B": "4"}  # type: ignore[dict-item]


def test_names_are_words_and_each_its_own() -> None:
    long = "x" * 60
    values = ["/opt/a b", "/opt/a:b", long, f"{long}y", "", "ünïcode"]
    names = [one.name for one in settings({"env": {"V": values}}, "v--opt-a-b")]
    assert len(set(names)) == len(values)
    assert names[0] == "v--opt-a-b-2"  # the baseline has the other
    assert all(0 < len(name) <= 41 for name in names)


@pytest.mark.parametrize(
    ("sweep", "more", "where"),
    [
        ({}, {}, "sweep"),
        ({"env": {}}, {}, "sweep"),
        ({"env": {"A": []}}, {}, "sweep"),
        ({"env": {"A": [1]}}, {}, "sweep"),
        ({"env": {"A=B": ["1"]}}, {}, "sweep"),
        ({"transports": [{"inter-node": "carrier-pigeon"}]}, {}, "sweep"),
        ({"env": {f"V{n}": ["1", "2", "3"] for n in range(4)}, "product": True}, {}, "sweep"),
        ({"env": {"A": ["1"]}}, {"challengers": [{"image": "b.squashfs"}]}, "challengers"),
        ({"env": {"A": ["1"]}}, {"until-decided": True}, "until-decided"),
        ({"env": {"A": ["1"]}}, {"null-arm": True}, "null-arm"),
        ({"env": {"A": ["1"]}}, {"launches": 10}, "launches"),
        ({"env": {"A": ["1"]}}, {"on": "slurm", "allocations": 2}, "allocations"),
    ],
)  # fmt: skip
def test_what_a_sweep_cannot_be(sweep: dict[str, Any], more: dict[str, Any], where: str) -> None:
    text = json.dumps({"baseline": BASE, "sweep": sweep, **more}, indent=1)
    with pytest.raises(StackproofError) as caught:
        parse_bench(parse(text, file="x.yaml"))
    lines = text.splitlines()
    begin = next(n for n, line in enumerate(lines, start=1) if line.startswith(f' "{where}"'))
    assert all(p.where and p.where.line >= begin for p in caught.value.problems)
    assert caught.value.reason in {Reason.INVALID_VALUE, Reason.WRONG_TYPE}
