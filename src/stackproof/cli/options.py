"""The options of a verb, frozen and typed, from what argparse found on the command line."""

from __future__ import annotations

import argparse
from dataclasses import fields
from typing import Any, TypeVar

_Options = TypeVar("_Options")


def read(kind: type[_Options], args: argparse.Namespace, **others: Any) -> _Options:
    """Return options of a kind: each field from the argument of its name, or from `others`."""
    names = [one.name for one in fields(kind) if one.name not in others]  # type: ignore[arg-type]
    return kind(**{name: _frozen(getattr(args, name)) for name in names}, **others)


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
