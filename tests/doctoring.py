"""`stackproof doctor` as a user calls it, in this process.

doctoring.fired("--log", log, "--site", "lumi-g")[0]["rule"]
"""

from __future__ import annotations

import json
from typing import Any

import inprocess
from stackproof.core.errors import ExitCode


def told(*words: object) -> dict[str, Any]:
    """Return a diagnosis as data; a cause need not be known."""
    done = inprocess.stackproof("doctor", *words, "--json")
    assert done.returncode in {0, ExitCode.UNKNOWN}, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def fired(*words: object) -> list[dict[str, Any]]:
    """Return the findings that are there, the first cause first."""
    return [one for one in told(*words)["findings"] if one["answer"] == "fires"]


def first_rules(*words: object) -> list[str]:
    """Return the ids of these findings."""
    return [one["rule"] for one in fired(*words)]
