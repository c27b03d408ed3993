"""What an image says of its build, read from its folder `meta`."""

from __future__ import annotations

from stackproof.build.provenance import BuildRecord, no_record
from stackproof.image.effects import meta_files

BILL = "bom.cdx.json"
_TEXTS = ("lock.json", "configure.json", BILL)
_RECIPE = "meta/recipe/"


def load_build_record(image: str) -> BuildRecord:
    """Return how an image was built, as it says itself.

    Raises `StackproofError`: IMAGE_NO_META where it does not say it, and what unpacking raises.
    """
    held = meta_files.read(image)
    files = held.files if held else {}
    missing = [name for name in _TEXTS if f"meta/{name}" not in files]
    if missing:
        raise no_record(image, f"it has no `meta/{missing[0]}`")
    lock, configure, bill = (files[f"meta/{name}"] for name in _TEXTS)
    recipe = {
        path.removeprefix(_RECIPE): content
        for path, content in sorted(files.items())
        if path.startswith(_RECIPE)
    }
    return BuildRecord(lock=lock, configure=configure, bill=bill, recipe=recipe)
