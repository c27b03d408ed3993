"""The image of a recipe: its lock found or made, its plan run, and the file put where it is wanted.

What `build` does, and what other verbs do that are given a recipe in the place of an image.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from stackproof.build.effects import builders, cache_entries, locking, stacks
from stackproof.build.effects.executor import Built, deliver, execute
from stackproof.build.effects.loaded import Loaded
from stackproof.build.options import BuildOptions, RecipeOptions
from stackproof.build.swap import Depth
from stackproof.core import ids, noun
from stackproof.core.effects import documents, files, outputs
from stackproof.core.errors import Location, Problem, Reason, StackproofError, fail
from stackproof.core.monitor import Event, Monitor
from stackproof.core.value import Value, replace
from stackproof.image.effects import meta_files
from stackproof.image.effects.image_file import load_described, load_image
from stackproof.inject.options import CheckOptions, ProgramOptions
from stackproof.site.effects import toolchain

_RECIPE = "meta/recipe/"


def load_for_here(recipe: RecipeOptions) -> Loaded:
    """Return a recipe whose image this machine can build; raises `StackproofError` otherwise."""
    loaded = stacks.load_recipe(recipe)
    check_machine(loaded)
    return loaded


def make_image(loaded: Loaded, monitor: Monitor, target: Path | None = None) -> Path:
    """Build the image of a recipe as `build` does by itself; return its file.

    `target` is the folder that it is put into as NAME.squashfs; without it the file is that of the
    cache. Raises what a build raises.
    """
    tell_swaps(loaded, monitor)
    built, _ = made(loaded, BuildOptions(), monitor)
    if built is None:
        raise TypeError("a build that does not stop makes an image")
    if target is None:
        return built.path
    return put(built, loaded, target / f"{loaded.stack.name}.squashfs", monitor)[0]


def write_recipe_of(image: str, folder: Path) -> Path:
    """Write the recipe that an image carries into a folder; return its file.

    Raises `StackproofError`: IMAGE_NO_META for an image that says not how it was built, and
    UNSUPPORTED where its recipe alone does not say what is in it.
    """
    held = _load_recipe_files(image)
    names = [name for name in held if name.endswith((".yaml", ".yml")) and "/" not in name]
    if len(names) != 1 or len(held) != 1:
        why = "it was made of several files" if held else "it carries none"
        raise _no_recipe(image, why)
    path = folder / names[0]
    files.write(path, held[names[0]])
    data = documents.load(os.fspath(path)).data
    missing = [key for key in ("inherit", "programs") if isinstance(data, dict) and key in data]
    if missing:
        raise _no_recipe(image, f"its `{missing[0]}` names files that the image does not hold")
    return path


def _load_recipe_files(image: str) -> dict[str, bytes]:
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


def _no_recipe(image: str, why: str) -> StackproofError:
    return fail(
        Reason.UNSUPPORTED,
        f"the recipe of image `{image}` cannot be built from the image alone: {why}",
        where=Location(file=image),
        hint="name the recipe in the place of the image; it is built then",
    )


class LockUse(Value):
    """The use of a lock: made again, never made, or made and nothing else."""

    update: bool = False
    locked: bool = False
    only: bool = False


def made(
    loaded: Loaded,
    options: BuildOptions,
    monitor: Monitor,
    *,
    use: LockUse | None = None,
    site: str | None = None,
    tell: Callable[..., None] = lambda *_: None,
) -> tuple[Built | None, str]:
    """Return the image, none where only the lock is asked for, and the digest of the lock.

    `tell` gets the notes on the stack (`Problem`), and what the image will lack on `site`.
    """
    use = use or LockUse()
    builder = builders.of(loaded)
    engine = builder.engine
    before = None if use.update else locking.find(builder, loaded)[0]
    builders.refuse_wrong(engine.problems(loaded.stack, before, loaded.where))
    builders.refuse_wrong(builder.check(loaded, before, whole=False))
    lock = locking.ensure(builder, loaded, options, monitor, update=use.update, locked=use.locked)
    digest = ids.content_id(noun.to_data(lock))
    found = builders.refuse_wrong(builder.check(loaded, lock, whole=False))
    notes: tuple[Problem, ...] = found.notes
    tell(*notes)
    if use.only:
        return None, digest
    plan = engine.plan(loaded.stack, lock, loaded.sources)
    floor = ""
    if options.floor is not None or site is not None:
        from stackproof.build.effects import glibc  # noqa: PLC0415 - slow, and for these alone

        floor = glibc.read_floor(options.floor, loaded, plan) if options.floor is not None else ""
        lacking = glibc.ask(loaded, plan, site, locked=True)
        tell(*(lacking.notes if lacking else ()))
    setup = builder.setup(loaded, lock, plan, options, monitor)
    built = execute(plan, monitor, setup=replace(setup, origin=loaded.origin))
    if floor:
        glibc.refuse_newer(os.fspath(built.path), floor)
    if any(swap.depth is Depth.INJECT for swap in loaded.swaps):
        check_injected(os.fspath(built.path))
    return built, digest


def check_injected(image: str) -> None:
    """Judge whether the benchmarks of an image run on the MPI that is put under them.

    Raises `StackproofError` (INJECTION_FAILS) with all reasons why they do not.
    """
    # Slow, and for injections alone.
    from stackproof.inject.effects import check, wanted  # noqa: PLC0415

    programs = {one.path for one in load_image(image).benchmarks}
    if not programs:
        return
    of = ProgramOptions(programs=(image,))
    question = check.question_of(of, CheckOptions())
    judged = (one for _, one in check.judge_named(of, image, question))
    wanted.refuse([one for one in judged if one.program in programs], accept_unknown=True)


def put(built: Built, loaded: Loaded, target: Path, monitor: Monitor) -> tuple[Path, bool]:
    """Put an image and the record of its digest where they are wanted.

    Return the file, and whether it was not there already. `monitor` gets a note where an image of
    another recipe or lock was there.
    """
    place = Path(outputs.claim(target, "image", inputs=[loaded.lock_path]))
    before = _describe_difference(place, built.path)
    written = deliver(built, place)
    if written and before:
        monitor(Event(what="note", name=target.name, text=f"replaces an image of another {before}"))
    outputs.write(record_of(place), f"{built.sha256}  {place.name}\n", "digest")
    for name in cache_entries.give_up_superseded(built.home):
        text = f"{name}, which newer builds of this recipe took the place of"
        monitor(Event(what="note", name="removed", text=text))
    return place, written


def _describe_difference(old: Path, new: Path) -> str:
    """Return in what an image that will be replaced is another one; empty where it is not."""
    try:
        if not old.stat().st_size:
            return ""
        before, after = (load_described(os.fspath(path)) for path in (old, new))
    except (OSError, StackproofError):  # there is none, or it says nothing of itself
        return ""
    if before.lock_digest != after.lock_digest:
        return f"lock: {before.name}, lock {ids.short(before.lock_digest) or 'not known'}"
    return f"recipe: {before.name}" if before.stack_id != after.stack_id else ""


def record_of(image: Path) -> Path:
    """Return the file beside an image that holds its digest, for `inspect --verify`."""
    return image.with_name(image.name + files.DIGEST_SUFFIX)


def tell_swaps(loaded: Loaded, monitor: Monitor) -> None:
    """Say how deep each swap of a recipe goes."""
    for swap in loaded.swaps:
        monitor(Event(what="note", name="swap", text=str(swap)))


def check_machine(loaded: Loaded) -> None:
    """Raise `StackproofError` (UNSUPPORTED) for an image of another machine than builds it."""
    here = toolchain.architecture()
    if loaded.stack.architecture != here:
        raise fail(
            Reason.UNSUPPORTED,
            f"this machine is {here}; an image for {loaded.stack.architecture} is built on such a "
            "machine",
            hint="`stackproof plan --site` works anywhere; run `build` at the site",
        )
