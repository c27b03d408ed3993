"""`stackproof pack IMAGE|RECIPE [PROGRAM …] -o FILE`: a stack that runs where it is copied to."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from stackproof.build.effects import images
from stackproof.build.options import RecipeOptions
from stackproof.core import noun
from stackproof.core.cli import progress
from stackproof.core.effects import shipped
from stackproof.core.errors import Problem, Reason, fail
from stackproof.image.container.effects import roots
from stackproof.mpi import families
from stackproof.pack.effects import deliver
from stackproof.pack.effects.make import PackWishes
from stackproof.pack.model import SPARE, Moved, Pack, TextKind
from stackproof.pack.options import PackOptions
from stackproof.share.effects import naming

_NOT_HANDED_ON = Problem(
    reason=Reason.NOT_PERMITTED,
    message="the image holds files that may not be handed on to others, and so does the pack",
    hint="copy it to machines only where you may use these files",
)


def run(asked: PackOptions) -> int:
    """Make a pack, or show what would be done for it."""
    if not asked.output and not asked.explain:
        raise fail(Reason.USAGE, "nothing says where the pack is to be", hint="name it: -o FILE")
    if asked.output and asked.explain:
        raise fail(Reason.USAGE, "`--explain` writes nothing", hint="leave out -o, or --explain")
    wishes = PackWishes(
        programs=asked.programs,
        entries=dict(_pair(word, "--entry") for word in asked.entry),
        symlinks=dict(_pair(word, "--symlink") for word in asked.symlink),
        view=asked.view,
        tier=asked.tier,
    )
    image = _locate(asked.image)
    if not (image.endswith(".squashfs") or roots.is_squashfs(image)):
        image = _build_image(image, asked)
    elif asked.swap or asked.with_source or asked.with_patch:
        with tempfile.TemporaryDirectory() as folder:
            image = _build_image(os.fspath(images.write_recipe_of(image, Path(folder))), asked)
    if asked.output:
        target = deliver.Delivery(
            output=asked.output, format=asked.format, provenance=asked.provenance
        )
        pack, size = deliver.write_pack(image, wishes, target)
        said = [_summary(asked.output, pack, size)]
    else:
        pack = deliver.explain_pack(image, wishes)
        said = [*explain_pack(pack)]
    if not pack.redistribute:
        progress.print_notes(_NOT_HANDED_ON)
    for text in pack.notes:
        progress.print_notes(Problem(reason=Reason.UNDECIDED, message=text))
    print(noun.to_json(pack) if asked.json else "\n".join(said), end="" if asked.json else "\n")
    return 0


def _build_image(recipe: str, words: PackOptions) -> str:
    """Return the image of a recipe, built with the words that change it."""
    options = RecipeOptions(
        recipe=recipe,
        site=words.site,
        fact=words.fact,
        swap=words.swap,
        with_source=words.with_source,
        with_patch=words.with_patch,
    )
    return os.fspath(images.make_image(images.load_for_here(options), progress.monitor()))


def _locate(word: str) -> str:
    """Return the file of a label; a word that is a file, a folder or a recipe as it is.

    Raises `StackproofError` (IMAGE_MISSING) for a word that is nothing of all that.
    """
    is_recipe = word.endswith((".yaml", ".yml")) or word in shipped.names("recipes")
    return word if is_recipe or os.path.exists(word) else naming.image_file(word)


def _pair(word: str, option: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    if not (equals and name and value) or (option == "--entry" and "/" in name):
        raise fail(Reason.USAGE, f"`{option} {word}` is not NAME=VALUE", hint=f"see {option}")
    return name, value


def _summary(output: str, pack: Pack, size: int) -> str:
    kinds = Counter(one.kind for one in pack.moved)
    moved = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    tier = f"\n  {_tier(pack)}" if pack.tier else ""
    return (
        f"{output}  {size / 1e6:.1f} MB, {len(pack.programs)} programs, "
        f"glibc 2.{pack.floor} or its own, tree {pack.tree[:12]}\n"
        f"  moved: {moved or 'nothing named the old place'}{tier}{describe_start(pack)}"
    )


def describe_start(pack: Pack) -> str:
    """Return the line that says how ranks start, empty for a pack without an MPI.

    A wrong `--mpi` of srun gives each rank a world of its own.
    """
    if pack.mpi is None:
        return ""
    program = f"bin/{pack.main or 'PROGRAM'}"
    ways = [f"bin/mpiexec -n 2 {program}"] if "mpiexec" in pack.programs else []
    if pmi := families.pmi_of(pack.mpi.family, "srun"):
        ways.append(f"srun --mpi={pmi} {program}")
    return f"\n  start: {', or in Slurm '.join(ways)}" if ways else ""


def _tier(pack: Pack) -> str:
    if pack.mounting is None:
        return (
            "tier 0: no namespace and no mount, as every program finds what it needs by its own "
            "place"
        )
    return (
        f"tier 1: the stack is mounted at {pack.mounting.place} for the ranks of a node, as "
        f"{pack.mounting.because}; machines must permit user namespaces"
    )


def explain_pack(pack: Pack) -> Iterator[str]:
    """Yield the lines of `--explain`: tier, loader, libraries, and every text that was moved."""
    yield _tier(pack)
    yield (
        f"loader: that of a machine with glibc 2.{pack.floor} or newer; on others the pack's own, "
        f"of glibc {pack.origin.glibc}"
    )
    yield f"programs: {', '.join(pack.programs)}"
    spare = [path for path in pack.libraries if path.startswith(f"{SPARE}/")]
    carried = [path for path in pack.libraries if path.startswith("lib/") and path not in spare]
    yield f"from this machine: {', '.join(carried) or 'only its C library'}"
    if spare:
        yield f"for machines that lack one of them: {', '.join(spare)}"
    for name, file in pack.missing.items():
        yield f"left to the machine: {name}, for {file}"
    for one in pack.moved:
        yield from _line(one)


def _line(one: Moved) -> Iterator[str]:
    if one.kind is TextKind.DEBUG:
        return
    yield f"{one.file} at {one.offset}: {one.kind}: {one.text}"
    yield f"  {one.done}"
