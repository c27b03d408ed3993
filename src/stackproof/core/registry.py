"""Looking a name up in the registry of a family."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from stackproof.core.errors import Reason, fail

Member = TypeVar("Member")


def find(registry: Mapping[str, Member], name: str, *, kind: str, kinds: str = "") -> Member:
    """Return the member called `name`.

    `kind` is what a member is, in words (`launcher`), `kinds` its plural where that is not `kind`
    with an s. Raises `StackproofError` (UNSUPPORTED) that lists the known names.
    """
    if name not in registry:
        raise fail(
            Reason.UNSUPPORTED,
            f"the {kind} `{name}` is not known",
            hint=f"known {kinds or f'{kind}s'} are: {', '.join(registry)}",
        )
    return registry[name]
