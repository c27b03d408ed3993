"""Code of x86-64 to what its instructions do with constants: enough to see what a call is given.

Lengths are those of the Intel 64 manual (volume 2, appendix A). What an instruction does is told
only for those that move constants; of all others only which registers they may change.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

RAX, RCX, RDX, RSP, RBP, RSI, RDI = 0, 1, 2, 4, 5, 6, 7
_PREFIXES = frozenset(b"\x66\x67\xf0\xf2\xf3\x2e\x36\x3e\x26\x64\x65")


def _set(*parts: int | tuple[int, int]) -> frozenset[int]:
    numbers: set[int] = set()
    for part in parts:
        numbers.update(range(part[0], part[1] + 1) if isinstance(part, tuple) else (part,))
    return frozenset(numbers)


_ARITHMETIC = tuple(range(0, 0x40, 8))
_MODRM = _set(
    *((base, base + 3) for base in _ARITHMETIC), 0x63, 0x69, 0x6B, 0x80, 0x81, 0x83, (0x84, 0x8F),
    0xC0, 0xC1, 0xC6, 0xC7, (0xD0, 0xD3), (0xD8, 0xDF), 0xF6, 0xF7, 0xFE, 0xFF,
)  # fmt: skip
_IMM8 = _set(
    *(base + 4 for base in _ARITHMETIC), 0x6A, 0x6B, (0x70, 0x7F), 0x80, 0x83, 0xA8, (0xB0, 0xB7),
    0xC0, 0xC1, 0xC6, 0xCD, (0xE0, 0xE7), 0xEB,
)  # fmt: skip
_IMM32 = _set(*(base + 5 for base in _ARITHMETIC), 0x68, 0x69, 0x81, 0xA9, 0xC7)
_BARE_0F = _set((0x05, 0x09), 0x0B, 0x0E, (0x30, 0x37), 0x77, (0x80, 0x8F), (0xA0, 0xA2),
                (0xA8, 0xAA), (0xC8, 0xCF))  # fmt: skip
_IMM8_0F = _set((0x70, 0x73), 0xA4, 0xAC, 0xBA, 0xC2, (0xC4, 0xC6))
# Two-byte instructions that change a general register: by their `reg` field, by `r/m`, or both.
_TO_REG_0F = _set(
    0x02, 0x03, 0x2C, 0x2D, (0x40, 0x50), 0xAF, 0xB6, 0xB7, 0xB8, (0xBC, 0xBF), 0xC5, 0xD7
)
_TO_RM_0F = _set(0x00, 0x01, 0x7E, (0x90, 0x9F), 0xA3, 0xA4, 0xA5, 0xAB, 0xAC, 0xAD, 0xAE, 0xB3,
                 0xBA, 0xBB, 0xC7, 0x11, 0x13, 0x17, 0x29, 0x2B, 0x7F, 0xD6, 0xE7)  # fmt: skip
_TO_BOTH_0F = _set(0xB0, 0xB1, 0xC0, 0xC1)
_CHANGES_NOTHING = _set((0x38, 0x3D), 0x84, 0x85, 0x90, 0x9B, 0xA8, 0xA9)

_ENDS = _set(0xC2, 0xC3, (0xCA, 0xCC), 0xCF, 0xF4)


class Place(NamedTuple):
    """A word in memory: a register and a distance, or an address (`base` is then `AT`).

    Of an element of an array, `INDEXED`, only the distance is told.
    """

    base: int
    distance: int


AT, INDEXED = -1, -2
Operand = int | Place | None
"""A register by its number, a place in memory, or what is not told."""


class Instruction(NamedTuple):
    """What one instruction does.

    `kind` is `move` (of `value` or `source` to `target`), `address`, `zero`, `push`, `pop`, `call`,
    `jump`, `branch`, `end`, or `other`, which changes the registers and places in `changes`.
    `value` is a constant, or the address that is gone to; `size` are the bytes that it may write.
    """

    length: int
    kind: str = "other"
    target: Operand = None
    source: Operand = None
    value: int | None = None
    changes: tuple[Operand, ...] = ()
    size: int = 4


def decode(code: bytes, at: int, address: int) -> Instruction | None:
    """Return the instruction at a place of the code, None for what is none.

    `address` is where that place is in memory.
    """
    try:
        return _Reader(code, at, address).read()
    except (IndexError, struct.error):
        return None


class _Reader:
    """One instruction that is being read."""

    def __init__(self, code: bytes, at: int, address: int) -> None:
        self.code, self.start, self.at, self.address = code, at, at, address
        self.rex = 0
        self.short = False
        self.reg = 0
        self.rm: Operand = None

    def read(self) -> Instruction | None:
        code = self.code
        while code[self.at] in _PREFIXES:
            self.short |= code[self.at] == 0x66
            self.at += 1
        if code[self.at] & 0xF0 == 0x40:
            self.rex = code[self.at]
            self.at += 1
        opcode = code[self.at]
        self.at += 1
        if opcode in {0xC4, 0xC5, 0x62}:
            return self._vector(opcode)
        if opcode == 0x0F:
            return self._long()
        return self._one_byte(opcode)

    def _number(self, layout: str, size: int) -> int:
        (value,) = struct.unpack_from(f"<{layout}", self.code, self.at)
        self.at += size
        return int(value)

    def _modrm(self, after: int = 0) -> int:
        """Read the operands; `after` is how many bytes of a constant follow. Return the `reg`."""
        byte = self.code[self.at]
        self.at += 1
        mod, low = byte >> 6, byte & 7
        self.reg = (byte >> 3 & 7) | (self.rex & 4) << 1
        if mod == 3:
            self.rm = low | (self.rex & 1) << 3
            return byte >> 3 & 7
        base = low | (self.rex & 1) << 3
        if low == 4:
            sib = self.code[self.at]
            self.at += 1
            index = (sib >> 3 & 7) | (self.rex & 2) << 2
            base = (sib & 7) | (self.rex & 1) << 3
            if index != 4:
                base = INDEXED
            if sib & 7 == 5 and mod == 0:
                base, mod = INDEXED, 2
        elif low == 5 and mod == 0:
            distance = self._number("i", 4)
            self.rm = Place(AT, self.address + (self.at - self.start) + after + distance)
            return byte >> 3 & 7
        distance = self._number("b", 1) if mod == 1 else self._number("i", 4) if mod == 2 else 0
        self.rm = Place(base, distance)
        return byte >> 3 & 7

    def _done(self, kind: str = "other", **told: object) -> Instruction:
        size = 64 if kind == "other" else 8 if self.rex & 8 else 4
        length = self.at - self.start
        return Instruction(length, kind, size=size, **told)  # type: ignore[arg-type]  # as named

    def _gone_to(self, distance: int) -> int:
        return self.address + (self.at - self.start) + distance

    def _vector(self, opcode: int) -> Instruction:
        """Read an instruction with a VEX or EVEX prefix."""
        first = self.code[self.at]
        self.rex = 0 if first & 0x80 else 4
        kind = 1
        if opcode != 0xC5:
            kind = first & 0x1F if opcode == 0xC4 else first & 7
            self.rex |= 0 if first & 0x20 else 1
        self.at += {0xC5: 1, 0xC4: 2, 0x62: 3}[opcode]
        number = self.code[self.at]
        self.at += 1
        if kind == 1 and number == 0x77:
            return self._done()
        self._modrm()
        if kind == 3 or (kind == 1 and number in _IMM8_0F):
            self.at += 1
        general = number in _TO_REG_0F if kind == 1 else kind == 2 and number >= 0xF0
        return self._done(changes=((self.reg,) if general else ()) + (self.rm,))

    def _long(self) -> Instruction:
        """Read an instruction of two or three bytes."""
        opcode = self.code[self.at]
        self.at += 1
        if opcode in {0x38, 0x3A}:
            number = self.code[self.at]
            self.at += 1
            self._modrm(opcode == 0x3A)
            self.at += opcode == 0x3A
            general = opcode == 0x38 and number >= 0xF0
            return self._done(changes=(self.reg if general else None, self.rm))
        if 0x80 <= opcode < 0x90:
            distance = self._number("i", 4)
            return self._done("branch", value=self._gone_to(distance))
        if opcode in _BARE_0F:
            if opcode == 0x0B:
                return self._done("end")
            return self._done(changes=(RAX, RCX, RDX, 3, 11, (opcode & 7) | (self.rex & 1) << 3))
        self._modrm(opcode in _IMM8_0F)
        self.at += opcode in _IMM8_0F
        changes: tuple[Operand, ...] = ()
        if opcode in _TO_REG_0F:
            changes = (self.reg,)
        elif opcode in _TO_RM_0F:
            changes = (self.rm,)
        elif opcode in _TO_BOTH_0F:
            changes = (self.reg, self.rm, RAX)
        return self._done(changes=changes)

    def _one_byte(self, opcode: int) -> Instruction:
        register = (opcode & 7) | (self.rex & 1) << 3
        if opcode in _MODRM:
            return self._with_operands(opcode)
        if 0x50 <= opcode < 0x60:
            where: dict[str, object] = {"source" if opcode < 0x58 else "target": register}
            return self._done("push" if opcode < 0x58 else "pop", **where)
        if 0xB8 <= opcode < 0xC0:
            value = self._number("Q", 8) if self.rex & 8 else self._number(*self._wide("I", "H"))
            return self._done("move", target=register, value=value & 0xFFFFFFFF)
        if opcode in {0x68, 0x6A}:
            value = self._number("i", 4) if opcode == 0x68 else self._number("b", 1)
            return self._done("push", value=value & 0xFFFFFFFF)
        return self._flow(opcode) or self._without_operands(opcode)

    def _flow(self, opcode: int) -> Instruction | None:
        """Read an instruction after which another one than the next may come."""
        if opcode in {0xE8, 0xE9}:
            distance = self._number("i", 4)
            return self._done("call" if opcode == 0xE8 else "jump", value=self._gone_to(distance))
        if opcode == 0xEB or 0x70 <= opcode < 0x80 or 0xE0 <= opcode < 0xE4:
            distance = self._number("b", 1)
            kind = "jump" if opcode == 0xEB else "branch"
            return self._done(kind, value=self._gone_to(distance))
        if opcode in _ENDS:
            self.at += 2 * (opcode in {0xC2, 0xCA})
            return self._done("end")
        return None

    def _wide(self, whole: str, half: str) -> tuple[str, int]:
        return (half, 2) if self.short else (whole, 4)

    def _without_operands(self, opcode: int) -> Instruction:
        self.at += 1 if opcode in _IMM8 else self._wide("i", "h")[1] if opcode in _IMM32 else 0
        self.at += 8 if 0xA0 <= opcode < 0xA4 else 3 if opcode == 0xC8 else 0
        if opcode in _CHANGES_NOTHING:
            return self._done()
        if opcode < 0x40:
            return self._done(changes=(RAX,))
        if 0x91 <= opcode < 0x98:
            return self._done(changes=(RAX, (opcode & 7) | (self.rex & 1) << 3))
        if opcode == 0xC9:  # leave
            return self._done(changes=(RBP, RSP))
        return self._done(changes=(RAX, RCX, RDX, RSI, RDI))

    def _with_operands(self, opcode: int) -> Instruction:
        after = 1 if opcode in _IMM8 else self._wide("i", "h")[1] if opcode in _IMM32 else 0
        if opcode in {0xF6, 0xF7} and self.code[self.at] & 0x30 == 0:
            after = 1 if opcode == 0xF6 else self._wide("i", "h")[1]
        part = self._modrm(after)
        if opcode == 0xC7 and part == 0:
            value = self._number(*self._wide("i", "h")) & 0xFFFFFFFF
            return self._done("move", target=self.rm, value=value)
        self.at += after
        if opcode == 0xFF and part in {2, 4, 6}:
            kind = {2: "call", 4: "jump", 6: "push"}[part]
            return self._done(kind, source=None if part == 6 else self.rm)
        return self._moved(opcode) or self._done(changes=self._changed(opcode, part))

    def _moved(self, opcode: int) -> Instruction | None:
        """Return an instruction that moves a value, None for one that does something else."""
        if opcode == 0x89:
            return self._done("move", target=self.rm, source=self.reg)
        if opcode in {0x8B, 0x63}:
            return self._done("move", target=self.reg, source=self.rm)
        if opcode == 0x8D:
            return self._done("address", target=self.reg, source=self.rm)
        if opcode in {0x29, 0x2B, 0x31, 0x33} and self.rm == self.reg:
            return self._done("zero", target=self.reg)
        return None

    def _changed(self, opcode: int, part: int) -> tuple[Operand, ...]:
        """Return the registers that an instruction changes without moving a constant."""
        if opcode in _CHANGES_NOTHING or (opcode in {0x80, 0x81, 0x83} and part == 7):
            return ()
        if opcode in {0xF6, 0xF7}:
            return () if part < 2 else (self.rm,) if part < 4 else (RAX, RDX)
        if 0xD8 <= opcode < 0xE0:
            return (RAX, self.rm if isinstance(self.rm, Place) else None)
        if opcode in {0x86, 0x87}:
            return (self.reg, self.rm)
        to_reg = opcode in {0x69, 0x6B, 0x8A} or (opcode < 0x40 and opcode & 2)
        return (self.reg,) if to_reg else (self.rm,)
