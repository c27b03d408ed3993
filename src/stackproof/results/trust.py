"""The nouns of doubt: whether results are what they say, and what speaks against it."""

from __future__ import annotations

from enum import StrEnum

from stackproof.core.value import Value


class DoubtKind(StrEnum):
    """In what way results are not what they say."""

    MISSING = "missing"
    EDITED = "edited"
    DOUBLED = "doubled"
    SWAPPED = "swapped"
    ADDED = "added"
    CHAIN = "chain-broken"
    SIGNATURE = "signature"
    SPECIFICATION = "specification-changed"
    HOST = "other-host"
    KERNEL = "other-kernel"
    TIME = "other-time"
    LIBRARY = "other-library"
    ENVIRONMENT = "other-environment"


class Doubt(Value):
    """A reason not to trust results: what is not as it was measured."""

    kind: DoubtKind
    text: str


class ChainState(Value):
    """Whether the launches are a chain that holds; `signed` says by whom, if anybody."""

    there: bool
    sentence: str
    doubts: tuple[Doubt, ...] = ()
    signed: str = ""


class Integrity(Value):
    """Whether results are what they say: with a doubt there is no verdict."""

    sentence: str
    doubts: tuple[Doubt, ...] = ()
    chained: bool = False
    signed: str = ""

    @property
    def trusted(self) -> bool:
        """Return whether nothing speaks against these results."""
        return not self.doubts
