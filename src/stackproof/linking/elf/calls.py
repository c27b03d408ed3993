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

import bisect
import re
import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from msgspec import Struct, field

from stackproof.core.errors import StackproofError
from stackproof.linking.elf import telling, x86
from stackproof.linking.elf.call_tables import FORTRAN, OTHER, POINTERS, slots, starts
from stackproof.linking.elf.layout import PF_W, PF_X, PT_LOAD, ElfSegment, Frame
from stackproof.linking.elf.symbols import defined_functions

_ARGUMENTS = (x86.RDI, x86.RSI, x86.RDX, x86.RCX, 8, 9)
_RETURNED = (x86.RAX, x86.RDX)
_OF_THE_CALLED = (x86.RAX, x86.RCX, x86.RDX, x86.RSI, x86.RDI, 8, 9, 10, 11)
_LOADS = tuple(bytes((opcode,)) for opcode in (*range(0xB8, 0xC0), 0x68, 0x05))
_MOST_BYTES, _MOST_SENDING, _MOST_ROUNDS = 1 << 20, 1 << 22, 3
# -2 as a pointer goes into a register: MPI_BUFFER_AUTOMATIC.
_SENDS = re.compile(rb"[\x48\x49]\xc7[\xc0-\xc7]\xfe\xff\xff\xff|\x6a\xfe\x41?[\x58-\x5f]")
# Calls and jumps, and what takes the address of a function: `mov` of a slot, `lea`.
_REFERS = re.compile(rb"[\xe8\xe9]|\xff[\x15\x25]|[\x8b\x8d][\x05\x0d\x15\x1d\x25\x2d\x35\x3d]")
_WORDS = re.compile(b"|".join(re.escape(struct.pack("<I", one)) for one in telling.HANDLES))


class Handed(NamedTuple):
    """A constant that code hands to a function: by the function's name in C, in small letters.

    It is not `sure` where it may be another by then: a variable has it at first, or it is one of
    two that the program chooses from.
    """

    function: str
    position: int
    value: int
    sure: bool = True


class Relay(NamedTuple):
    """An exported function that hands one of its arguments to MPI, where that is a telling one."""

    function: str
    position: int
    to: str
    to_position: int


class Calls(NamedTuple):
    """What calls tell: constants to MPI and to functions of other files, and who passes those on.

    Of what goes to other files only handles and `MPI_BUFFER_AUTOMATIC` count: no accident. Of the
    functions in `followed` no value is hidden.
    """

    handed: tuple[Handed, ...] = ()
    sent: tuple[Handed, ...] = ()
    relays: tuple[Relay, ...] = ()
    followed: tuple[str, ...] = ()


class _Maybe(NamedTuple):
    """What a variable holds when the program starts, or one of two values."""

    value: int


class _Given(NamedTuple):
    """What a function got as an argument of its own."""

    position: int


class _Returned(NamedTuple):
    """What another function of the file returned."""

    start: int


class _Pointer(NamedTuple):
    """An address of the program."""

    address: int


_Value = int | _Given | _Pointer | _Maybe | _Returned
_Argument = tuple[int, int]
_State = dict[x86.Operand, frozenset[_Value]]


def shown_handles(frame: Frame) -> tuple[int, ...]:
    """Return the telling handles that stand in code or data, handed to a function or not.

    In code one counts behind an opcode that takes a constant: the same bytes may be part of two.
    """
    handles = set()
    for segment in _loaded(frame):
        content = frame.bytes_at(segment.offset, segment.file_size)
        for match in _WORDS.finditer(content):
            at = match.start()
            before = content[max(0, at - 7) : at]
            loads = before[-1:] in _LOADS or b"\xc7" in before or b"\x81" in before[-2:]
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


def sends(code: bytes) -> bool:
    """Return True for code that may hand a telling constant to a function of another file.

    Of large libraries that call no MPI that is not followed: it would take seconds.
    """
    return len(code) <= _MOST_SENDING and _SENDS.search(code) is not None


def _loaded(frame: Frame) -> Iterator[ElfSegment]:
    return (segment for segment in frame.segments if segment.kind == PT_LOAD and segment.file_size)


class _Flow(Struct):
    """What was seen: constants and own arguments at calls of MPI, and at calls of functions."""

    handed: set[Handed] = field(default_factory=set)
    passed_on: dict[_Argument, set[tuple[str, int]]] = field(default_factory=dict)
    given: dict[_Argument, set[int]] = field(default_factory=dict)
    edges: dict[_Argument, set[_Argument]] = field(default_factory=dict)
    returned: dict[int, set[int]] = field(default_factory=dict)
    asked: dict[int, set[tuple[str, int]]] = field(default_factory=dict)
    sent: set[Handed] = field(default_factory=set)
    called: set[tuple[str, int]] = field(default_factory=set)
    hidden: set[tuple[str, int]] = field(default_factory=set)
    lost: set[_Argument] = field(default_factory=set)

    def sources_of(self, argument: _Argument) -> set[_Argument]:
        """Return an argument with all those that are passed on to it."""
        seen = {argument}
        left = [argument]
        while left:
            more = self.edges.get(left.pop(), set()) - seen
            left += more
            seen |= more
        return seen

    def given_to(self, argument: _Argument) -> set[int]:
        """Return the constants that an argument may have, by those that pass theirs on to it."""
        return {value for one in self.sources_of(argument) for value in self.given.get(one, ())}

    def wrappers(self) -> set[int]:
        """Return the functions that hand an argument of theirs on to a telling one."""
        reached = {
            argument
            for argument, calls in self.passed_on.items()
            if any(telling.FUNCTIONS.get(name) == position for name, position in calls)
        }
        for _ in range(_MOST_ROUNDS):
            reached |= {source for to in reached & self.edges.keys() for source in self.edges[to]}
        return {start for start, _ in reached}


class _Search:
    """The functions of one file in which telling constants stand."""

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.parts = [
            (segment.address, frame.bytes_at(segment.offset, segment.file_size))
            for segment in _loaded(frame)
            if segment.flags & PF_X
        ]
        self.slots = dict(slots(frame))
        self.stubs = dict(self._stubs())
        self.starts = starts(frame)
        self.flow = _Flow()
        self.done: set[int] = set()
        self.seen: set[int] = set()

    def handed_over(self) -> Iterable[Handed]:
        """Return the telling constants that reach a call of MPI."""
        if not self.slots:
            return ()
        left = _MOST_BYTES
        wanted = {self._start_of(address) for address in self._places()}
        for _ in range(_MOST_ROUNDS):
            for start in sorted(wanted - self.done):
                self.done.add(start)
                end = self._end_of(start)
                left -= end - start
                if left < 0:
                    return self._all()
                _Reading(self, start, end).read()
            wanted = {target for target, _ in (*self.flow.given, *self.flow.edges)}
            wanted |= {self._start_of(at) for at in self._calls_to(self.flow.wrappers())}
            wanted |= self.flow.asked.keys()
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
        references = [*self._references(self._telling())]
        called = {to for _, to, _ in references}
        # The jump of a stub that is called itself hands on what that call does.
        stubs = {end for end, _, at in references if {at, at - 1, at - 4, at - 5} & called}
        if not {end for end, _, _ in references} - stubs <= self.seen:
            return set()
        hidden = {name for name, at in flow.hidden if at not in stubs}
        pointers = {name.lstrip(FORTRAN) for _, name in slots(self.frame, POINTERS)}
        for argument, calls in flow.passed_on.items():
            names = {name for name, position in calls if telling.FUNCTIONS.get(name) == position}
            if names and any(map(self._is_lost, flow.sources_of(argument))):
                hidden |= names
        return {name for name, at in flow.called if at not in stubs} - hidden - pointers

    def _is_lost(self, argument: _Argument) -> bool:
        """Return whether a function may be given anything that is not seen here."""
        start, _ = argument
        word = struct.pack("<Q", start)
        data = (part for part in _loaded(self.frame) if not part.flags & PF_X)
        callers = {*map(self._start_of, self._calls_to({start}))}
        return (
            argument in self.flow.lost
            or not callers
            or not callers <= self.done
            or start in defined_functions(self.frame)
            or any(word in self.frame.bytes_at(part.offset, part.file_size) for part in data)
        )

    def _all(self) -> set[Handed]:
        flow = self.flow
        handed_over = set(flow.handed)
        for argument, calls in flow.passed_on.items():
            values = flow.given_to(argument)
            handed_over |= {Handed(*call, value) for call in calls for value in values}
        for start, calls in flow.asked.items():
            values = flow.returned.get(start, set())
            handed_over |= {Handed(*call, value, sure=False) for call in calls for value in values}
        return {handed for handed in handed_over if telling.is_telling(*handed[:3])}

    def _places(self) -> Iterator[int]:
        """Yield addresses of code where a telling handle stands, or a telling function is called.

        Fortran hands over addresses of constants: where data have some, every call of it counts.
        """
        in_data = any(
            _WORDS.search(self.frame.bytes_at(segment.offset, segment.file_size))
            for segment in _loaded(self.frame)
            if not segment.flags & (PF_X | PF_W)
        )
        wanted = self._telling()
        if in_data:
            tables = (*self.stubs.items(), *self.slots.items())
            wanted |= {at for at, name in tables if name.startswith(FORTRAN)}
        for address, code in self.parts:
            for pattern in (_WORDS, _SENDS):
                yield from (address + match.start() for match in pattern.finditer(code))
        yield from self._calls_to(wanted)

    def _telling(self) -> set[int]:
        """Return the stubs and slots of functions that take a telling argument."""
        tables = (*self.stubs.items(), *self.slots.items())
        return {at for at, name in tables if name.lstrip(FORTRAN) in telling.FUNCTIONS}

    def _calls_to(self, wanted: set[int]) -> Iterator[int]:
        """Yield where an instruction ends that goes to an address, or to what a word there names.

        It is the address of its last byte.
        """
        return (end for end, _, _ in self._references(wanted))

    def _references(self, wanted: set[int]) -> Iterator[tuple[int, int, int]]:
        """Yield the last byte of instructions as above, what they refer to, and their first."""
        for address, code in self.parts if wanted else ():
            for match in _REFERS.finditer(code):
                end = match.end() + 4
                distance = int.from_bytes(code[end - 4 : end], "little", signed=True)
                if address + end + distance in wanted:
                    yield address + end - 1, address + end + distance, address + match.start()

    def _stubs(self) -> Iterator[tuple[int, str]]:
        """Yield the addresses that calls of imported functions go to, with the functions."""
        for address, code in self.parts:
            for match in re.finditer(rb"(\xf3\x0f\x1e\xfa)?(\xf2)?\xff\x25(.{4})", code, re.DOTALL):
                distance = int.from_bytes(match.group(3), "little", signed=True)
                name = self.slots.get(address + match.end() + distance)
                if name:
                    yield address + match.start(), name
                    yield address + match.end() - 6, name

    def _start_of(self, address: int) -> int:
        place = bisect.bisect_right(self.starts, address)
        return self.starts[place - 1] if place else max(self._part(address)[0], address - 4096)

    def _end_of(self, start: int) -> int:
        base, code = self._part(start)
        place = bisect.bisect_right(self.starts, start)
        after = self.starts[place] if place < len(self.starts) else start + 8192
        return min(after, base + len(code))

    def _part(self, address: int) -> tuple[int, bytes]:
        return next(
            ((base, code) for base, code in self.parts if base <= address < base + len(code)),
            (address, b""),
        )

    def text(self, start: int, end: int) -> bytes:
        """Return the code between two addresses."""
        base, code = self._part(start)
        return code[start - base : end - base]

    def name_of(self, told: x86.Instruction) -> str:
        """Return the imported function that is called, empty for any other."""
        if isinstance(told.source, x86.Place) and told.source.base == x86.AT:
            return self.slots.get(told.source.distance, "")
        return self.stubs.get(told.value, "") if told.value is not None else ""

    def word_at(self, address: int, flags: int = 0) -> int | None:
        """Return the word at an address that nothing, or with `PF_W` something, may write to."""
        for segment in _loaded(self.frame):
            inside = segment.address <= address <= segment.address + segment.file_size - 4
            if inside and segment.flags & PF_W == flags:
                place = segment.offset + address - segment.address
                return int.from_bytes(self.frame.bytes_at(place, 4), "little")
        return None


class _Reading:
    """One function that is read, and what its registers hold at the place that is read."""

    def __init__(self, search: _Search, start: int, end: int) -> None:
        self.search, self.flow = search, search.flow
        self.start, self.end = start, end
        self.state: _State = {
            register: frozenset({_Given(number)}) for number, register in enumerate(_ARGUMENTS)
        }
        self.later: dict[int, _State] = {}
        self.known_outside: set[x86.Operand] = set()
        self.certain: set[x86.Operand] = {*_ARGUMENTS}
        self.labels: frozenset[int] = frozenset()
        self.here = start

    def read(self) -> None:
        """Follow the function to its end."""
        code = self.search.text(self.start, self.end)
        self.labels = frozenset(self._labels(code))
        at = 0
        while at < len(code):
            address = self.start + at
            if address in self.labels:
                self.certain.clear()
            if waiting := self.later.pop(address, None):
                self._join(waiting)
            told = x86.decode(code, at, address)
            if told is None or told.length <= 0:
                return
            self.here = address + told.length - 1
            self.search.seen.add(self.here)
            certain = self._is_certain(told)
            self._do(told)
            if certain and told.target in self.state:
                self.certain.add(told.target)
            at += told.length

    def _labels(self, code: bytes) -> Iterator[int]:
        """Yield the addresses of the function that its own jumps go to."""
        at = 0
        while at < len(code):
            told = x86.decode(code, at, self.start + at)
            if told is None or told.length <= 0:
                return
            if told.kind in {"jump", "branch"} and told.value is not None:
                yield told.value
            at += told.length

    def _is_certain(self, told: x86.Instruction) -> bool:
        """Return whether an instruction puts a value in place that it always has there."""
        source = told.source
        if told.kind == "zero" or (told.kind == "move" and told.value is not None):
            return True
        if isinstance(source, x86.Place) and source.base == x86.AT:
            names = {"move": self.search.slots, "address": self.search.stubs}.get(told.kind, {})
            if name := names.get(source.distance):
                self.flow.hidden.add((name.lstrip(FORTRAN), self.here))
            known = told.kind == "address" or self.search.word_at(source.distance) is not None
            return known and told.kind in {"move", "address"}
        return told.kind == "move" and source in self.certain

    def _join(self, other: _State) -> None:
        for place, values in other.items():
            self.state[place] = self.state.get(place, frozenset()) | values

    def _do(self, told: x86.Instruction) -> None:
        kind = told.kind
        if kind == "move":
            values = self._values(told.source) if told.value is None else frozenset({told.value})
            self._set(told.target, values)
        elif kind == "zero":
            self._set(told.target, frozenset({0}))
        elif kind == "add":  # `a ? B : C` may become a sum with one of the two
            self._set(told.target, _only_telling(told.value))
        elif kind == "either":
            self._set(told.target, self._values(told.target) | self._values(told.source))
        elif kind == "address":
            self._address(told)
        elif kind in {"push", "pop"}:
            self._stack(told)
        elif kind == "call":
            self._call(told)
        elif kind in {"jump", "branch", "end"}:
            self._leave(told)
        else:
            for place in told.changes:
                self._set(place, frozenset())

    def _values(self, place: x86.Operand) -> frozenset[_Value]:
        if isinstance(place, x86.Place) and place.base == x86.AT:
            word = self.search.word_at(place.distance)
            first = self.search.word_at(place.distance, PF_W)
            held = word if first is None else _Maybe(first)
            return frozenset() if held is None else frozenset({held})
        return self.state.get(place, frozenset())

    def _set(self, place: x86.Operand, values: frozenset[_Value]) -> None:
        if place is None:
            return
        self.certain.discard(place)
        if place in {x86.RSP, x86.RBP}:
            self._forget_stack(place)
        if values and (not isinstance(place, x86.Place) or place.base in {x86.RSP, x86.RBP}):
            self.state[place] = values
        else:
            self.state.pop(place, None)

    def _forget_stack(self, base: x86.Operand) -> None:
        for place in [p for p in self.state if isinstance(p, x86.Place) and p.base == base]:
            del self.state[place]
            self.certain.discard(place)

    def _address(self, told: x86.Instruction) -> None:
        place = told.source
        pointer: frozenset[_Value] = frozenset()
        if isinstance(place, x86.Place):
            if place.base == x86.AT:
                pointer = frozenset({_Pointer(place.distance)})
            elif pointer := _only_telling(place.distance):
                pass
            else:  # whoever gets it may write there
                self.known_outside.add(place)
                self.state.pop(place, None)
        self._set(told.target, pointer)

    def _stack(self, told: x86.Instruction) -> None:
        """Follow the constant of `push 3; pop rsi`; all else that goes through there is lost."""
        pushed = frozenset({told.value}) if told.value is not None else self._values(told.source)
        kept = self.state.get(x86.RSP, frozenset())
        self._forget_stack(x86.RSP)
        if told.kind == "push":
            self.state[x86.RSP] = pushed
        else:
            self._set(told.target, kept)
            self.state.pop(x86.RSP, None)

    def _call(self, told: x86.Instruction) -> None:
        self._hand_over(told)
        self.certain -= {*_OF_THE_CALLED, x86.RSP, *self.known_outside}
        # A compiler may know that a function of the same file leaves a register alone.
        own = told.value is not None and told.value not in self.search.stubs
        for register in _RETURNED if own else _OF_THE_CALLED:
            self.state.pop(register, None)
        if own and told.value is not None:
            self.state[x86.RAX] = frozenset({_Returned(told.value)})
        self.state.pop(x86.RSP, None)
        for place in self.known_outside:
            self.state.pop(place, None)

    def _hand_over(self, told: x86.Instruction) -> None:
        name = self.search.name_of(told)
        self._note_hidden(name.lstrip(FORTRAN), told)
        for position, register in enumerate(_ARGUMENTS):
            values = self._values(register)
            for value in values:
                chosen = _Maybe(value) if isinstance(value, int) and len(values) > 1 else value
                if name.startswith(OTHER):
                    self._to_other(name.removeprefix(OTHER), position, chosen)
                elif name:
                    self._to_mpi(name, position, chosen)
                elif told.value is not None:
                    self._to_own(told.value, position, chosen)

    def _note_hidden(self, function: str, told: x86.Instruction) -> None:
        """Note what is called, and arguments of which not every value is seen."""
        if function in telling.FUNCTIONS:
            self.flow.called.add((function, self.here))
            if _ARGUMENTS[telling.FUNCTIONS[function]] not in self.certain:
                self.flow.hidden.add((function, self.here))
        elif not function and told.value is not None:
            lost = (n for n, place in enumerate(_ARGUMENTS) if place not in self.certain)
            self.flow.lost.update((told.value, position) for position in lost)

    def _to_own(self, target: int, position: int, value: _Value) -> None:
        """Note what a function of the program is given."""
        if isinstance(value, int):
            self.flow.given.setdefault((target, position), set()).add(value)
        elif isinstance(value, _Given):
            key = (self.start, value.position)
            self.flow.edges.setdefault((target, position), set()).add(key)

    def _to_other(self, name: str, position: int, value: _Value) -> None:
        """Note what a function of another file is given."""
        number = value.value if isinstance(value, _Maybe) else value
        if isinstance(number, int) and (number in telling.HANDLES or number == telling.AUTOMATIC):
            sure = isinstance(value, int)
            self.flow.sent.add(Handed(name, position, number, sure=sure))

    def _to_mpi(self, name: str, position: int, value: _Value) -> None:
        """Note what MPI is given; Fortran's functions, in `name` with a `&`, get addresses."""
        by_address = name.startswith(FORTRAN)
        function = name.lstrip(FORTRAN)
        if isinstance(value, _Returned):
            if not by_address and telling.FUNCTIONS.get(function) == position:
                self.flow.asked.setdefault(value.start, set()).add((function, position))
            return
        if isinstance(value, _Given):
            if not by_address:
                key = (self.start, value.position)
                self.flow.passed_on.setdefault(key, set()).add((function, position))
            return
        if by_address:
            address = value if isinstance(value, int) else value[0]
            word = self.search.word_at(address)
            if word is not None:
                self.flow.handed.add(Handed(function, position, word))
        elif isinstance(value, int):
            self.flow.handed.add(Handed(function, position, value))
        elif isinstance(value, _Maybe):
            self.flow.handed.add(Handed(function, position, value.value, sure=False))

    def _leave(self, told: x86.Instruction) -> None:
        target = told.value
        if told.kind == "end":
            values = self._values(x86.RAX)
            numbers = {value for value in values if isinstance(value, int)}
            self.flow.returned.setdefault(self.start, set()).update(numbers)
        if told.kind == "jump" and (target is None or not self.start <= target < self.end):
            self._hand_over(told)
        elif target is not None and target > self.start and told.kind != "end":
            waiting = self.later.setdefault(target, {})
            for place, values in self.state.items():
                waiting[place] = waiting.get(place, frozenset()) | values
        if told.kind != "branch":
            self.state = {}
            self.certain.clear()


def _only_telling(value: int | None) -> frozenset[_Value]:
    number = (value or 0) & 0xFFFFFFFF
    return frozenset({_Maybe(number)}) if number in telling.HANDLES else frozenset()
