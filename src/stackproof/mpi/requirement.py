"""What an MPI is obtained as: a distribution of a package index."""

from __future__ import annotations

from stackproof.core.value import Value

# --------------------------------------------------------------------------------------------------
# Variables by which an MPI that was moved finds its own files; jobs wait while this is read.

OPEN_MPI = ("OPAL_PREFIX", "PMIX_PREFIX", "PRTE_PREFIX")
"""Of Open MPI 5, its PMIx and its PRRTE, whose programs and plug-ins lie in one folder."""


class Requirement(Value):
    """One distribution the engine must obtain: `specifier` is a PEP 440 set, `==5.0.11`."""

    name: str
    specifier: str = ""

    def __str__(self) -> str:
        return f"{self.name}{self.specifier}"
