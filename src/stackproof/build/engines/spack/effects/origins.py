"""Where the values of a recipe that was read are from, those of its site and of facts with them."""

from __future__ import annotations

from stackproof.build.effects import stacks
from stackproof.build.effects.loaded import Loaded
from stackproof.build.engines.spack.effects import recipe_files, stackinator
from stackproof.build.engines.spack.stackinator.reader import DOCUMENTS
from stackproof.build.options import RecipeOptions
from stackproof.recipe.composition import PlacedValue
from stackproof.recipe.origins import ValueOrigin, explain, recipe_tree, with_facts, with_site


def origins_of(loaded: Loaded, options: RecipeOptions, key: str) -> tuple[ValueOrigin, ...]:
    """Return every value under a key, with its place and history.

    Raises `StackproofError` (USAGE) for a key that is neither set nor has a default.
    """
    return tuple(explain(_tree(loaded, options), key, spack=loaded.with_site))


def _tree(loaded: Loaded, options: RecipeOptions) -> PlacedValue:
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
    return with_facts(root, recipe_files.known_facts(options.site), given, site)
