"""The bytes of a launch file to a measurement, with what launches have alike held once.

Launches of an arm say the same of their case, command, variables and libraries. Of 100,000 files
each with its own copy, these are most of the memory.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable
from typing import Any, TypeVar, cast, get_type_hints

import msgspec

from stackproof.core import noun
from stackproof.results.measurement import Measurement, Output, RankFacts

T = TypeVar("T")

_SHARED = frozenset(
    (
        "arm", "case", "checks", "argv", "env", "host_facts", "image_sha256", "program",
        "program_version", "mpi_library", "clock", "host", "cpus", "devices", "libraries",
        "build_ids", "interfaces", "memory",
    )
)  # fmt: skip
_MOST_SHARED = 4096

_Raws = msgspec.json.Decoder(dict[str, msgspec.Raw])
_List = msgspec.json.Decoder(list[msgspec.Raw])


def read_record(content: bytes, *, file: str) -> Measurement:
    """Return the measurement that a launch file holds; raises as `noun.from_json` does."""
    try:
        if bytes(_Raws.decode(content)["schema"]) == f'"{Measurement.SCHEMA}"'.encode():
            return _built(Measurement, content)
    except (msgspec.MsgspecError, UnicodeError, RecursionError, TypeError, KeyError):
        pass  # said below, with its place
    return noun.from_json(Measurement, content, file=file)


def _built(kind: type[T], content: bytes | msgspec.Raw) -> T:
    fields = _Raws.decode(content)
    known = _decoders(cast("Hashable", kind))
    return kind(**{name: _value(kind, name, raw) for name, raw in fields.items() if name in known})


def _value(kind: type, name: str, raw: msgspec.Raw) -> Any:
    if (kind, name) == (Measurement, "output"):
        return _built(Output, raw)
    if (kind, name) == (Output, "ranks"):
        return tuple(_built(RankFacts, rank) for rank in _List.decode(raw))
    return _alike(kind, name, bytes(raw)) if name in _SHARED else _decoders(kind)[name].decode(raw)


@functools.lru_cache(_MOST_SHARED)
def _alike(kind: type, name: str, raw: bytes) -> Any:
    return _decoders(kind)[name].decode(raw)


@functools.cache
def _decoders(kind: Hashable) -> dict[str, msgspec.json.Decoder[Any]]:
    return {
        name: msgspec.json.Decoder(hint)
        for name, hint in get_type_hints(kind).items()
        if name != "SCHEMA"
    }
