"""The MPI that the machine's vendor installed, which a site's file says or the machine shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stackproof.bench.arms.paths import absolute

HERE = "local"
"""The site that is this machine, as it is found."""


class VendorArm:
    """`vendor: SITE`, a site's name or file; in short also `vendor` alone, for this machine."""

    name = "vendor"
    title = "the vendor's MPI"
    keys = frozenset[str]()

    def short(self, text: str) -> dict[str, Any]:
        """Return the entry for SITE."""
        return {"vendor": text or HERE}

    def fields(self, entry: Mapping[str, Any], folder: str) -> dict[str, Any]:
        """Return the field; a site's file is relative to the folder."""
        site = entry["vendor"]
        is_file = "/" in site or site.endswith((".yaml", ".yml", ".json"))
        return {"vendor": absolute(site, folder) if is_file else site}
