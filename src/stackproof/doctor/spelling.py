"""Names and values of variables to those that somebody mistyped.

A name is mistyped where nothing is known of it and one slip of the hand makes it a known one; then
nobody reads it, and nobody says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from stackproof.knowledge.evidence import Evidence, FactValue
from stackproof.knowledge.model import Knowledge

_READ = re.compile(r"^(?:FI_|(?:OMPI|PRTE|PMIX)_MCA_|MPIR_CVAR_|MPICH_|I_MPI_|UCX_|CXI_|MV2_|MVP_)")
_FRAMEWORK = re.compile(r"^(OMPI_MCA_[a-z]+)(?:_.*)?$")
_SHORTEST = 5
"""Characters of a name below which one slip makes it anything."""


def of_spelling(variables: Mapping[str, str], knowledge: Knowledge) -> Evidence:
    """Return whether variables have names, or values, that are almost known ones."""
    facts: dict[str, FactValue] = {}
    origins: dict[str, str] = {}
    for fact, found in (
        ("names-misspelt", list(_names(variables, knowledge))),
        ("values-unknown", list(_values(variables, knowledge))),
        ("values-quoted", list(_quoted(variables))),
    ):
        facts[fact] = bool(found)
        origins[f"fact {fact}"] = "; ".join(found) or "every variable that is known"
    return Evidence(facts=facts, origins=origins)


def _names(variables: Mapping[str, str], knowledge: Knowledge) -> Iterator[str]:
    known = {name for setting in knowledge.settings for name in setting.names}
    for name in sorted(variables):
        match = _FRAMEWORK.match(name)
        if match and match[1] in known:
            continue  # a parameter of a framework or of one of its components
        beginning = match[1] if match else name
        if name in known or not _READ.match(name):
            continue
        near = [one for one in known if one_slip(beginning, one)]
        if near:
            rest = name.removeprefix(beginning)
            yield f"{name} is read by nobody: {' or '.join(one + rest for one in sorted(near))}?"


def _values(variables: Mapping[str, str], knowledge: Knowledge) -> Iterator[str]:
    for setting in knowledge.settings:
        for name in setting.names if setting.allowed else ():
            value = variables.get(name)
            if value is not None and value.lower() not in setting.allowed:
                yield f"{name}={value} is none of {', '.join(setting.allowed)}"


def _quoted(variables: Mapping[str, str]) -> Iterator[str]:
    for name, value in sorted(variables.items()):
        if _IN_QUOTES.search(value):
            yield f"{name}={value} has quotes in its value"


_IN_QUOTES = re.compile(r"""^\s*["'].*["']\s*$|^[^"']*"[^"]*$|"'|'\"""")


def one_slip(one: str, other: str) -> bool:
    """Return whether a letter too many, too few, another or two exchanged tell two names apart.

    Another digit is another thing (`PSM2`, `PSM3`), not a slip.
    """
    if one == other or min(len(one), len(other)) < _SHORTEST or abs(len(one) - len(other)) > 1:
        return False
    start = 0
    while start < min(len(one), len(other)) and one[start] == other[start]:
        start += 1
    left, right = one[start:], other[start:]
    if len(left) == len(right):
        another = left[1:] == right[1:] and not (left[0].isdigit() or right[0].isdigit())
        return another or (left[:2] == right[1::-1] and left[2:] == right[2:])
    longer, shorter = (left, right) if len(left) > len(right) else (right, left)
    return longer[1:] == shorter and not longer[0].isdigit()
