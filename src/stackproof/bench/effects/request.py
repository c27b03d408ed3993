"""Options of a bench to its specification, and all that it says made: here or by a batch job.

An arm may be a recipe in the place of an image. Its image is built first, and put where `stackproof
build` puts it: as NAME.squashfs into the current folder.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from stackproof.bench import arms, specifying
from stackproof.bench.effects import batch_job, kinds, planning
from stackproof.bench.effects.kinds import Tell
from stackproof.bench.effects.run import Bench, prepare, run_bench
from stackproof.bench.options import BenchOptions
from stackproof.bench.spec import Arm, BenchSpec, parse_bench
from stackproof.cluster.effects import up
from stackproof.cluster.effects.state import describe_owner
from stackproof.cluster.model import ClusterSpec
from stackproof.core import mountlist
from stackproof.core.document import Document, schema
from stackproof.core.effects import shipped
from stackproof.core.effects.documents import load
from stackproof.core.errors import Problem, Reason, StackproofError, fail
from stackproof.core.monitor import Monitor
from stackproof.core.value import Value, replace
from stackproof.image.effects.image_file import load_head
from stackproof.launch.effects import launch_folder
from stackproof.results.case import Locality
from stackproof.results.model import LAUNCHES

if TYPE_CHECKING:
    from stackproof.build.effects.loaded import Loaded

_ENDINGS = (".yaml", ".yml")
# What stands for the swapped baseline's image until there is one: no path is empty.
_SWAPPED = ""
_WITHIN = (
    "{}, so this is measured within this machine alone; with `stackproof cluster up` it is "
    "measured between two nodes as well"
)


def specification(options: BenchOptions, tell: Tell = lambda _: None) -> BenchSpec:
    """Return what the options ask to measure; `tell` gets notes on it.

    Raises `StackproofError`: USAGE, UNSUPPORTED, and what a file that is no specification raises.
    """
    specifying.refuse_changes(options)
    tell = functools.cache(tell)  # several arms may be one MPI, which is told of once
    spec = (
        batch_job.load(specifying.folder_of(options))
        if options.resume
        else _specification(options, tell)
    )
    return specifying.scheduled(spec, options)


def _specification(options: BenchOptions, tell: Tell) -> BenchSpec:
    if note := _without_cluster(options):
        options = options.changed(placements=(Locality.INTRA.value,))
        tell(note)
    if options.spec:
        specifying.refuse_short_form(options)
        folder = os.path.dirname(os.path.abspath(options.spec))
        spec = parse_bench(load(options.spec, wanted="bench"), folder=folder)
        challengers = tuple(_located(arm, folder, tell) for arm in spec.challengers)
        baseline = _located(spec.baseline, folder, tell)
        spec = replace(spec, baseline=baseline, challengers=challengers)
    elif options.baseline:
        baseline = _arm(options.baseline, tell)
        others = [_arm(text, tell) for text in options.challengers]
        if not (others or options.swapped):
            tell("no challenger is named (--challenger IMAGE): the baseline runs against itself")
        challengers = specifying.challengers(others, options)
        measured = specifying.short_form(options)
        spec = BenchSpec(baseline=baseline, challengers=challengers, **measured)
    else:
        raise fail(
            Reason.USAGE,
            "nothing to measure",
            hint="give a specification, or --baseline IMAGE --challenger IMAGE",
        )
    cpus = len(os.sched_getaffinity(0))
    changes = specifying.changes(options, cpus)
    if note := specifying.untimed_note(options, cpus):
        tell(note)
    return replace(spec, **changes)


def _without_cluster(options: BenchOptions) -> str:
    """Return the note on what stays within this machine for want of a cluster, else nothing.

    A first look is content with that, and so is a user who sees somebody else's cluster.
    """
    if not specifying.may_stay_here(options) or up.status() is not None:
        return ""
    reason = describe_owner(ClusterSpec().name) or ("no cluster is up" if options.quick else "")
    return _WITHIN.format(reason) if reason else ""


def _arm(text: str, tell: Tell) -> Arm:
    """Return the arm that `[NAME=]WHAT` means; a file that is called so is an image without NAME.

    WHAT is an image, or `KIND:…` (`stackproof.bench.arms`). Raises `StackproofError` (USAGE) for a
    name or an arm that no specification could have, and what `_located` raises.
    """
    name, mark, rest = text.partition("=")
    if not mark or "/" in name or ":" in name or os.path.exists(text):
        name, rest = "", text
    short = None if os.path.exists(rest) else arms.split_short(rest)
    kind, value = short or (arms.REGISTRY["image"], rest)
    entry = {**kind.short(value), **({"name": name} if name else {})}
    try:
        document = Document(file=text, data={"baseline": entry}, positions={})
        arm = parse_bench(document, folder=os.path.abspath("")).baseline
    except StackproofError as error:
        if name and not re.search(_pattern(), name):
            raise fail(
                Reason.USAGE,
                f"`{name}` cannot be the name of an arm",
                hint="it has letters, digits and `.`, `_`, `+`, `-`, as in new=mpich.squashfs",
            ) from None
        raise fail(
            Reason.USAGE,
            f"`{text}` is no arm: {error.problems[0].message}",
            hint="for example mpich.squashfs, prefix:/opt/mpi, module:gcc/12,intel-mpi",
        ) from None
    return _located(arm, os.path.abspath(""), tell)


def _located(arm: Arm, folder: str, tell: Tell) -> Arm:
    """Return an arm with what its words mean here; raises what its kind's reader raises."""
    return kinds.reader_of(arm).locate(arm, folder, tell)


def _pattern() -> str:
    pattern: str = schema("bench")["$defs"]["arm"]["properties"]["name"]["pattern"]
    return pattern


def measure(
    spec: BenchSpec,
    folder: Path,
    monitor: Monitor,
    *,
    command: tuple[str, ...] = (),
    give_up: bool = True,
    begin: Callable[[], float] = lambda: 1.0,
) -> bool:
    """Have every launch made that has no result in the folder yet, here or by a batch job.

    Returns false where a job was submitted that makes them later.

    `begin` is called before the first launch that is made here, when all has been checked; it
    returns how many times longer launches take than on a quiet machine.
    Raises `StackproofError` as `run_bench` and `batch_job.submit` do, and INTERRUPTED.
    """
    if spec.is_submitted:
        return not batch_job.submit(spec, folder, monitor, command=command)
    with launch_folder.held() as scratch:
        bench = prepare(spec)
        slowdown = begin()
        place = replace(bench.place, scratch=scratch)
        bench = replace(bench, place=place, slowdown=slowdown)
        _measure_here(bench, folder, monitor, command, give_up=give_up)
        planning.require_launches(bench.launches(), folder)
    return True


def _measure_here(
    bench: Bench, folder: Path, monitor: Monitor, command: tuple[str, ...], *, give_up: bool
) -> None:
    """Make the launches; raises `StackproofError` (INTERRUPTED) that says how to go on."""
    try:
        run_bench(bench, folder, monitor, command=command, give_up=give_up)
    except KeyboardInterrupt:
        launches = bench.launches()
        there = {path.name for path in (folder / LAUNCHES).glob("*.json")}
        done = sum(launch.file_name in there for launch in launches)
        raise fail(
            Reason.INTERRUPTED,
            f"interrupted; {done} of {len(launches)} launches have results in `{folder}`",
            hint="the same command makes the others",
        ) from None


class RecipeWords(Value):
    """Words that change recipes: `all` those of every arm, `swap` that of one more challenger."""

    swap: tuple[str, ...] = ()
    all: tuple[str, ...] = ()
    with_source: tuple[str, ...] = ()
    with_patch: tuple[str, ...] = ()


def build_recipes(
    spec: BenchSpec,
    words: RecipeWords,
    monitor: Monitor,
    folder: Path | None = None,
    begin: Callable[[], object] = lambda: None,
) -> BenchSpec:
    """Return a specification with images in the place of recipes; they are built for it.

    `begin` is called before the first build, where launches are made on this machine.
    With `words.swap` the baseline once more, swapped, is one more challenger, and challengers must
    be equal to the baseline. Raises `StackproofError`: USAGE where there is no recipe to change,
    and what builds raise.
    """
    folder = folder or Path.cwd()
    arms = (spec.baseline, *spec.challengers)
    recipes = {arm.image: found for arm in arms if (found := recipe_of(arm, folder))}
    given = (*words.swap, *words.all, *words.with_source, *words.with_patch)
    if given and not (recipes if not words.swap else spec.baseline.image in recipes):
        raise fail(
            Reason.USAGE,
            f"`{given[0]}` changes a recipe, and "
            + ("the baseline is none" if words.swap else "no arm is one"),
            hint="name a recipe in the place of its image, such as `--baseline openmpi.yaml`",
        )
    if not recipes:
        return spec
    from stackproof.build.effects import images  # noqa: PLC0415 - for recipes alone

    wanted: dict[str, tuple[str, tuple[str, ...]]] = {
        image: (recipe, ()) for image, recipe in recipes.items()
    }
    if words.swap:
        wanted[_SWAPPED] = (recipes[spec.baseline.image], words.swap)
    loaded = _all_loaded(arms, wanted, words)
    if not spec.is_submitted:
        begin()
    files = {
        image: os.fspath(images.make_image(one, monitor, folder).absolute())
        for image, one in loaded.items()
    }
    other = files.pop(_SWAPPED, "")
    baseline, *challengers = (replace(arm, image=files.get(arm.image, arm.image)) for arm in arms)
    if not words.swap:
        return replace(spec, baseline=baseline, challengers=tuple(challengers))
    name = f"{baseline.name}-swapped" if baseline.name else ""
    swapped = replace(baseline, image=other, name=name)
    return replace(spec, baseline=baseline, challengers=(*challengers, swapped), equal=True)


def _all_loaded(
    arms: Sequence[Arm], wanted: Mapping[str, tuple[str, tuple[str, ...]]], words: RecipeWords
) -> dict[str, Loaded]:
    """Return the recipes by what stands for their images; a build takes minutes, a look does not.

    Raises `StackproofError` with what is wrong with each of them, and with the images of other arms
    that are not there.
    """
    from stackproof.build.effects import images  # noqa: PLC0415 - for recipes alone
    from stackproof.build.options import RecipeOptions  # noqa: PLC0415 - as above

    found: dict[str, Loaded] = {}
    problems: list[Problem] = []
    for arm in arms:
        try:
            if arm.image and arm.image not in wanted:
                load_head(mountlist.split(arm.image)[0])
        except StackproofError as error:
            problems += error.problems
    for image, (recipe, more) in wanted.items():
        try:
            found[image] = images.load_for_here(
                RecipeOptions(
                    recipe=recipe,
                    swap=(*words.all, *more),
                    with_source=words.with_source,
                    with_patch=words.with_patch,
                )
            )
        except StackproofError as error:
            problems += error.problems
    if problems:
        raise StackproofError(*problems)
    return found


def recipe_of(arm: Arm, folder: Path) -> str:
    """Return the recipe that an arm names in the place of an image, empty for none."""
    if os.path.isfile(arm.image):
        return arm.image if arm.image.endswith(_ENDINGS) else ""
    word = os.path.relpath(arm.image, folder) if arm.image else ""
    return word if word in shipped.names("recipes") and not os.path.exists(arm.image) else ""
