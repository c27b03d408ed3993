"""Calls of MPI in the code of x86-64, and which constants each is given.

A function is read from its start to its end, once; what registers and words on the stack hold is
followed along the way that goes on, and along branches that go forward. Whatever is not understood
makes a value unknown: what is reported was handed over on some path through the function. Where the
value is what the function itself was given, those that call it are looked at too.

Beside that a function of MPI is `followed` where every value that any code hands it is certain: a
constant that is put in place behind the last label before the call, also by all that call a
function which hands on what it was given.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from stackproof.core.errors import StackproofError
from stackproof.linking.elf import telling
from stackproof.linking.elf.call_tables import FORTRAN, POINTERS, slots
from stackproof.linking.elf.code import Code, list_loaded
from stackproof.linking.elf.flow import ROUNDS, Argument, CallFlow, Handed, Relay
from stackproof.linking.elf.layout import PF_W, PF_X, Frame
from stackproof.linking.elf.reading import FunctionReading
from stackproof.linking.elf.symbols import defined_functions

_LOADS = tuple(bytes((opcode,)) for opcode in (*range(0xB8, 0xC0), 0x68, 0x05))
_MOST_BYTES, _MOST_SENDING = 1 << 20, 1 << 22
# -2 as a pointer goes into a register: MPI_BUFFER_AUTOMATIC.
_SENDS = re.compile(rb"[\x48\x49]\xc7[\xc0-\xc7]\xfe\xff\xff\xff|\x6a\xfe\x41?[\x58-\x5f]")
_WORDS = re.compile(b"|".join(re.escape(struct.pack("<I", one)) for one in telling.HANDLES))


class Calls(NamedTuple):
    """What calls tell: constants to MPI and to functions of other files, and who passes those on.

    Of what goes to other files only handles and `MPI_BUFFER_AUTOMATIC` count: no accident. Of the
    functions in `followed` no value is hidden.
    """

    handed: tuple[Handed, ...] = ()
    sent: tuple[Handed, ...] = ()
    relays: tuple[Relay, ...] = ()
    followed: tuple[str, ...] = ()


def shown_handles(frame: Frame) -> tuple[int, ...]:
    """Return the telling handles that stand in code or data, handed to a function or not.

    In code one counts behind an opcode that takes a constant: the same bytes may be part of two.
    """
    handles = set()
    for segment in list_loaded(frame):
        content = frame.bytes_at(segment.offset, segment.file_size)
        for match in _WORDS.finditer(content):
            at = match.start()
            before = content[max(0, at - 7) : at]
            loads = before[-1:] in _LOADS or b"\xc7" in before or {*b"\x81\x8d"} & {*before[-2:]}
            if loads if segment.flags & PF_X else not (segment.address + at) % 4:
                handles.add(int.from_bytes(match.group(), "little"))
    return tuple(sorted(handles))


def read_calls(frame: Frame) -> Calls:
    """Return the telling constants that code hands over, nothing where it cannot be followed."""
    try:
        search = _Search(frame)
        handed = tuple(sorted(search.handed_over()))
        flow = search.flow
        followed = tuple(sorted(search.followed()))
        return Calls(handed, tuple(sorted(flow.sent)), tuple(sorted(search.relays())), followed)
    except StackproofError:
        return Calls()


def sends(code: bytes, *, always: bool) -> bool:
    """Return True for code that may hand a telling constant to a function of another file.

    Of large libraries that call no MPI that is not followed: it would take seconds.
    """
    return len(code) <= _MOST_SENDING and (always or _SENDS.search(code) is not None)


class _Search:
    """The functions of one file in which telling constants stand."""

    def __init__(self, frame: Frame) -> None:
        self.frame, self.code = frame, Code(frame)
        self.flow = CallFlow()
        self.done: set[int] = set()

    def handed_over(self) -> Iterable[Handed]:
        """Return the telling constants that reach a call of MPI."""
        if not self.code.slots:
            return ()
        left = _MOST_BYTES
        wanted = {self.code.start_of(address) for address in self._places()}
        for _ in range(ROUNDS):
            for start in sorted(wanted - self.done):
                self.done.add(start)
                end = self.code.end_of(start)
                left -= end - start
                if left < 0:
                    return self._all()
                FunctionReading(self.code, self.flow, start, end).read()
            wanted = {target for target, _ in (*self.flow.given, *self.flow.edges)}
            wanted |= {self.code.start_of(at) for at in self._calls_to(self.flow.wrappers())}
        return self._all()

    def relays(self) -> Iterator[Relay]:
        """Yield the exported functions that pass an argument on to a telling one of MPI."""
        passed = [
            (source, call)
            for argument, calls in self.flow.passed_on.items()
            for call in calls
            if telling.FUNCTIONS.get(call[0]) == call[1]
            for source in self.flow.sources_of(argument)
        ]
        names = defined_functions(self.frame) if passed else {}
        for (start, position), call in passed:
            yield from (Relay(name, position, *call) for name in names.get(start, ()))

    def followed(self) -> set[str]:
        """Return the telling functions of MPI of which no code hands over a hidden value."""
        flow = self.flow
        references = [*self.code.references(self.code.telling_places())]
        called = {to for _, to, _ in references}
        # The jump of a stub that is called itself hands on what that call does.
        stubs = {end for end, _, at in references if {at, at - 1, at - 4, at - 5} & called}
        if not {end for end, _, _ in references} - stubs <= flow.seen:
            return set()
        hidden = {name for name, at in flow.hidden if at not in stubs}
        pointers = {name.lstrip(FORTRAN) for _, name in slots(self.frame, POINTERS)}
        for argument, calls in flow.passed_on.items():
            names = {name for name, position in calls if telling.FUNCTIONS.get(name) == position}
            sources = flow.sources_of(argument) if names else set()
            texts = {text for source in sources for text in flow.texts.get(source, ())}
            if any(map(self._is_lost, sources)):
                hidden |= names
            for name in names & telling.NAMES.keys():
                if not all(map(telling.NAMES[name].fullmatch, texts)):
                    hidden.add(name)
        return {name for name, at in flow.called if at not in stubs} - hidden - pointers

    def _is_lost(self, argument: Argument) -> bool:
        """Return True for an argument that may be anything which is not seen here."""
        start, _ = argument
        callers = self.code.callers_of(start)
        return (
            argument in self.flow.lost
            or not callers
            or not callers <= self.done
            or start in defined_functions(self.frame)
        )

    def _all(self) -> set[Handed]:
        flow = self.flow
        handed_over = set(flow.handed)
        for argument, calls in flow.passed_on.items():
            values = flow.given_to(argument)
            handed_over |= {Handed(*call, value) for call in calls for value in values}
        return {handed for handed in handed_over if telling.is_telling(*handed)}

    def _places(self) -> Iterator[int]:
        """Yield addresses of code where a telling handle stands, or a telling function is called.

        Fortran hands over addresses of constants: where data have some, every call of it counts.
        """
        in_data = any(
            _WORDS.search(self.frame.bytes_at(segment.offset, segment.file_size))
            for segment in list_loaded(self.frame)
            if not segment.flags & (PF_X | PF_W)
        )
        wanted = self.code.telling_places()
        if in_data:
            tables = (*self.code.stubs.items(), *self.code.slots.items())
            wanted |= {at for at, name in tables if name.startswith(FORTRAN)}
        for address, code in self.code.parts:
            for pattern in (_WORDS, _SENDS):
                yield from (address + match.start() for match in pattern.finditer(code))
        yield from self._calls_to(wanted)

    def _calls_to(self, wanted: set[int]) -> Iterator[int]:
        """Yield the last byte of each instruction that goes to an address, or by a word there."""
        return (end for end, _, _ in self.code.references(wanted))
