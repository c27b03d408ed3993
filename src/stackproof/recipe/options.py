"""Options of `recipe`."""

from __future__ import annotations

from stackproof.core.options import Options, argument, flag


class RecipeListOptions(
    Options,
    run="recipe.cli.recipe:run_list",
    text="list the recipes that come with stackproof; `build NAME` takes each of them",
):
    """How the recipes are listed."""

    json: bool = flag("print the list as JSON")


class RecipeShowOptions(
    Options,
    run="recipe.cli.recipe:run_show",
    text="print a shipped recipe, to start from: stackproof recipe show mpich > mine.yaml",
):
    """Which recipe is shown."""

    name: str = argument("NAME", "a name of `recipe ls`")


ACTIONS = {"ls": RecipeListOptions, "show": RecipeShowOptions}
