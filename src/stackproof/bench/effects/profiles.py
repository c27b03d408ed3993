"""What a sweep found, written beside its results as a profile that recipes and jobs take."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from stackproof.bench.spec import Arm, BenchSpec
from stackproof.compare.model import Comparison, SweepOutcome
from stackproof.core.effects import files
from stackproof.image.profile import TUNED, ProfileView, render_profile
from stackproof.report.sweep import best_lines, outcome_sentence

PROFILE = "profile.yaml"
"""The name of a profile in a results folder."""


def write_profile(spec: BenchSpec, comparison: Comparison, folder: Path) -> Path | None:
    """Write the profile of a sweep into its results folder; return its path.

    None where the results cannot be trusted, so that nothing was found.
    """
    found = comparison.sweep
    if found is None:
        return None
    path = folder / PROFILE
    comments = (outcome_sentence(comparison, found), *best_lines(found))
    files.write(path, render_profile(dict(_views(spec, comparison, found)), comments))
    return path


def _views(
    spec: BenchSpec, comparison: Comparison, found: SweepOutcome
) -> Iterator[tuple[str, ProfileView]]:
    arms = {arm.name: arm for arm in spec.challengers}
    names = [
        found.best,
        *dict.fromkeys(one.arm for one in found.choices if one.low and one.low > 1),
    ]
    for name in dict.fromkeys(names):
        if name == comparison.spec.baseline:
            continue
        view = TUNED if name == found.best else _view_name(name)
        yield view, ProfileView(description=_description(arms[name]), set=arms[name].env)


def _description(arm: Arm) -> str:
    forced = ", ".join(f"--transport {name} {where}" for where, name in arm.transports.items())
    text = f"the setting {arm.name} of a sweep"
    return f"{text}; it was measured with {forced}" if forced else text


def _view_name(arm: str) -> str:
    word = re.sub(r"[^a-zA-Z0-9_-]", "-", arm)
    return f"set-{word}"[:63]
