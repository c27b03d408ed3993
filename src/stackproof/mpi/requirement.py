"""What an MPI is obtained as: a distribution of a package index."""

from __future__ import annotations

from stackproof.core.value import Value


class Requirement(Value):
    """One distribution the engine must obtain: `specifier` is a PEP 440 set, `==5.0.11`."""

    name: str
    specifier: str = ""

    def __str__(self) -> str:
        return f"{self.name}{self.specifier}"
