"""One function of x86-64, read from its start to its end, to what it hands over and hides."""

from __future__ import annotations

from collections.abc import Collection

from stackproof.linking.elf import telling, x86
from stackproof.linking.elf.call_tables import FORTRAN, OTHER
from stackproof.linking.elf.code import Code
from stackproof.linking.elf.flow import CallFlow, Given, Handed, Pointer, State, Value
from stackproof.linking.elf.model import EXECUTABLE

ARGUMENTS = (x86.RDI, x86.RSI, x86.RDX, x86.RCX, 8, 9)
_ALLOCATES = frozenset(f"{OTHER}{name}" for name in ("malloc", "calloc", "realloc"))
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
        self.known_outside: set[x86.Place] = set()
        self.certain: set[x86.Operand] = {*ARGUMENTS}
        self.labels: Collection[int] = ()
        self.here = start

    def read(self) -> None:
        """Follow the function to its end."""
        code = self.code.text(self.start, self.end)
        self.labels = self._labels(code)
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
            for place in (step.target, *step.changes):
                self._overwrite(place, step.size)
            if certain and step.target in self.state:
                self.certain.add(step.target)
            at += step.length

    def _labels(self, code: bytes) -> Collection[int]:
        """Return the addresses of the function that jumps go to; all, where that is not known."""
        span = range(self.start, self.end)
        labels, tables, at = set(self.code.jumped_to.intersection(span)), set[int](), 0
        is_open = False
        while at < len(code):
            step = x86.decode(code, at, self.start + at)
            if step is None or step.length <= 0:
                break
            place = step.source if isinstance(step.source, x86.Place) else None
            if step.kind in {"jump", "branch"} and step.value is not None:
                labels.add(step.value)
            elif step.kind == "address" and place and place.base == x86.AT:
                tables.update(self.code.labels_in(span, place.distance))
            elif step.kind == "jump" and not self.code.name_of(step):
                is_open = True
                if place and place.base == x86.INDEXED:
                    tables.update(self.code.labels_in(span, place.distance, absolute=True))
            at += step.length
        return span if is_open and not tables else labels | tables

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
            return frozenset() if word is None else frozenset({word})
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

    def _forget_stack(self, base: x86.Operand, span: range | None = None) -> None:
        for place in [p for p in self.state if isinstance(p, x86.Place) and p.base == base]:
            if span is None or place.distance in span:
                del self.state[place]
                self.certain.discard(place)

    def _overwrite(self, place: x86.Operand, size: int) -> None:
        """Forget the places on the stack that an instruction may write to beside its own."""
        if not isinstance(place, x86.Place) or place.base == x86.AT:
            return
        if place.base in {x86.RSP, x86.RBP}:
            self._forget_stack(place.base, range(place.distance + 1, place.distance + size))
        elif place.base == x86.INDEXED:
            self._forget_stack(x86.RSP)
            self._forget_stack(x86.RBP)
        else:
            self._forget_outside()

    def _forget_outside(self) -> None:
        """Forget what may be changed by an address on the stack: all from there on."""
        for place in self.known_outside:
            self._forget_stack(place.base, range(place.distance, 1 << 31))

    def _address(self, step: x86.Instruction) -> None:
        place = step.source
        pointer: frozenset[Value] = frozenset()
        if isinstance(place, x86.Place):
            if place.base == x86.AT:
                pointer = frozenset({Pointer(place.distance)})
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
        self.certain -= {*_OF_THE_CALLED, x86.RSP}
        self._forget_outside()
        # A compiler may know that a function of the same file leaves a register alone.
        own = step.value is not None and step.value not in self.code.stubs
        for register in _RETURNED if own else _OF_THE_CALLED:
            self.state.pop(register, None)
        self.state.pop(x86.RSP, None)
        if "setjmp" in self.code.name_of(step):  # it comes back with what was changed since
            self.state, self.certain = {}, set()
        if self.code.name_of(step) in _ALLOCATES:
            self.state[x86.RAX] = frozenset({Pointer(0)})
            self.certain.add(x86.RAX)

    def _hand_over(self, step: x86.Instruction) -> None:
        name = self.code.name_of(step)
        self._note_hidden(name.lstrip(FORTRAN), step)
        for position, register in enumerate(ARGUMENTS):
            values = self._values(register)
            if len(values) > 1:  # it may be any of them
                values = frozenset(value for value in values if not isinstance(value, int))
            for value in values:
                if name.startswith(OTHER):
                    self._to_other(name.removeprefix(OTHER), position, value)
                elif name:
                    self._to_mpi(name, position, value)
                elif step.value is not None:
                    self._to_own(step.value, position, value)

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
        if isinstance(value, Given):
            key = (self.start, value.position)
            self.flow.edges.setdefault((target, position), set()).add(key)
        elif value != 0:
            self.flow.texts.setdefault((target, position), set()).add(self._text(value))

    def _text(self, value: Value) -> str:
        """Return the text that a value points to, empty for none and where it may change."""
        address = value.address if isinstance(value, Pointer) else value
        is_placed = isinstance(value, Pointer) or self.code.frame.kind == EXECUTABLE
        return self.code.text_at(address) if is_placed and isinstance(address, int) else ""

    def _to_other(self, name: str, position: int, value: Value) -> None:
        """Note what a function of another file is given."""
        if isinstance(value, int) and (value in telling.HANDLES or value == telling.AUTOMATIC):
            self.flow.sent.add(Handed(name, position, value))

    def _to_mpi(self, name: str, position: int, value: Value) -> None:
        """Note what MPI is given; Fortran's functions, in `name` with a `&`, get addresses."""
        by_address = name.startswith(FORTRAN)
        function = name.lstrip(FORTRAN)
        if isinstance(value, Given) and not by_address:
            key = (self.start, value.position)
            self.flow.passed_on.setdefault(key, set()).add((function, position))
        elif function in telling.NAMES:
            self._to_loader(function, position, value)
        elif by_address:
            address = value.address if isinstance(value, Pointer) else value
            word = self.code.word_at(address) if isinstance(address, int) else None
            if word is not None:
                self.flow.handed.add(Handed(function, position, word))
            elif telling.FUNCTIONS.get(function) == position:
                self.flow.hidden.add((function, self.here))
        elif isinstance(value, int):
            self.flow.handed.add(Handed(function, position, value))

    def _to_loader(self, function: str, position: int, value: Value) -> None:
        """Note a name that may change, or none of a library or of a function."""
        shown = value == 0 or telling.NAMES[function].fullmatch(self._text(value))
        if telling.FUNCTIONS[function] == position and not shown:
            self.flow.hidden.add((function, self.here))

    def _leave(self, step: x86.Instruction) -> None:
        target = step.value
        if step.kind != "end" and (target is None or not self.start <= target < self.end):
            self._hand_over(step)
        elif target is not None and target > self.start and step.kind != "end":
            waiting = self.later.setdefault(target, {})
            for place, values in self.state.items():
                waiting[place] = waiting.get(place, frozenset()) | values
        if step.kind != "branch":
            self.state = {}
            self.certain.clear()
