"""An image of ours, or a folder with its tree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stackproof.bench.arms.paths import absolute

_PATHS = ("image", "program-image", "inject")


class ImageArm:
    """`image: IMAGE[:MOUNT]`; in short also without the word."""

    name = "image"
    title = "an image"
    keys = frozenset({"view", "program-image", "inject", "accept-unknown"})

    def short(self, text: str) -> dict[str, Any]:
        """Return the entry for IMAGE[:MOUNT]."""
        return {"image": text}

    def fields(self, entry: Mapping[str, Any], folder: str) -> dict[str, Any]:
        """Return the fields; images and what is injected are relative to the folder."""
        found = {key: entry[key] for key in (self.name, *self.keys) if key in entry}
        found |= {key: absolute(entry[key], folder) for key in _PATHS if key in entry}
        return {key.replace("-", "_"): value for key, value in found.items()}
