"""The bill of materials of a plan to a chart of what is built on what, as text for Graphviz.

The stack itself points to what no part needs. What the machine brings is dashed and has no edges:
the bill does not say who uses it.
"""

from __future__ import annotations

import json


def render_dot(text: str) -> str:
    """Return a bill of materials (CycloneDX) in Graphviz' language; tools that only build are out.

    Source: graphviz.org/doc/info/lang.html.
    """
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
    lines = ["// written by `stackproof plan --graph`", "digraph stack {", "  node [shape=box];"]
    for ref, label in labels.items():
        style = ", style=dashed" if ref in outside else ""
        lines.append(f"  {_quoted(ref)} [label={_quoted(label)}{style}];")
    for ref in labels:
        below = [one for one in needs.get(ref, ()) if one not in outside]
        lines += [f"  {_quoted(ref)} -> {_quoted(one)};" for one in below]
    return "\n".join([*lines, "}"]) + "\n"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
