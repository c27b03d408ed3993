"""The nouns of doubt: whether results are what they say, and what speaks against it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


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
    ENVIRONMENT = "other-environment"


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """A reason not to trust results: what is not as it was measured."""

    kind: DoubtKind
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainState:
    """Whether the launches are a chain that holds; `signed` says by whom, if anybody."""

    there: bool
    sentence: str
    doubts: tuple[Doubt, ...] = ()
    signed: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Integrity:
    """Whether results are what they say: with a doubt there is no verdict."""

    sentence: str
    doubts: tuple[Doubt, ...] = ()
    chained: bool = False
    signed: str = ""

    @property
    def trusted(self) -> bool:
        """Return whether nothing speaks against these results."""
        return not self.doubts
