"""`stackproof convert DIR...`: Stackinator recipes to one recipe of stackproof's own format."""

from __future__ import annotations

import sys

from stackproof.build.engines.spack.effects.conversion import convert_folders
from stackproof.build.options import ConvertOptions


def run(options: ConvertOptions) -> int:
    """Write the recipe, after finding out that it means the same as every DIR."""
    made = convert_folders(options)
    many = f"{made.recipes} recipes" if made.recipes > 1 else "the recipe"
    print(
        f"{made.target}: means the same as {many}; {made.lines} lines instead of "
        f"{made.lines_before}, comments not counted"
    )
    print("note: comments of the old documents are not carried over", file=sys.stderr)
    return 0
