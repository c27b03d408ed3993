"""`stackproof image edf`: what a job's container holds, as an environment definition (EDF)."""

from __future__ import annotations

import os
import sys

from stackproof.build.cli.image import chosen_view
from stackproof.build.effects import builders, locking, stacks
from stackproof.build.engine import OWN
from stackproof.build.options import EdfOptions, RecipeOptions
from stackproof.core.command import EnvPatch
from stackproof.core.effects import files
from stackproof.core.errors import Reason, StackproofError, fail
from stackproof.core.value import replace
from stackproof.image.container import edf
from stackproof.image.container.edf import JobContainer, JobContents
from stackproof.image.container.effects import roots
from stackproof.image.effects.image_file import load_image
from stackproof.mpi.transports import device
from stackproof.share.effects import naming


def run(asked: EdfOptions) -> int:
    """Write the definition; nothing is built, started or downloaded."""
    words = edf.parse_words(asked.mount, asked.env, asked.annotation)
    given = replace(words, workdir=asked.workdir or "", devices=asked.device)
    container, contents = _of(asked, given)
    whole = edf.complete(container, contents)
    lists = {*contents.env.prepend, *contents.env.append} - {"PATH", *given.env}
    for replaced in sorted(lists) if contents.whole else ():
        text = f"`{replaced}` takes the place of the container's own: `--env` sets both parts"
        print(f"note: {text}", file=sys.stderr)
    name = " ".join(asked.target.split())
    text = f"# {name}: written by `stackproof image edf`\n{edf.render(whole)}"
    if asked.output:
        files.write(asked.output, text)
        path = os.path.abspath(asked.output)
        print(f"{asked.output}: start with `srun --environment={path}`", file=sys.stderr)
    else:
        print(text, end="")
    return 0


def _of(asked: EdfOptions, given: JobContainer) -> tuple[JobContainer, JobContents]:
    """Return the container that a word means, and what is in it."""
    path = asked.target if os.path.lexists(asked.target) else _label(asked.target)
    if path and roots.is_squashfs(path):
        return _of_image(asked, given, os.path.abspath(path))
    if "#" in asked.target or "@" in asked.target:  # no recipe's name has one
        if asked.view is not None:
            raise _no_view(asked.view)
        return replace(given, image=asked.target), JobContents(gpu=asked.gpu or "")
    recipe = RecipeOptions(recipe=asked.target, site=asked.site, fact=asked.fact, swap=asked.swap)
    loaded = stacks.load_recipe(recipe)
    builder = builders.of(loaded)
    builders.refuse(builder, "containerfile")
    needs = builder.engine.container(loaded.stack, locking.need(builder, loaded, recipe))
    view = chosen_view(asked.view, loaded.stack.default_view, needs.views) or ""
    family, _, version = needs.labels.get(f"{OWN}.mpi", "").partition(" ")
    gpu = asked.gpu or needs.gpu
    contents = JobContents(
        env=needs.environments.get(view, EnvPatch()),
        gpu=gpu,
        switches=device.switches(family, version, gpu),
    )
    entrypoint = True if needs.scripts else None  # it reads the view's variables
    return replace(given, image=_base(asked), entrypoint=entrypoint), contents


def _label(word: str) -> str:
    """Return the file of a label of ours, empty for another word; a name alone is a recipe's."""
    record = naming.record_of(word) if "/" in word else None
    return record.file if record else ""


def _of_image(
    asked: EdfOptions, given: JobContainer, path: str
) -> tuple[JobContainer, JobContents]:
    """Return a container with an image of ours mounted into it, or of a container's own image."""
    try:
        image = load_image(path)
    except StackproofError as error:
        if error.reason is not Reason.IMAGE_NO_META:
            raise
        if asked.view is not None:
            raise _no_view(asked.view) from None
        return replace(given, image=edf.literal(path)), JobContents(gpu=asked.gpu or "")
    view = chosen_view(asked.view, image.default_view, tuple(image.views))
    gpu, mpi = asked.gpu or "", image.mpi
    contents = JobContents(
        env=image.views[view].env if view else EnvPatch(),
        gpu=gpu,
        switches=device.switches(mpi.family, mpi.version, gpu) if mpi else {},
        whole=True,
    )
    mounts = (f"{edf.literal(f'{path}:{image.mount}')}:sqsh", *given.mounts)
    return replace(given, image=_base(asked), mounts=mounts), contents


def _base(asked: EdfOptions) -> str:
    if asked.image is not None:
        return asked.image
    raise fail(
        Reason.USAGE,
        f"nothing says which container is started for `{asked.target}`",
        hint="name its image: `--image REGISTRY#NAME:TAG`, or a SquashFS file of Enroot",
    )


def _no_view(view: str) -> StackproofError:
    return fail(
        Reason.UNKNOWN_VIEW,
        f"there is no view `{view}` in the image of a container",
        hint="its variables are those that it was built with; `--env` sets more",
    )
