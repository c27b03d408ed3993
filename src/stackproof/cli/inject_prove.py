"""`stackproof inject prove`: run what was predicted, and show that it came true."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from stackproof import noun
from stackproof.cli import progress
from stackproof.errors import ExitCode, Reason, fail
from stackproof.host import files
from stackproof.inject import proof
from stackproof.inject.proof import INJECTED, OWN, Answer, Proof

if TYPE_CHECKING:
    from stackproof.host.proving import Ready

_Number = TypeVar("_Number", int, float)
_CODES = {
    Answer.PROVEN: ExitCode.DONE,
    Answer.WRONG: ExitCode.WORSE,
    Answer.UNKNOWN: ExitCode.UNKNOWN,
}
_MOST_RANKS = 1024
_MOST_LAUNCHES = 1000
_LONGEST_S = 86400


def run(args: argparse.Namespace) -> int:
    """Judge and run every arm; exit code 0 when proven, 8 when not, 9 when it cannot be told."""
    from stackproof.host import proving  # noqa: PLC0415 - `inject check` has no use of it
    from stackproof.host.proving import Wanted  # noqa: PLC0415

    wanted = Wanted(
        program=args.command[0],
        replacement=args.replacement,
        arguments=tuple(args.command[1:]),
        own=args.own,
        wrong=args.wrong,
        ranks=_within("--ranks", args.ranks, 2, _MOST_RANKS),
        launches=_launches(args.launches),
        cluster=args.cluster,
        timeout_s=_within("--timeout", args.timeout, 1, _LONGEST_S),
        variables=_variables(args.set),
        expect=_pattern(args.expect),
        transport=args.transport,
    )
    folder = Path(args.output).absolute()
    files.check_empty(folder)
    there = folder.exists()
    try:
        found = prove(proving.prepare(wanted, folder))
        files.write(folder / "proof.json", noun.to_json(found))
    except BaseException:  # half a proof proves nothing, and would stand in the next one's way
        for made in folder.iterdir() if there else [folder]:
            files.remove(made)
        raise
    text = noun.to_json(found) if args.json else proof.render(found)
    print(text, end="")
    return int(_CODES[found.answer])


def prove(ready: Ready) -> Proof:
    """Run the arms, compare the speed of the two that run, and conclude."""
    from stackproof.host import proving, provingspeed  # noqa: PLC0415 - see above
    from stackproof.host.provingspeed import Compared  # noqa: PLC0415

    monitor = progress.monitor()
    arms, outputs = {}, {}
    for name, arm in ready.arms.items():
        arms[name], outputs[name] = proving.run_arm(ready.stage, arm, monitor)
    wanted = ready.stage.wanted
    if wanted.launches == 0:
        speed = Compared(note="as was asked for")
    elif arms[OWN].fault or arms[INJECTED].fault:
        speed = Compared(note="not both arms run")
    else:
        speed = provingspeed.measure(ready, outputs, monitor)
    answer, reasons = proof.conclude(arms)
    return Proof(
        program=ready.stage.program,
        replacement=wanted.replacement,
        answer=answer,
        reasons=reasons,
        arms=tuple(arms.values()),
        speed=speed.speed,
        launches=speed.launches,
        speed_note=speed.note,
    )


def _within(option: str, value: _Number, lowest: int, highest: int) -> _Number:
    if lowest <= value <= highest:
        return value
    raise fail(Reason.USAGE, f"`{option}` must be between {lowest} and {highest}, not {value}")


def _launches(number: int) -> int:
    """Return the launches for the speed: none, or enough; raises `StackproofError` (USAGE)."""
    from stackproof.host.provingspeed import FEWEST  # noqa: PLC0415 - `inject check` has no use

    if number and _within("--launches", number, 0, _MOST_LAUNCHES) < FEWEST:
        raise fail(
            Reason.USAGE,
            f"`--launches` must be at least {FEWEST}, not {number}: fewer say nothing on speed",
            hint="0 leaves speed out",
        )
    return number


def _variables(texts: Sequence[str]) -> dict[str, str]:
    found = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not (sign and name.isidentifier()):
            raise fail(Reason.USAGE, f"`{text}` is not NAME=VALUE")
        found[name] = value
    return found


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise fail(Reason.USAGE, f"`{text}` is not a regular expression: {error}") from None
    return text
