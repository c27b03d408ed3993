"""What an image says of its build, read from its folder `meta`."""

from __future__ import annotations

from stackproof.core.errors import Location, Reason, fail
from stackproof.image.effects import meta_files

_RECIPE = "meta/recipe/"


def load_recipe_files(image: str) -> dict[str, bytes]:
    """Return the recipe that an image carries, by file name.

    Raises `StackproofError`: IMAGE_NO_META where it has none, and what unpacking raises.
    """
    held = meta_files.read(image)
    if held is None or "meta/lock.json" not in held.files:
        raise fail(
            Reason.IMAGE_NO_META,
            f"image `{image}` does not say how it was built: it has no `meta/lock.json`",
            where=Location(file=image),
            hint="images that `stackproof build` makes have their lock inside",
        )
    return {
        path.removeprefix(_RECIPE): content
        for path, content in sorted(held.files.items())
        if path.startswith(_RECIPE)
    }
