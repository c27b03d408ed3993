"""Conditions on the facts of a site: `if` and `unless`, decided with three possible answers.

    if: {gpu: cuda, architecture: [aarch64, x86_64]}

Every fact that is named must have the value, or one of the values. `unless` is the reverse: it
holds when not all of them do. A fact that the site does not state makes the answer unknown, unless
another fact already decides; what is unknown does not count, and `check` says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from stackproof.core.document import Document
from stackproof.core.errors import Location, Problem, Reason, did_you_mean
from stackproof.core.value import Value
from stackproof.mpi import families

FACTS: Mapping[str, tuple[str, ...]] = {
    "site": (),
    "architecture": ("x86_64", "aarch64", "ppc64le", "riscv64"),
    "microarchitecture": (),
    "gpu": ("cuda", "rocm", "level-zero", "none"),
    "gpu-architecture": (),
    "fabric": ("slingshot-11", "infiniband", "ethernet", "none"),
    "vendor-mpi": (*sorted(families.REGISTRY), "none"),
}
"""Every fact of a site that a condition may ask for, with all its values; empty for any value.

`site` is the name of the site, or of the cluster's folder; architectures are named as by `uname -m`
and by Spack (zen3; 90, gfx942). `matrix.AXIS` is a fact besides.
"""


class Truth(StrEnum):
    """Whether a condition holds on a site."""

    HOLDS = "holds"
    DOES_NOT_HOLD = "does-not-hold"
    UNKNOWN = "unknown"


class Condition(Value):
    """What must be so (`wants`) and what must not all be so (`unwanted`), by fact."""

    wants: Mapping[str, tuple[str, ...]]
    unwanted: Mapping[str, tuple[str, ...]]

    @property
    def facts(self) -> tuple[str, ...]:
        """Return the facts that it asks for."""
        return (*self.wants, *(name for name in self.unwanted if name not in self.wants))

    def verdict(self, facts: Mapping[str, str]) -> Truth:
        """Return whether it holds where `facts` are known."""
        both = [_all_hold(self.wants, facts)]
        if self.unwanted:
            both.append({True: False, False: True, None: None}[_all_hold(self.unwanted, facts)])
        if False in both:
            return Truth.DOES_NOT_HOLD
        return Truth.UNKNOWN if None in both else Truth.HOLDS

    def __str__(self) -> str:
        parts = []
        if self.wants:
            parts.append(f"where {_words(self.wants)}")
        if self.unwanted:
            parts.append(f"unless {_words(self.unwanted)}")
        return " ".join(parts)


def _all_hold(wants: Mapping[str, tuple[str, ...]], facts: Mapping[str, str]) -> bool | None:
    answers = [facts[name] in values if name in facts else None for name, values in wants.items()]
    if False in answers:
        return False
    return None if None in answers else True


def _words(wants: Mapping[str, tuple[str, ...]]) -> str:
    return " and ".join(f"{name} is {' or '.join(values)}" for name, values in wants.items())


def is_conditional(item: Any) -> bool:
    """Return whether a list item is one that counts under a condition only."""
    return (
        isinstance(item, dict)
        and "then" in item
        and ("if" in item or "unless" in item)
        and set(item) <= {"if", "unless", "then"}
    )


def read_condition(
    document: Document, block: Mapping[str, Any], path: tuple[str | int, ...], axes: Sequence[str]
) -> tuple[Condition, list[Problem]]:
    """Return the condition of a block and what is wrong with it.

    `axes` are those of the matrix. Unknown facts (UNKNOWN_KEY), values that a fact cannot have
    (INVALID_VALUE) and other forms than a mapping of texts (WRONG_TYPE) are problems.
    """
    found: list[Problem] = []
    sides: dict[str, dict[str, tuple[str, ...]]] = {"if": {}, "unless": {}}
    for side, wants in sides.items():
        if side not in block:
            continue
        body = block[side]
        if not isinstance(body, dict) or not body:
            found.append(
                document.problem(
                    (*path, side),
                    f"`{side}` must be a mapping of facts to values",
                    f"for example `{side}: {{gpu: cuda}}`",
                    reason=Reason.WRONG_TYPE,
                )
            )
            continue
        for name, value in body.items():
            wants[name] = tuple(str(one) for one in (value if isinstance(value, list) else [value]))
            found += _fact_problems(
                name, value, axes, document.where_key(*path, side, name),
                document.where(*path, side, name),
            )  # fmt: skip
    return Condition(wants=sides["if"], unwanted=sides["unless"]), found


def _fact_problems(
    name: str, value: Any, axes: Sequence[str], key: Location, where: Location
) -> list[Problem]:
    known = [*FACTS, *(f"matrix.{axis}" for axis in axes)]
    if name not in known:
        guess = did_you_mean(name, known)
        message = f"`{name}` is not a fact that a condition can ask for"
        hint = f"{guess}they are: {', '.join(known)}"
        return [Problem(reason=Reason.UNKNOWN_KEY, message=message, hint=hint, where=key)]
    texts = value if isinstance(value, list) else [value]
    if not texts or not all(isinstance(text, str) for text in texts):
        message = f"the value of `{name}` in a condition must be text, or a list of texts"
        hint = "put numbers in quotes"
        return [Problem(reason=Reason.WRONG_TYPE, message=message, hint=hint, where=where)]
    possible = FACTS.get(name, ())
    return [
        Problem(
            reason=Reason.INVALID_VALUE,
            message=f"`{name}` is never `{text}`",
            hint=f"it is one of: {', '.join(possible)}",
            where=where,
        )
        for text in texts
        if possible and text not in possible
    ]
