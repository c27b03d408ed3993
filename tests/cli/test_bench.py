"""`bench` given words that make no sense: refused before anything is read or written."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

import pytest

from stackproof.bench import BenchSpec
from stackproof.cli import bench
from stackproof.errors import Reason, StackproofError


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--transport", "tcp"], "no challenger"),
        (["--launches", "0"], "--launches is 0"),
        (["--launches", "-3"], "--launches is -3"),
        (["--launches", "many"], "invalid int"),
        (["--seed", "-1"], "--seed is -1"),
        (["--placement", "moon"], "invalid choice"),
        (["--ranks", "some"], "--ranks is some"),
        (["--ranks", "2,0"], "--ranks is 2,0"),
        (["--ranks", "3"], "even ones for two nodes"),
        (["--transport", "tcp", "--resume", "results"], "cannot be changed"),
        (["--ranks", "4", "--resume", "results"], "--ranks cannot be changed"),
    ],
)
def test_options_out_of_range(tmp_path: Path, words: list[str], said: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "stackproof", "bench", "--baseline", "x.squashfs", *words],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 2
    assert said in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_transport_that_is_not_known_is_refused_with_those_that_are(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "stackproof", "bench", "--baseline", "x.squashfs",
         "--challenger", "y.squashfs", "--transport", "lnx,pigeon,dove"],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 3
    assert "`pigeon`" in done.stderr
    assert "`dove`" in done.stderr
    assert "matched" in done.stderr
    assert list(tmp_path.iterdir()) == []


def asked(*words: str) -> BenchSpec:
    parser = argparse.ArgumentParser()
    bench.configure(parser)
    return bench.specification(
        parser.parse_args(["--baseline", "v.squashfs", "--challenger", "o.squashfs", *words])
    )


def test_several_transports_are_as_many_arms_and_shm_stays_within_a_node() -> None:
    arms = asked("--transport", "lnx,tcp,shm,lnx").challengers
    assert [(arm.name, dict(arm.transports), arm.placements) for arm in arms] == [
        ("o-lnx", {"intra-node": "lnx", "inter-node": "lnx"}, ()),
        ("o-tcp", {"intra-node": "tcp", "inter-node": "tcp"}, ()),
        ("o-shm", {"intra-node": "shm"}, ("intra-node",)),
    ]
    (one,) = asked("--transport", "shm", "--placement", "intra-node").challengers
    assert (one.name, one.placements) == ("", ())


def test_shm_between_nodes_alone_is_refused() -> None:
    with pytest.raises(StackproofError) as caught:
        asked("--transport", "lnx,shm", "--placement", "inter-node")
    assert caught.value.reason is Reason.UNSUPPORTED


def test_numbers_of_ranks_are_placements(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    spec = asked("--ranks", "4,8")
    assert spec.placements == ("intra-node", "1x4", "inter-node", "2x2")
    assert spec.validated == ("1x8", "2x4")
    assert asked("--ranks", "3", "--placement", "intra-node").placements == ("intra-node", "1x3")
    far = asked("--ranks", "64", "--on", "slurm")  # the job looks at its own nodes
    assert (far.placements[-1], far.validated) == ("2x32", ())


def test_more_ranks_than_cpus_are_said_to_be_untimed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    assert asked("--ranks", "4").validated == ("1x4", "2x2")
    assert "nothing of it is timed" in capsys.readouterr().err
