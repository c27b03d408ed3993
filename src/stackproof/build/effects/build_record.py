"""What an image says of its build, read from its folder `meta`."""

from __future__ import annotations

from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.image.effects import meta_files

BILL = "bom.cdx.json"
_RECIPE = "meta/recipe/"


def load_bill(image: str) -> bytes:
    """Return the bill of materials of an image.

    Raises `StackproofError`: IMAGE_NO_META where it has none, and what unpacking raises.
    """
    held = meta_files.read(image)
    if held is None or f"meta/{BILL}" not in held.files:
        raise _no_record(image, f"it has no `meta/{BILL}`")
    return held.files[f"meta/{BILL}"]


def load_recipe_files(image: str) -> dict[str, bytes]:
    """Return the recipe that an image carries, by file name; raises as `load_bill`."""
    held = meta_files.read(image)
    if held is None or "meta/lock.json" not in held.files:
        raise _no_record(image, "it has no `meta/lock.json`")
    return {
        path.removeprefix(_RECIPE): content
        for path, content in sorted(held.files.items())
        if path.startswith(_RECIPE)
    }


def _no_record(image: str, why: str) -> StackproofError:
    return fail(
        Reason.IMAGE_NO_META,
        f"image `{image}` does not say how it was built: {why}",
        where=Location(file=image),
        hint="images that `stackproof build` makes have their lock and bill of materials inside; "
        "attach files of your own by their names",
    )
