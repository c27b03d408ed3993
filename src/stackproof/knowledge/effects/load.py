"""Loading the knowledge and the reference curves that come with stackproof."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from stackproof.core import limits
from stackproof.core.effects import files, shipped
from stackproof.core.errors import Location, Reason, fail
from stackproof.core.value import replace
from stackproof.knowledge.model import Knowledge, read_knowledge
from stackproof.knowledge.variables import FILE, parse_variables

if TYPE_CHECKING:
    from stackproof.knowledge.reference_curves import ReferenceCurve

_LOADER = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
_SCALARS = yaml.constructor.SafeConstructor()


@functools.cache
def load_knowledge() -> Knowledge:
    """Return settings and known problems; raises `StackproofError` (FILE_MISSING)."""
    base = shipped.root("knowledge")
    described, rules = sorted(base.glob("settings/*.yaml")), sorted(base.glob("rules/*.yaml"))
    if not described or not rules:
        raise fail(
            Reason.FILE_MISSING,
            f"`{base}` holds no settings or no rules",
            where=Location(file=str(base)),
        )
    return read_knowledge(
        data_of(base / "sources.yaml"), [*map(data_of, described)], [*map(data_of, rules)]
    )


def load_everything() -> Knowledge:
    """Return the knowledge with the table of variables; raises as `load_knowledge`."""
    text = _read(shipped.root("knowledge") / FILE).decode()
    return replace(load_knowledge(), variables=parse_variables(text))


def load_curves() -> tuple[ReferenceCurve, ...]:
    """Return the reference curves; raises `StackproofError` (FILE_MISSING)."""
    from stackproof.knowledge import reference_curves  # noqa: PLC0415 - `doctor` needs none

    base = shipped.root("knowledge") / "reference-curves"
    index = data_of(base / "index.yaml")
    names = reference_curves.file_names(index)
    return reference_curves.parse_curves(
        index, {name: _read(base / name).decode() for name in names}
    )


def data_of(path: Path) -> Any:
    """Return the data of a YAML file that comes with stackproof, and so is right.

    Without places of values that takes half as long. Dates stay texts.
    """
    return _plain(yaml.compose(_read(path), Loader=_LOADER))


def _plain(node: yaml.Node | None) -> Any:
    if isinstance(node, yaml.MappingNode):
        return {key.value: _plain(value) for key, value in node.value}
    if isinstance(node, yaml.SequenceNode):
        return [_plain(value) for value in node.value]
    if node is None or node.tag.endswith((":str", ":timestamp")):
        return node and node.value
    return _SCALARS.construct_object(node)


def _read(path: Path) -> bytes:
    return files.read_bounded(path, limits.TABLES)
