"""The compact manifest of an artefact: what a hook reads at the start of every container.

Lines of words, each once or several times, in this order; the last one is the CRC-32 (zlib's) of
all bytes before it, which shows a file that is cut off or was edited.

    stackproof-abi 1
    name NAME
    place FOLDER                         where the artefact is mounted inside of a container
    machine NUMBER                       `e_machine` of its libraries
    isa LEVEL                            what its libraries demand of an x86-64 processor
    shs RELEASE                          the Slingshot host software that it is for
    replace LEVEL NAME FILE              a library by the name that containers have for it
    abi NAME ABI                         the ABI of a library of MPI that is put in place
    lacks NAME SYMBOL…                   functions of the MPI standard that it has not
    provides NAME NODE…                  version nodes of a library that is put in place
    part NAME                            a part of such an MPI that must not stay beside it
    needs NAME NODE…                     what the container's own libraries must define
    env LEVEL NAME VALUE                 what must be set in the container at a level
    crc NUMBER                           eight hexadecimal digits

Files are below the artefact. No word but the last of `env` has a space.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Mapping

from msgspec import field

from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.core.value import Value

NAME = "meta/abi.manifest"
"""Where it lies in an artefact."""

_HEAD = "stackproof-abi 1"
_WORD = re.compile(r"[\x21-\x7e]+")
_TEXT = re.compile(r"[\x20-\x7e]*")
_LAST = re.compile(r"crc ([0-9a-f]{8})\n")


class Replaced(Value):
    """A library that can be put in place of another one of that name, and at which level."""

    level: str
    name: str
    file: str


class Compact(Value):
    """The compact manifest as a value.

    `place` is where containers see the artefact; `environment` goes by level.
    """

    name: str
    place: str
    machine: int
    isa: str = ""
    shs: str = ""
    replaces: tuple[Replaced, ...] = ()
    abis: Mapping[str, str] = field(default_factory=dict)
    lacks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    provides: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    parts: tuple[str, ...] = ()
    needs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    environment: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def render(compact: Compact) -> str:
    """Return the text; raises `StackproofError` (INVALID_VALUE) for what no line can hold."""
    lines = [_HEAD, *(_line(*row) for row in _rows(compact))]
    for level, values in compact.environment.items():
        for name, value in values.items():
            if not _TEXT.fullmatch(value):
                raise _unfit(value)
            lines.append(f"{_line('env', level, name)} {value}")
    text = "".join(f"{line}\n" for line in lines)
    return f"{text}crc {zlib.crc32(text.encode()):08x}\n"


def _rows(compact: Compact) -> Iterator[tuple[str, ...]]:
    """Yield the words of all lines but those of variables."""
    single = {key: str(getattr(compact, key)) for key in ("name", "place", "machine", "isa", "shs")}
    yield from ((key, value) for key, value in single.items() if value or key in {"name", "place"})
    yield from (("replace", one.level, one.name, one.file) for one in compact.replaces)
    yield from (("abi", *pair) for pair in compact.abis.items())
    yield from (("lacks", name, *words) for name, words in compact.lacks.items())
    yield from (("provides", name, *nodes) for name, nodes in compact.provides.items())
    yield from (("part", name) for name in compact.parts)
    yield from (("needs", name, *nodes) for name, nodes in compact.needs.items())


def _line(*words: str) -> str:
    for word in words:
        if not _WORD.fullmatch(word):
            raise _unfit(word)
    return " ".join(words)


def _unfit(word: str) -> StackproofError:
    return fail(
        Reason.INVALID_VALUE,
        f"{word!r} cannot stand in a manifest for hooks",
        hint="names and paths of an artefact are of printable ASCII without spaces",
    )


def parse(text: str, *, file: str) -> Compact:
    """Return what a text says; raises `StackproofError` (INVALID_VALUE) for a damaged one."""
    body, found, last = text.rpartition("crc ")
    match = _LAST.fullmatch(found + last)
    if match is None or int(match.group(1), 16) != zlib.crc32(body.encode()):
        raise _damaged(file, "its checksum is not that of its lines")
    lines = body.splitlines()
    if not lines or lines[0] != _HEAD:
        raise _damaged(file, f"its first line is not `{_HEAD}`")
    rows: dict[str, list[list[str]]] = {}
    for line in lines[1:]:
        key, *words = line.split(" ")
        rows.setdefault(key, []).append(words)

    def lists(key: str) -> dict[str, tuple[str, ...]]:
        return {name: tuple(words) for name, *words in rows.get(key, ())}

    try:
        optional = {key: rows[key][0][0] for key in ("isa", "shs") if key in rows}
        environment: dict[str, dict[str, str]] = {}
        for level, name, *words in rows.get("env", ()):
            environment.setdefault(level, {})[name] = " ".join(words)
        return Compact(
            name=rows["name"][0][0],
            place=rows["place"][0][0],
            machine=int(rows["machine"][0][0]),
            **optional,
            abis={name: words[0] for name, words in lists("abi").items()},
            lacks=lists("lacks"),
            replaces=tuple(
                Replaced(level=level, name=name, file=path)
                for level, name, path in rows.get("replace", ())
            ),
            provides=lists("provides"),
            parts=tuple(name for (name,) in rows.get("part", ())),
            needs=lists("needs"),
            environment=environment,
        )
    except (KeyError, IndexError, ValueError) as error:
        raise _damaged(file, "a line is missing, or has too many words") from error


def _damaged(file: str, why: str) -> StackproofError:
    return fail(
        Reason.INVALID_VALUE,
        f"`{file}` is no manifest of an artefact: {why}",
        where=Location(file=file),
        hint="make the artefact again with `stackproof inject artefact`",
    )
