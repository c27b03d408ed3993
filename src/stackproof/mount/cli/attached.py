"""What `inspect` shows of what is beside an image: what was measured, who signed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from stackproof.core import noun
from stackproof.core.errors import Problem
from stackproof.image.effects import image_file
from stackproof.share.effects import judging
from stackproof.share.effects.verdicts import AttachedFacts, VerdictFile
from stackproof.share.trust.policy import TrustAction, TrustDecision
from stackproof.share.verdict import AttestedVerdict

_SHOWN = 3


def rows(found: AttachedFacts) -> list[tuple[str, str]]:
    """Return the verdicts beside an image, and who signed it: a word and a line for each."""
    lines: list[tuple[str, str]] = []
    for one in found.verdicts:
        if one.verdict is not None:
            lines += _measured(one, one.verdict)
        lines += [("measured", _why(problem, one.name)) for problem in one.problems]
    signed = [
        f"{one.said.label} by {one.signed.signer}, {judging.date_text(one.said.date)}, {one.key}"
        for one in found.signatures
    ]
    nobody = "by nobody who is known here" if found.problems else "by nobody"
    lines += _under("signed", signed or [nobody])
    lines += [("", _why(problem, "a signature")) for problem in found.problems]
    if found.decision is not None:
        lines.append(("policy", _policy(found.decision)))
    return lines


def parts(path: str) -> tuple[str, ...]:
    """Return name and version of what an image says that it is made of, by its bill of materials.

    What only built others is left out. Raises what reading images raises.
    """
    try:
        components: Any = json.loads(image_file.read_member(path, "meta/bom.cdx.json"))[
            "components"
        ]
        return tuple(
            f"{one['name']} {one['version']}".strip()
            for one in components
            if one.get("scope") != "excluded"
        )
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return ()


def listed(names: Sequence[str]) -> str:
    """Return the first of several names, and how many more there are."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _under(word: str, texts: Sequence[str]) -> list[tuple[str, str]]:
    return [(word if not number else "", text) for number, text in enumerate(texts)]


def _by(one: VerdictFile) -> str:
    return f"signed by {', '.join(one.signers)}" if one.signers else "not signed"


def _why(problem: Problem, what: str) -> str:
    return f"{what} does not count: {problem.message} [{problem.reason}]"


def _policy(decision: TrustDecision) -> str:
    return (
        "as this site asks" if decision.reason is None else f"{_action(decision)}: {decision.text}"
    )


def _action(decision: TrustDecision) -> str:
    return (TrustAction.ALLOW if decision.reason is None else decision.action).value


def _measured(one: VerdictFile, said: AttestedVerdict) -> list[tuple[str, str]]:
    counts = (("pass", said.passed), ("open", said.open), ("fail", said.failed))
    points = ", ".join(f"{len(points)} {word}" for word, points in counts if points)
    where = " ".join(said.machine[key] for key in ("cpu", "fabric") if said.machine.get(key))
    text = f"{said.verdict} beside {said.baseline or 'what it does not say'}"
    about = "; ".join(filter(None, (said.date, where, said.trust)))
    return [("measured", f"{text}; points: {points or 'none'}; {_by(one)}"), ("", about)]


def data(found: AttachedFacts) -> dict[str, object]:
    """Return the verdicts beside an image, and who signed it, as JSON."""
    decision = found.decision
    return {
        "verdicts": [_verdict(one) for one in found.verdicts],
        "signatures": [
            {
                "label": one.said.label, "signer": one.signed.signer, "key": one.key,
                "date": judging.date_text(one.said.date), "until": one.signed.until or None,
            }
            for one in found.signatures
        ],
        "problems": _problems(found.problems),
        "policy": None if decision is None else {
            "action": _action(decision), "reason": decision.reason, "text": decision.text,
        },
    }  # fmt: skip


def _problems(problems: Iterable[Problem]) -> list[object]:
    return [problem.data("note") for problem in problems]


def _verdict(one: VerdictFile) -> dict[str, object]:
    return {
        "name": one.name, "size": one.size, "sha256": one.sha256,
        "signers": list(one.signers), "problems": _problems(one.problems),
        "verdict": one.verdict and noun.to_data(one.verdict),
    }  # fmt: skip
