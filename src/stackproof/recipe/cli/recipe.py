"""`stackproof recipe`: the recipes that come with stackproof, listed or shown."""

from __future__ import annotations

import json

from stackproof.core import noun
from stackproof.core.effects import documents, shipped
from stackproof.core.value import Value
from stackproof.recipe.options import RecipeListOptions, RecipeShowOptions


class _Row(Value):
    """A shipped recipe: its name, what builds it, what it gives, and its file."""

    name: str
    engine: str
    description: str
    file: str


def run_list(options: RecipeListOptions) -> int:
    """Print a line for each recipe."""
    rows = _rows()
    if options.json:
        print(json.dumps([noun.to_data(row) for row in rows], indent=1, ensure_ascii=False))
        return 0
    width = max(len(row.name) for row in rows)
    print(f"{'RECIPE':<{width}}  {'ENGINE':<9}  DESCRIPTION")
    for row in rows:
        print(f"{row.name:<{width}}  {row.engine:<9}  {row.description}")
    return 0


def run_show(options: RecipeShowOptions) -> int:
    """Print the text of a recipe."""
    print(shipped.find("recipes", options.name).read_text(encoding="utf-8"), end="")
    return 0


def _rows() -> list[_Row]:
    """Return the recipes that can be built: one that others inherit has no description."""
    rows = []
    for name in shipped.names("recipes"):
        path = shipped.find("recipes", name)
        data = documents.load(str(path)).data
        if not data.get("description"):
            continue
        engine = data.get("engine") or ("spack" if "inherit" in data else "wheel")
        rows.append(_Row(name=name, engine=engine, description=data["description"], file=str(path)))
    return rows
