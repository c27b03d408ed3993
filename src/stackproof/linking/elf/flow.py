"""Calls that are read in code: their constants, their arguments, and all that stays hidden."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct, field

from stackproof.linking.elf import telling, x86

ROUNDS = 3
"""So many functions deep a value is followed from call to call."""


class Handed(NamedTuple):
    """A constant that code hands to a function: by the function's name in C, in small letters."""

    function: str
    position: int
    value: int


class Relay(NamedTuple):
    """An exported function that hands one of its arguments to MPI, where that is a telling one."""

    function: str
    position: int
    to: str
    to_position: int


class Given(NamedTuple):
    """An argument of the function that is read."""

    position: int


class Pointer(NamedTuple):
    """An address of the program."""

    address: int


Value = int | Given | Pointer
Argument = tuple[int, int]
State = dict[x86.Operand, frozenset[Value]]


class CallFlow(Struct):
    """Constants and own arguments at calls of MPI, and at calls of functions."""

    handed: set[Handed] = field(default_factory=set)
    passed_on: dict[Argument, set[tuple[str, int]]] = field(default_factory=dict)
    given: dict[Argument, set[int]] = field(default_factory=dict)
    edges: dict[Argument, set[Argument]] = field(default_factory=dict)
    sent: set[Handed] = field(default_factory=set)
    called: set[tuple[str, int]] = field(default_factory=set)
    hidden: set[tuple[str, int]] = field(default_factory=set)
    lost: set[Argument] = field(default_factory=set)
    texts: dict[Argument, set[str]] = field(default_factory=dict)
    seen: set[int] = field(default_factory=set)

    def sources_of(self, argument: Argument) -> set[Argument]:
        """Return an argument with all those that are passed on to it."""
        seen = {argument}
        left = [argument]
        while left:
            more = self.edges.get(left.pop(), set()) - seen
            left += more
            seen |= more
        return seen

    def given_to(self, argument: Argument) -> set[int]:
        """Return the constants that an argument may have, by those that pass theirs on to it."""
        return {value for one in self.sources_of(argument) for value in self.given.get(one, ())}

    def wrappers(self) -> set[int]:
        """Return the functions that hand an argument of theirs on to a telling one."""
        reached = {
            argument
            for argument, calls in self.passed_on.items()
            if any(telling.FUNCTIONS.get(name) == position for name, position in calls)
        }
        for _ in range(ROUNDS):
            reached |= {source for to in reached & self.edges.keys() for source in self.edges[to]}
        return {start for start, _ in reached}
