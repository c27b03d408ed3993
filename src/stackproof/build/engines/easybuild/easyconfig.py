"""Parameters to the text of an easyconfig: a Python file that EasyBuild executes.

Values are written as Python literals, so that no text ends early or becomes code. EasyBuild puts
its own values into texts for `%(name)s`; texts that are not meant so are written with `%%`.
Source: "Writing easyconfig files", https://docs.easybuild.io/writing-easyconfig-files/.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from stackproof.core.value import Value

_WIDTH = 100
# `resolve_template` in easybuild-framework fills in what an odd number of `%` stands before.
_TEMPLATE = re.compile(r"(?<!%)%++(?=\(\w+\)\w)")


class Constant(Value, kw_only=False):
    """A name that EasyBuild defines, such as `SYSTEM`."""

    name: str


class Template(Value, kw_only=False):
    """A text in which EasyBuild fills in `%(installdir)s` and the like."""

    text: str


SYSTEM = Constant("SYSTEM")
EXTERNAL_MODULE = Constant("EXTERNAL_MODULE")


def render(parameters: Mapping[str, Any]) -> str:
    """Return the text of an easyconfig with these parameters, in their order.

    Parameters that are empty (None, "", [], {}) are left out.
    """
    lines = []
    for name, value in parameters.items():
        if value is None or value in ("", [], (), {}):
            continue
        if not name.isidentifier():
            raise ValueError(f"{name!r} is no name of a parameter")
        lines.append(f"{name} = {_fitted(value)}")
    return "\n".join(lines) + "\n"


def literal(value: Any) -> str:
    """Return a value as Python has it, on one line."""
    if isinstance(value, Constant):
        return value.name
    if isinstance(value, Template):
        return repr(value.text)
    if isinstance(value, str):
        return repr(_TEMPLATE.sub(lambda found: found[0] * 2, value))
    if isinstance(value, int):
        return repr(value)
    return _collection(value)


def _collection(value: Any) -> str:
    match value:
        case list():
            return f"[{', '.join(map(literal, value))}]"
        case tuple():
            inner = ", ".join(map(literal, value))
            return f"({inner},)" if len(value) == 1 else f"({inner})"
        case Mapping():
            return f"{{{', '.join(f'{literal(k)}: {literal(v)}' for k, v in value.items())}}}"
    raise TypeError(f"no literal for {type(value).__name__}")


def _fitted(value: Any) -> str:
    """Return a value with an item a line where one line would be too long."""
    line = literal(value)
    if len(line) <= _WIDTH or not isinstance(value, list | Mapping):
        return line
    if isinstance(value, list):
        items = [f"    {literal(item)}," for item in value]
        return "\n".join(["[", *items, "]"])
    items = [f"    {literal(key)}: {literal(item)}," for key, item in value.items()]
    return "\n".join(["{", *items, "}"])
