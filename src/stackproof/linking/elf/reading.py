"""One function of x86-64, read from its start to its end, to what it hands over and hides."""

from __future__ import annotations

from collections.abc import Iterator

from stackproof.linking.elf import telling, x86
from stackproof.linking.elf.call_tables import FORTRAN, OTHER
from stackproof.linking.elf.code import Code
from stackproof.linking.elf.flow import (
    CallFlow,
    Given,
    Handed,
    Maybe,
    Pointer,
    Returned,
    State,
    Value,
)
from stackproof.linking.elf.layout import PF_W

ARGUMENTS = (x86.RDI, x86.RSI, x86.RDX, x86.RCX, 8, 9)
_RETURNED = (x86.RAX, x86.RDX)
_OF_THE_CALLED = (x86.RAX, x86.RCX, x86.RDX, x86.RSI, x86.RDI, 8, 9, 10, 11)


class FunctionReading:
    """One function that is read, and what its registers hold at the place that is read."""

    def __init__(self, code: Code, flow: CallFlow, start: int, end: int) -> None:
        self.code, self.flow = code, flow
        self.start, self.end = start, end
        self.state: State = {
            register: frozenset({Given(number)}) for number, register in enumerate(ARGUMENTS)
        }
        self.later: dict[int, State] = {}
        self.known_outside: set[x86.Operand] = set()
        self.certain: set[x86.Operand] = {*ARGUMENTS}
        self.labels: frozenset[int] = frozenset()
        self.here = start

    def read(self) -> None:
        """Follow the function to its end."""
        code = self.code.text(self.start, self.end)
        self.labels = frozenset(self._labels(code))
        at = 0
        while at < len(code):
            address = self.start + at
            if address in self.labels:
                self.certain.clear()
            if waiting := self.later.pop(address, None):
                self._join(waiting)
            step = x86.decode(code, at, address)
            if step is None or step.length <= 0:
                return
            self.here = address + step.length - 1
            self.flow.seen.add(self.here)
            certain = self._is_certain(step)
            self._do(step)
            if certain and step.target in self.state:
                self.certain.add(step.target)
            at += step.length

    def _labels(self, code: bytes) -> Iterator[int]:
        """Yield the addresses of the function that its own jumps go to."""
        at = 0
        while at < len(code):
            step = x86.decode(code, at, self.start + at)
            if step is None or step.length <= 0:
                return
            if step.kind in {"jump", "branch"} and step.value is not None:
                yield step.value
            at += step.length

    def _is_certain(self, step: x86.Instruction) -> bool:
        """Return True for an instruction that always puts the same value in place."""
        source = step.source
        if step.kind == "zero" or (step.kind == "move" and step.value is not None):
            return True
        if isinstance(source, x86.Place) and source.base == x86.AT:
            names = {"move": self.code.slots, "address": self.code.stubs}.get(step.kind, {})
            if name := names.get(source.distance):
                self.flow.hidden.add((name.lstrip(FORTRAN), self.here))
            known = step.kind == "address" or self.code.word_at(source.distance) is not None
            return known and step.kind in {"move", "address"}
        return step.kind == "move" and source in self.certain

    def _join(self, other: State) -> None:
        for place, values in other.items():
            self.state[place] = self.state.get(place, frozenset()) | values

    def _do(self, step: x86.Instruction) -> None:
        kind = step.kind
        if kind == "move":
            values = self._values(step.source) if step.value is None else frozenset({step.value})
            self._set(step.target, values)
        elif kind == "zero":
            self._set(step.target, frozenset({0}))
        elif kind == "add":  # `a ? B : C` may become a sum with one of the two
            self._set(step.target, _only_telling(step.value))
        elif kind == "either":
            self._set(step.target, self._values(step.target) | self._values(step.source))
        elif kind == "address":
            self._address(step)
        elif kind in {"push", "pop"}:
            self._stack(step)
        elif kind == "call":
            self._call(step)
        elif kind in {"jump", "branch", "end"}:
            self._leave(step)
        else:
            for place in step.changes:
                self._set(place, frozenset())

    def _values(self, place: x86.Operand) -> frozenset[Value]:
        if isinstance(place, x86.Place) and place.base == x86.AT:
            word = self.code.word_at(place.distance)
            first = self.code.word_at(place.distance, PF_W)
            held = word if first is None else Maybe(first)
            return frozenset() if held is None else frozenset({held})
        return self.state.get(place, frozenset())

    def _set(self, place: x86.Operand, values: frozenset[Value]) -> None:
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

    def _address(self, step: x86.Instruction) -> None:
        place = step.source
        pointer: frozenset[Value] = frozenset()
        if isinstance(place, x86.Place):
            if place.base == x86.AT:
                pointer = frozenset({Pointer(place.distance)})
            elif pointer := _only_telling(place.distance):
                pass
            else:  # whoever gets it may write there
                self.known_outside.add(place)
                self.state.pop(place, None)
        self._set(step.target, pointer)

    def _stack(self, step: x86.Instruction) -> None:
        """Follow the constant of `push 3; pop rsi`; all else that goes through there is lost."""
        pushed = frozenset({step.value}) if step.value is not None else self._values(step.source)
        kept = self.state.get(x86.RSP, frozenset())
        self._forget_stack(x86.RSP)
        if step.kind == "push":
            self.state[x86.RSP] = pushed
        else:
            self._set(step.target, kept)
            self.state.pop(x86.RSP, None)

    def _call(self, step: x86.Instruction) -> None:
        self._hand_over(step)
        self.certain -= {*_OF_THE_CALLED, x86.RSP, *self.known_outside}
        # A compiler may know that a function of the same file leaves a register alone.
        own = step.value is not None and step.value not in self.code.stubs
        for register in _RETURNED if own else _OF_THE_CALLED:
            self.state.pop(register, None)
        if own and step.value is not None:
            self.state[x86.RAX] = frozenset({Returned(step.value)})
        self.state.pop(x86.RSP, None)
        for place in self.known_outside:
            self.state.pop(place, None)

    def _hand_over(self, step: x86.Instruction) -> None:
        name = self.code.name_of(step)
        self._note_hidden(name.lstrip(FORTRAN), step)
        for position, register in enumerate(ARGUMENTS):
            values = self._values(register)
            for value in values:
                chosen = Maybe(value) if isinstance(value, int) and len(values) > 1 else value
                if name.startswith(OTHER):
                    self._to_other(name.removeprefix(OTHER), position, chosen)
                elif name:
                    self._to_mpi(name, position, chosen)
                elif step.value is not None:
                    self._to_own(step.value, position, chosen)

    def _note_hidden(self, function: str, step: x86.Instruction) -> None:
        """Note what is called, and arguments of which not every value is seen."""
        if function in telling.FUNCTIONS:
            self.flow.called.add((function, self.here))
            if ARGUMENTS[telling.FUNCTIONS[function]] not in self.certain:
                self.flow.hidden.add((function, self.here))
        elif not function and step.value is not None:
            lost = (n for n, place in enumerate(ARGUMENTS) if place not in self.certain)
            self.flow.lost.update((step.value, position) for position in lost)

    def _to_own(self, target: int, position: int, value: Value) -> None:
        """Note what a function of the program is given."""
        if isinstance(value, int):
            self.flow.given.setdefault((target, position), set()).add(value)
        elif isinstance(value, Given):
            key = (self.start, value.position)
            self.flow.edges.setdefault((target, position), set()).add(key)

    def _to_other(self, name: str, position: int, value: Value) -> None:
        """Note what a function of another file is given."""
        number = value.value if isinstance(value, Maybe) else value
        if isinstance(number, int) and (number in telling.HANDLES or number == telling.AUTOMATIC):
            sure = isinstance(value, int)
            self.flow.sent.add(Handed(name, position, number, sure=sure))

    def _to_mpi(self, name: str, position: int, value: Value) -> None:
        """Note what MPI is given; Fortran's functions, in `name` with a `&`, get addresses."""
        by_address = name.startswith(FORTRAN)
        function = name.lstrip(FORTRAN)
        if isinstance(value, Returned):
            if not by_address and telling.FUNCTIONS.get(function) == position:
                self.flow.asked.setdefault(value.start, set()).add((function, position))
            return
        if isinstance(value, Given):
            if not by_address:
                key = (self.start, value.position)
                self.flow.passed_on.setdefault(key, set()).add((function, position))
            return
        if by_address:
            address = value if isinstance(value, int) else value[0]
            word = self.code.word_at(address)
            if word is not None:
                self.flow.handed.add(Handed(function, position, word))
        elif isinstance(value, int):
            self.flow.handed.add(Handed(function, position, value))
        elif isinstance(value, Maybe):
            self.flow.handed.add(Handed(function, position, value.value, sure=False))

    def _leave(self, step: x86.Instruction) -> None:
        target = step.value
        if step.kind == "end":
            values = self._values(x86.RAX)
            numbers = {value for value in values if isinstance(value, int)}
            self.flow.returned.setdefault(self.start, set()).update(numbers)
        if step.kind == "jump" and (target is None or not self.start <= target < self.end):
            self._hand_over(step)
        elif target is not None and target > self.start and step.kind != "end":
            waiting = self.later.setdefault(target, {})
            for place, values in self.state.items():
                waiting[place] = waiting.get(place, frozenset()) | values
        if step.kind != "branch":
            self.state = {}
            self.certain.clear()


def _only_telling(value: int | None) -> frozenset[Value]:
    number = (value or 0) & 0xFFFFFFFF
    return frozenset({Maybe(number)}) if number in telling.HANDLES else frozenset()
