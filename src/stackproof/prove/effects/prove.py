"""A proof from its beginning to its end: arms run, the two that work compared, and a conclusion."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TypeVar

from stackproof.core import noun
from stackproof.core.effects import files
from stackproof.core.errors import Reason, fail
from stackproof.core.monitor import Monitor
from stackproof.core.value import replace
from stackproof.launch.effects import launch_folder
from stackproof.prove import model as prove_model
from stackproof.prove.effects import arms as prove_arms
from stackproof.prove.effects import mounting
from stackproof.prove.effects import speed as prove_speed
from stackproof.prove.effects.arms import Ready
from stackproof.prove.effects.speed import Compared
from stackproof.prove.model import INJECTED, OWN, Proof
from stackproof.prove.options import ProveRequest
from stackproof.results.model import RECOMMENDED_LAUNCHES

_Number = TypeVar("_Number", int, float)
_RANKS_AT_MOST = 1024
_LAUNCHES_AT_MOST = 1000
_SECONDS_AT_MOST = 86400


def prove(options: ProveRequest, folder: Path, monitor: Monitor) -> Proof:
    """Judge and run every arm, and write `proof.json` into a folder that must be empty.

    Raises `StackproofError` (USAGE, what judging and running raise, and the reason of an image that
    cannot be mounted, before any arm starts); then nothing is left there.
    """
    _check(options)
    folder = folder.absolute()
    files.check_empty(folder)
    there = folder.exists()
    try:
        with launch_folder.held() as scratch:
            ready = prove_arms.prepare(options, folder)
            stage = replace(ready.stage, scratch=scratch)
            mounting.try_mounts([(arm.mounts, arm.env) for arm in ready.arms.values()], stage.state)
            proven = _prove(replace(ready, stage=stage), monitor)
        files.write(folder / "proof.json", noun.to_json(proven))
    except BaseException:  # half a proof proves nothing, and would stand in the next one's way
        for made in folder.iterdir() if there else [folder]:
            files.remove(made)
        raise
    return proven


def _prove(ready: Ready, monitor: Monitor) -> Proof:
    """Run the arms, compare the speed of the two that run, and conclude."""
    arms, outputs = {}, {}
    monitor = prove_speed.look_around(ready.stage, monitor)
    monitor(prove_speed.announced(ready))
    for name, arm in ready.arms.items():
        arms[name], outputs[name] = prove_arms.run_arm(ready.stage, arm, monitor)
    wanted = ready.stage.wanted
    if wanted.launches == 0:
        speed = Compared(notes=("as was asked for",))
    elif arms[OWN].fault or arms[INJECTED].fault:
        speed = Compared(notes=("not both arms run",))
    else:
        speed = prove_speed.measure(ready, outputs, monitor)
    for name, sentence in speed.wrong_bytes.items():
        arms[name] = replace(arms[name], wrong_bytes=sentence)
    answer, reasons = prove_model.conclude(arms)
    return Proof(
        program=ready.stage.program,
        replacement=wanted.replacement,
        answer=answer,
        reasons=reasons,
        arms=tuple(arms.values()),
        speed=speed.speed,
        launches=speed.launches,
        speed_notes=speed.notes,
    )


def _check(options: ProveRequest) -> None:
    """Raise `StackproofError` (USAGE) for what no proof can have."""
    _within("--ranks", options.ranks, 2, _RANKS_AT_MOST)
    launches = _within("--launches", options.launches, 0, _LAUNCHES_AT_MOST)
    if 0 < launches < RECOMMENDED_LAUNCHES:
        raise fail(
            Reason.USAGE,
            f"`--launches` must be at least {RECOMMENDED_LAUNCHES}, not {launches}: fewer say "
            "nothing on speed",
            hint="0 leaves speed out",
        )
    if prove_speed.wait_s(options) is not None and not launches:
        raise fail(
            Reason.USAGE,
            "`--wait-for-quiet` is for what is timed, and `--launches 0` times nothing",
            hint="leave one of them out",
        )
    _within("--timeout", options.timeout_s, 1, _SECONDS_AT_MOST)
    prove_arms.variables_of(options)
    try:
        re.compile(options.expect)
    except re.error as error:
        text = f"`{options.expect}` is not a regular expression: {error}"
        raise fail(Reason.USAGE, text) from None


def _within(option: str, value: _Number, lowest: int, highest: int) -> _Number:
    if lowest <= value <= highest:
        return value
    raise fail(Reason.USAGE, f"`{option}` must be between {lowest} and {highest}, not {value}")
