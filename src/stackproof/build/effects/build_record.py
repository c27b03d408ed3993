"""What an image says of its build, read from its folder `meta`."""

from __future__ import annotations

import tempfile
from pathlib import Path

from stackproof.build.provenance import BuildRecord, no_record
from stackproof.core.effects import files
from stackproof.core.limits import IMAGE_MEMBER
from stackproof.share.effects import storing

BILL = "bom.cdx.json"
_TEXTS = ("lock.json", "configure.json", BILL)
_RECIPE = "recipe"


def load_build_record(image: str) -> BuildRecord:
    """Return how an image was built, as it says itself.

    Raises `StackproofError`: IMAGE_NO_META where it does not say it, and what unpacking raises.
    """
    with tempfile.TemporaryDirectory(prefix="stackproof-meta-") as folder:
        storing.unpack_meta(Path(image), Path(folder))
        meta = Path(folder, "meta")
        missing = [name for name in _TEXTS if not (meta / name).is_file()]
        if missing:
            raise no_record(image, f"it has no `meta/{missing[0]}`")
        lock, configure, bill = (files.read_bounded(meta / name, IMAGE_MEMBER) for name in _TEXTS)
        recipe = {
            str(path.relative_to(meta / _RECIPE)): files.read_bounded(path, IMAGE_MEMBER)
            for path in sorted((meta / _RECIPE).rglob("*"))
            if path.is_file()
        }
    return BuildRecord(lock=lock, configure=configure, bill=bill, recipe=recipe)
