"""The commands of a remedy that fit the MPI at hand, and what the site's Slurm can do."""

from __future__ import annotations

import re

from stackproof.knowledge.evidence import Evidence
from stackproof.knowledge.model import Rule
from stackproof.mpi import families

_MARKS = {
    name: re.compile(
        rf"#.*(?<!Cray )\b{re.escape(family.title)}\b|\b{family.variable_prefix or '(?!)'}"
    )
    for name, family in families.REGISTRY.items()
}
"""An MPI by its name in the comment of a command, or by a variable that it alone reads."""

_WITHOUT_PMIX = "mpirun …   # inside the allocation: Slurm here has no library of PMIx"


def fitting_commands(rule: Rule, evidence: Evidence) -> tuple[str, ...]:
    """Return a rule's commands without those of other MPIs, and without a PMIx that is not there.

    All are returned where none fits, or where the MPI is not known.
    """
    mpi = evidence.facts.get("mpi")
    family = families.REGISTRY.get(mpi) if isinstance(mpi, str) else None
    kin = {family.name, family.made_of} if family is not None else set()
    fitting = [
        command
        for command in rule.commands
        if not kin or not (of := _families_of(command)) or of & kin
    ]
    if evidence.facts.get("pmix-loads") is False:
        fitting = [_WITHOUT_PMIX if "--mpi=pmix" in text else text for text in fitting]
    return tuple(dict.fromkeys(fitting)) or rule.commands


def _families_of(command: str) -> set[str]:
    return {name for name, mark in _MARKS.items() if mark.search(command)}
