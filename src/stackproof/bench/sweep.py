"""`sweep:` of a bench specification to its settings: the baseline's arm with other values."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping
from typing import Any

from msgspec import field

from stackproof.core.document import Document
from stackproof.core.errors import Problem, Reason
from stackproof.core.value import Value

LAUNCHES = 20
"""Launches of a setting at most, where nobody says otherwise."""

_FEWEST_LAUNCHES = 11
_ERROR = 0.05  # as `compare.sweep` has it
_MOST_SETTINGS = 64
_LONGEST = 40


class SweepSetting(Value):
    """Values that are tried together: what they change of an arm's variables and transports."""

    name: str
    env: Mapping[str, str] = field(default_factory=dict)
    transports: Mapping[str, str] = field(default_factory=dict)


def settings(sweep: Mapping[str, Any], baseline: str) -> tuple[SweepSetting, ...]:
    """Return every setting: one value changed at a time, or with `product` all combinations.

    Names are made of the values, and none is that of the `baseline`.
    """
    axes = [
        [SweepSetting(name=f"{_short(name)}-{value}", env={name: value}) for value in values]
        for name, values in sweep.get("env", {}).items()
    ]
    axes.append(
        [
            SweepSetting(name="-".join(dict.fromkeys(one.values())), transports=dict(one))
            for one in sweep.get("transports", ())
        ]
    )
    axes = [axis for axis in axes if axis]
    groups = itertools.product(*axes) if sweep.get("product") else ((s,) for a in axes for s in a)
    names = {_word(baseline)}
    found = []
    for parts in groups:
        name = own = _word("+".join(part.name for part in parts))
        number = 2
        while own in names:
            own, number = f"{name[: _LONGEST - 4]}-{number}", number + 1
        names.add(own)
        env = {key: value for part in parts for key, value in part.env.items()}
        transports = {key: value for part in parts for key, value in part.transports.items()}
        found.append(SweepSetting(name=own, env=env, transports=transports))
    return tuple(found)


def _short(name: str) -> str:
    """Return a variable without what all of its library begin with."""
    return re.sub(r"^(FI|MPIR_CVAR|OMPI_MCA|UCX|I_MPI|MPICH)_", "", name).lower()


def _word(text: str) -> str:
    """Return a text as the name of an arm."""
    word = re.sub(r"[^A-Za-z0-9._+-]+", "-", text).strip("-._+")
    return word[:_LONGEST] or "setting"


def fewest_launches(settings: int) -> int:
    """Return with how many launches one of so many settings can be given up before the last.

    A setting that loses in each of n blocks does so by chance once in 2^n times; the more settings,
    the rarer it must be (`compare.sweep`), and two looks or more have the chance together.
    """
    return max(_FEWEST_LAUNCHES, math.ceil(math.log2(settings / _ERROR)) + 2)


def problems(document: Document) -> list[Problem]:
    """Return why a sweep, in a document of good form, cannot be."""
    data = document.data
    if "sweep" not in data:
        return []
    found: list[tuple[tuple[str | int, ...], str, str]] = []
    sweep = data["sweep"]
    counts = [len(values) for values in sweep.get("env", {}).values()]
    counts += [len(sweep["transports"])] if "transports" in sweep else []
    count = sum(counts)
    if sweep.get("product"):
        count = 1
        for number in counts:
            count *= number
    if count > _MOST_SETTINGS:
        hint = "change one value at a time (leave `product` out), or name fewer values"
        found.append((("sweep",), f"{count} settings; there may be {_MOST_SETTINGS}", hint))
    if data.get("challengers"):
        hint = "sweep first; then compare with what was best"
        found.append((("challengers",), "a sweep compares settings of the baseline alone", hint))
    for key in ("until-decided", "null-arm"):
        if data.get(key):
            hint = "leave it out: settings are compared with each other, until the best is known"
            found.append(((key,), f"`{key}` is not for a sweep", hint))
    if data.get("allocations", 1) > 1:
        found.append(
            (("allocations",), "a sweep is made in one allocation", "say `allocations: 1`")
        )
    if data.get("launches", LAUNCHES) < (fewest := fewest_launches(count)):
        message = f"in {data['launches']} launches no setting can be told from another"
        found.append((("launches",), message, f"say at least {fewest}, or leave it out"))
    return [
        Problem(
            reason=Reason.INVALID_VALUE, message=message, hint=hint, where=document.where(*path)
        )
        for path, message, hint in found
    ]
