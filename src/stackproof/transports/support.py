"""Which releases of which MPI a profile can force."""

from __future__ import annotations

from collections.abc import Mapping

from stackproof.errors import Reason, StackproofError, fail
from stackproof.mpis import REGISTRY

Minimum = Mapping[str, tuple[int, ...]]
"""The first release by family: one that was seen to obey the profile."""


def numbers(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version: `5.0.1.post1` gives (5, 0, 1)."""
    found: list[int] = []
    for part in version.split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        found.append(int(digits))
    return tuple(found)


def reaches(minimum: Minimum, family: str, version: str) -> bool:
    """Return whether a release is at or above the minimum of its family."""
    return family in minimum and numbers(version) >= minimum[family]


def unsupported(transport: str, minimum: Minimum, family: str, version: str) -> StackproofError:
    """Return the error that says which MPIs can be forced to a transport."""
    title = REGISTRY[family].title if family in REGISTRY else family
    able = ", ".join(
        f"{REGISTRY[name].title} {'.'.join(map(str, first))} or later"
        for name, first in minimum.items()
    )
    return fail(
        Reason.UNSUPPORTED,
        f"the transport `{transport}` cannot be forced on {title} {version}".rstrip(),
        hint=f"it can on: {able}; the transport `auto` leaves the choice to the MPI",
    )
