"""The bill of materials of a plan to a chart of what is built on what: SVG, or text for Graphviz.

A layer is below all that need it. The stack itself points to what no part needs, and what the
machine brings has no edges: the bill does not say who uses it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from graphlib import TopologicalSorter
from html import escape

from msgspec import field

from stackproof.core.value import Value

_HEIGHT, _ROW, _GAP, _EDGE, _LETTER = 28, 76, 18, 16, 7.2  # in pixels; a letter of 12 px monospace


class Graph(Value):
    """What a stack is made of.

    `labels` are NAME VERSION by the names of the parts, the stack's own first; `needs` has for
    each part those that it is built on; `outside` are those that the machine brings.
    """

    labels: Mapping[str, str]
    needs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    outside: frozenset[str] = frozenset()


def of_bill(text: str) -> Graph:
    """Return the graph of a bill of materials (CycloneDX); tools that only build are left out."""
    bill = json.loads(text)
    whole = bill["metadata"]["component"]
    parts = [
        part
        for part in bill["components"]
        if part.get("scope") != "excluded" and "externalReferences" not in part
    ]
    labels = {one["bom-ref"]: f"{one['name']} {one['version']}" for one in (whole, *parts)}
    needs = {
        one["ref"]: tuple(ref for ref in one.get("dependsOn", ()) if ref in labels)
        for one in bill["dependencies"]
        if one["ref"] in labels
    }
    outside = frozenset(
        part["bom-ref"]
        for part in parts
        if any(entry["name"].endswith(":external") for entry in part.get("properties", ()))
    )
    root = whole["bom-ref"]
    used = {ref for own, refs in needs.items() if own != root for ref in refs}
    needs[root] = tuple(ref for ref in labels if ref not in {root, *used, *outside})
    inner = {ref: tuple(one for one in needs.get(ref, ()) if one not in outside) for ref in labels}
    return Graph(labels=labels, needs=inner, outside=outside)


def layers(graph: Graph) -> tuple[tuple[str, ...], ...]:
    """Return the parts by layers: each is below all that need it; those outside come last."""
    depth = dict.fromkeys((ref for ref in graph.labels if ref not in graph.outside), 0)
    for ref in reversed([*TopologicalSorter(graph.needs).static_order()]):
        for below in graph.needs.get(ref, ()):
            depth[below] = max(depth[below], depth[ref] + 1)
    rows: list[list[str]] = [[] for _ in range(max(depth.values(), default=0) + 1)]
    for ref, index in depth.items():
        rows[index].append(ref)
    place: dict[str, float] = {}
    users = {ref: [one for one, below in graph.needs.items() if ref in below] for ref in depth}
    for row in rows:  # what stands under its users has shorter edges
        row.sort(key=lambda ref: sum(place[one] for one in users[ref]) / max(1, len(users[ref])))
        place |= {ref: (column + 0.5) / len(row) for column, ref in enumerate(row)}
    return (*map(tuple, rows), *((tuple(sorted(graph.outside)),) if graph.outside else ()))


def render_dot(graph: Graph) -> str:
    """Return the graph in Graphviz' language (graphviz.org/doc/info/lang.html)."""
    lines = ["// written by `stackproof plan --graph`", "digraph stack {", "  node [shape=box];"]
    for ref, label in graph.labels.items():
        style = ", style=dashed" if ref in graph.outside else ""
        lines.append(f"  {_quoted(ref)} [label={_quoted(label)}{style}];")
    lines += [
        f"  {_quoted(ref)} -> {_quoted(below)};"
        for ref, every in graph.needs.items()
        for below in every
    ]
    return "\n".join([*lines, "}"]) + "\n"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def render_svg(graph: Graph) -> str:
    """Return the graph as SVG 1.1, in rows."""
    rows = layers(graph)
    widths = {ref: len(label) * _LETTER + 16 for ref, label in graph.labels.items()}
    totals = [sum(widths[ref] + _GAP for ref in row) - _GAP for row in rows]
    width = max(totals) + 2 * _EDGE
    middle: dict[str, tuple[float, float]] = {}
    for index, (row, total) in enumerate(zip(rows, totals, strict=True)):
        left = (width - total) / 2
        for ref in row:
            middle[ref] = (left + widths[ref] / 2, _EDGE + index * _ROW)
            left += widths[ref] + _GAP
    height = (len(rows) - 1) * _ROW + _HEIGHT + 2 * _EDGE
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" '
        f'viewBox="0 0 {width:.0f} {height}" font-family="monospace" font-size="12">'
        "<!-- written by `stackproof plan` -->"
    )
    title = f"<title>{escape(next(iter(graph.labels.values())))}</title>"
    return "\n".join((head, title, *_edges(graph, middle), *_boxes(graph, widths, middle))) + (
        "\n</svg>\n"
    )


def _edges(graph: Graph, middle: Mapping[str, tuple[float, float]]) -> Iterator[str]:
    for ref, every in graph.needs.items():
        for below in every:
            (x, y), (to_x, to_y) = middle[ref], middle[below]
            begin, half = y + _HEIGHT, (to_y - y - _HEIGHT) / 2
            yield (
                f'<path d="M{x:.1f} {begin}C{x:.1f} {begin + half:.1f} {to_x:.1f} '
                f'{to_y - half:.1f} {to_x:.1f} {to_y}" fill="none" stroke="#888"/>'
            )


def _boxes(
    graph: Graph, widths: Mapping[str, float], middle: Mapping[str, tuple[float, float]]
) -> Iterator[str]:
    for ref, (x, y) in middle.items():
        dashes = ' stroke-dasharray="4"' if ref in graph.outside else ""
        label = escape(graph.labels[ref])
        yield (
            f'<rect x="{x - widths[ref] / 2:.1f}" y="{y}" width="{widths[ref]:.1f}" '
            f'height="{_HEIGHT}" rx="4" fill="#fff" stroke="#333"{dashes}/>'
            f'<text x="{x:.1f}" y="{y + 18}" text-anchor="middle">{label}</text>'
        )


RENDERERS = {"svg": render_svg, "dot": render_dot}
"""What writes each form of a chart."""
