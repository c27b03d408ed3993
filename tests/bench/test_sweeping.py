"""A sweep on this machine: a planted best setting is found, and its profile is used."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from benchroom import stackproof, write_spec

COVERS = ("bench/effects/profiles.py", "bench/effects/sweeping.py")

pytestmark = pytest.mark.machine

PER_KIB = "STACKPROOF_SLOWSEND_NS_PER_KIB"
BEST = "stackproof_slowsend_ns_per_kib-0"


def test_a_planted_best_setting_is_found_and_its_profile_is_used(room: Path) -> None:
    """Each send waits 30 ms, which no other work on the machine hides; one of 64 KiB waits a quarter
    more, but with one of three settings.
    """
    slow = {"LD_PRELOAD": str(room / "slowsend.so"), "STACKPROOF_SLOWSEND_NS": "30000000"}
    spec = write_spec(
        room, "planted",
        baseline={"name": "as-it-is", "image": "mpich.squashfs", "env": {**slow, PER_KIB: "120000"}},
        sweep={"env": {PER_KIB: ["0", "119000"]}}, launches=20, sizes=[8, 65536],
    )  # fmt: skip
    text = yaml.safe_load((room / spec).read_text())
    del text["null-arm"]
    (room / spec).write_text(json.dumps(text))
    # Where others take the ranks' cores, settings rightly stay open.
    for attempt in range(3):
        folder = f"planted-{attempt}"
        done = stackproof("bench", spec, "-o", folder, cwd=room)
        assert done.returncode == 0, done.stderr
        if "one is left on every curve" in done.stderr:
            break
    assert done.stdout.startswith(f"`{BEST}` serves most sizes (")
    assert f"latency at intra-node, 64 KiB: {BEST}, 1." in done.stdout
    assert "one is left on every curve" in done.stderr
    found = json.loads(stackproof("compare", folder, "--json", cwd=room, ok=(0, 8, 9)).stdout)[
        "sweep"
    ]
    assert found["best"] == BEST
    assert found["grid"] == 60
    assert found["launches"] <= 0.6 * found["grid"]
    (large,) = [one for one in found["choices"] if one["size"] == 65536]
    assert 1.0 < large["low"] < 1.28  # 37.5 ms are 1.25 times 30 ms
    assert large["high"] > 1.22
    assert large["equal"] == []
    # Nothing is left to be made.
    again = stackproof("bench", "--resume", folder, cwd=room)
    assert again.stdout == done.stdout
    made = len(list((room / folder / "launches").iterdir()))
    assert made == found["launches"] + 3
    html = stackproof("report", folder, "-o", "planted.html", cwd=room)
    assert html.returncode == 0, html.stderr
    assert "The best setting by size" in (room / "planted.html").read_text()
    # The profile: in an image as it is, and in one that is built with it.
    said = stackproof(
        "run",
        "mpich.squashfs",
        "--profile",
        f"{folder}/profile.yaml",
        "--",
        "printenv",
        PER_KIB,
        cwd=room,
    )
    assert (said.returncode, said.stdout) == (0, "0\n")
    profile = yaml.safe_load((room / folder / "profile.yaml").read_text())
    assert profile["views"]["tuned"]["set"][PER_KIB] == "0"
    shown = stackproof("plan", "mpich", "--profile", f"{folder}/profile.yaml", "--json", cwd=room)
    assert shown.returncode == 0, shown.stderr
    assert PER_KIB in shown.stdout
