"""Text of others, as it may stand on a terminal or in a log: nothing that a terminal would obey.

Names, quotes and paths come from documents, images and users. A control character in one can clear
the screen, set a title, or have the terminal type; a mark of direction shows other text than is
there; a line break makes a line of its own that looks like ours.
"""

from __future__ import annotations

TYPE_CHECKING = False  # help of a verb may not wait for `typing`
if TYPE_CHECKING:
    from typing import AnyStr

_KEPT = "\n\t"
_FORMULAS = frozenset("=+-@\t\r\n")
# Unicode's category Cf (marks of direction), its property Default_Ignorable_Code_Point (fillers,
# selectors of variants, tags: all that shows nothing, and can hold a text of its own), breaks of
# lines, and Braille's blank. The joiners U+200C and U+200D stay: words of some languages need them.
_UNSEEN = (
    0xAD, 0x34F, *range(0x600, 0x606), 0x61C, 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x115F, 0x1160,
    0x17B4, 0x17B5, *range(0x180B, 0x1810), 0x200B, 0x200E, 0x200F, *range(0x2028, 0x202F),
    *range(0x2060, 0x2070), 0x2800, 0x3164, *range(0xFE00, 0xFE10), 0xFEFF, 0xFFA0,
    *range(0xFFF0, 0xFFFC), 0x110BD, 0x110CD, *range(0x13430, 0x13440), *range(0x1BCA0, 0x1BCA4),
    *range(0x1D173, 0x1D17B), *range(0xE0000, 0xE01F0),
)  # fmt: skip
_CONTROLS = (*range(0x20), *range(0x7F, 0xA0), *_UNSEEN)
_AS_MARKS = {number: "?" for number in _CONTROLS if chr(number) not in _KEPT}
_AS_JSON: dict[int, str] = {}  # made when it is first used, as help needs none


def text(value: str) -> str:
    """Return lines without what a terminal would obey; line breaks and tabs stay."""
    return value.translate(_AS_MARKS)


def json_text(value: str) -> str:
    """Return JSON that says the same and holds nothing that a terminal would obey."""
    if not _AS_JSON:
        for number in _AS_MARKS:
            units = memoryview(chr(number).encode("utf-16")[2:]).cast("H")
            _AS_JSON[number] = "".join(f"\\u{unit:04x}" for unit in units)
    return value.translate(_AS_JSON)


def line(value: str) -> str:
    """Return one line of what can be printed."""
    shown = value.translate(_AS_MARKS)
    return "".join(character if character.isprintable() else "?" for character in shown)


def cell(value: object) -> object:
    """Return the text of a cell of CSV: none that a spreadsheet takes for a formula."""
    begins = isinstance(value, str) and value.lstrip(" ")[:1] in _FORMULAS
    return f"'{value}" if begins else value


def shorten(value: AnyStr, most: int) -> AnyStr:
    """Return so many characters of a line; the middle goes, as lines end with the reason."""
    if len(value) <= most:
        return value
    mark = " … " if isinstance(value, str) else b" ... "
    head = most // 3
    return value[:head] + mark + value[head + len(mark) - most :]


def indented(value: str, indent: str) -> str:
    """Return text that begins in the middle of a line; what follows cannot look like a new one."""
    return text(value).rstrip("\n").replace("\n", f"\n{indent}")
