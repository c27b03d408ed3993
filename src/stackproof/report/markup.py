"""HTML by functions: every text is escaped unless it is markup made here."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from markupsafe import Markup, escape

DASH = "\u2013"
"""Stands where there is no value."""

_VOID = frozenset({"br", "col", "hr", "input", "meta", "link"})

Child = str | Markup | int | None


def element(name: str, /, *children: Child, **attributes: str | bool | int | None) -> Markup:
    """Return an element; `class_` gives `class`, `data_size` gives `data-size`.

    Children that are not `Markup` are escaped; None is left out, and so is an attribute that is
    None or False.
    """
    parts = [f"<{name}"]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        label = key.rstrip("_").replace("_", "-")
        parts.append(f" {label}" if value is True else f' {label}="{escape(value)}"')
    parts.append(">")
    if name not in _VOID:
        parts += [escape(child) for child in children if child is not None]
        parts.append(f"</{name}>")
    return Markup("".join(parts))  # noqa: S704 - names are of our code, the rest is escaped above


def joined(parts: Iterable[Markup | None], separator: str = "\n") -> Markup:
    """Return pieces of markup one after the other."""
    return escape(separator).join(part for part in parts if part is not None)


def script_json(data: Any) -> Markup:
    """Return JSON that can stand inside a script element whatever texts it holds."""
    encoded = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        encoded = encoded.replace(character, f"\\u{ord(character):04x}")
    return Markup(encoded)  # noqa: S704 - what HTML would read as its own is escaped above


def table(
    caption: str,
    head: Iterable[Child],
    rows: Iterable[Iterable[Child] | Markup],
    *,
    class_: str | None = None,
) -> Markup:
    """Return a table in a box that scrolls by itself; the first cell of a row is its heading.

    A row that is a `<tr` already is taken as it is, and so is a cell that is a `<td`.
    """
    headings = [element("th", cell, scope="col") for cell in head]
    body = [row if isinstance(row, Markup) else table_row(row) for row in rows]
    return element(
        "div",
        element(
            "table",
            element("caption", caption),
            element("thead", element("tr", joined(headings, ""))),
            element("tbody", joined(body)),
            class_=class_,
        ),
        class_="scroll",
        tabindex=0,
        role="region",
        aria_label=caption,
    )


def table_row(cells: Iterable[Child], **attributes: str | None) -> Markup:
    """Return a row of a table; its first cell is its heading."""
    first, *rest = cells
    shown = [element("th", first, scope="row"), *(_cell(cell) for cell in rest)]
    return element("tr", joined(shown, ""), **attributes)


def _cell(cell: Child) -> Markup:
    if isinstance(cell, Markup) and cell.startswith("<td"):
        return cell
    return element("td", cell)


def details(summary: str, *children: Child, open_: bool = False) -> Markup:
    """Return a part that opens on demand."""
    return element("details", element("summary", summary), *children, open=open_)
