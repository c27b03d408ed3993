"""`bench` given words that make no sense: refused before anything is read or written."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--transport", "tcp"], "no challenger"),
        (["--launches", "0"], "--launches is 0"),
        (["--launches", "-3"], "--launches is -3"),
        (["--launches", "many"], "invalid int"),
        (["--seed", "-1"], "--seed is -1"),
        (["--placement", "moon"], "invalid choice"),
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
         "--challenger", "y.squashfs", "--transport", "lnx,pigeon"],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 3
    assert "`pigeon`" in done.stderr
    assert "matched" in done.stderr
    assert list(tmp_path.iterdir()) == []
