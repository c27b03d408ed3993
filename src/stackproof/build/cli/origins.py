"""`stackproof plan --explain KEY`: which file set a value, and what it took the place of."""

from __future__ import annotations

import json
from collections.abc import Iterator

from stackproof.build.effects import stacks
from stackproof.build.effects.builders import RecipeOptions
from stackproof.build.effects.loaded import Loaded
from stackproof.build.engines.spack.effects import recipe_files, stackinator
from stackproof.build.engines.spack.stackinator.reader import DOCUMENTS
from stackproof.core import noun
from stackproof.recipe.composition import Node
from stackproof.recipe.origins import ValueOrigin, explain, recipe_tree, with_facts, with_site


def show(loaded: Loaded, options: RecipeOptions, key: str, *, as_json: bool) -> int:
    """Print every value under a key, with its place and history.

    Raises `StackproofError` (USAGE) for a key that is neither set nor has a default.
    """
    settings = explain(_tree(loaded, options), key, spack=loaded.with_site)
    if as_json:
        print(noun.to_json([noun.to_data(setting) for setting in settings]), end="")
    else:
        for setting in settings:
            print("\n".join(_lines(setting)))
    return 0


def _tree(loaded: Loaded, options: RecipeOptions) -> Node:
    root = (
        loaded.composed.root
        if loaded.composed is not None
        else recipe_tree(stackinator.load_documents(str(loaded.path), DOCUMENTS))
    )
    if not loaded.with_site:
        return root
    site = recipe_files.load_site_documents(options.site)
    given = stacks.given_facts(options.fact)
    root = with_site(root, site, options.site or "this machine")
    return with_facts(root, stacks.known_facts(options.site), given, site)


def _lines(setting: ValueOrigin) -> Iterator[str]:
    yield f"{setting.key}: {_shown(setting)}"
    yield f"    {_place(setting)}"
    for older in setting.before:
        yield f"    instead of {_shown(older)}"
        yield f"        {_place(older)}"


def _shown(setting: ValueOrigin) -> str:
    """Return a value on one line; a default is words, everything else is what YAML would hold."""
    if setting.where is None:
        return str(setting.value)
    return json.dumps(setting.value, ensure_ascii=False)


def _place(setting: ValueOrigin) -> str:
    place = str(setting.where) if setting.where else "set nowhere"
    return f"{place}  {setting.why}".rstrip()
