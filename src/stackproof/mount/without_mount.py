"""The way to use an image on a machine where nothing can be mounted, as words for hints.

Imports nothing: `effects/methods.py` also runs where there is no package but the standard library.
"""

PACK = (
    "without a mount: `stackproof pack IMAGE -o DIR`, then start `DIR/bin/PROGRAM`; or "
    "`stackproof install IMAGE --to DIR`"
)


def add_pack(hint: str) -> str:
    """Return a hint on how to get a mount, with the way without one behind it."""
    return f"{hint}; {PACK}"
