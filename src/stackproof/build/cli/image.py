"""`stackproof image`: images listed; a locked recipe as a recipe for container builders."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import tempfile
from pathlib import Path

from stackproof.build import containerfile
from stackproof.build.containerfile import ContainerfileRequest, Context, Files
from stackproof.build.effects import builders, locking, stacks, visible
from stackproof.build.effects.loaded import Loaded
from stackproof.build.engine import OCI, OWN, Container
from stackproof.build.options import ContainerfileOptions
from stackproof.core import ids, noun
from stackproof.core.cli import progress
from stackproof.core.command import EnvPatch
from stackproof.core.effects import files, outputs
from stackproof.core.effects.sandbox import packages
from stackproof.core.errors import Location, Problem, Reason, StackproofError, fail
from stackproof.core.value import replace


def run(asked: ContainerfileOptions) -> int:
    """Write the Containerfile; nothing is built, and nothing is downloaded."""
    loaded = stacks.load_recipe(asked.recipe)
    faults = _faults(asked)
    if faults:
        raise StackproofError(*faults)
    stack, builder = loaded.stack, builders.of(loaded)
    builders.refuse(builder, "containerfile")
    builders.refuse_wrong(builder.engine.problems(stack, None, loaded.where))
    lock = locking.need(builder, loaded, asked.recipe)
    needs = builder.engine.container(stack, lock)
    view = chosen_view(asked.view, stack.default_view, needs.views) or ""
    progress.print_notes(*needs.notes)
    # Caches are this machine's own; a container gets sources from where they are published.
    plan = builder.engine.plan(stack, lock, replace(loaded.sources, caches=None))
    labels = {
        f"{OCI}.title": stack.name,
        f"{OCI}.version": stack.version,
        f"{OCI}.description": " ".join(stack.description.split()),
        f"{OCI}.base.name": asked.base.partition("@")[0],
        f"{OCI}.base.digest": asked.base.partition("@")[2],
        f"{OWN}.plan": plan.id,
        f"{OWN}.lock": ids.content_id(noun.to_data(lock)),
        f"{OWN}.mount": stack.mount,
        **needs.labels,
    }
    found = (package for name in needs.builder_programs for package in packages(name))
    wish = ContainerfileRequest(
        base=asked.base,
        builder=asked.builder_base or asked.base,
        architecture=stack.architecture,
        packages=asked.package,
        builder_packages=(*found, *asked.builder_package),
        environment=needs.environments.get(view, EnvPatch()),
        activate=needs.scripts.get(view, ""),
        labels={key: value for key, value in labels.items() if value},
    )
    carried = _carried(needs, loaded)
    if asked.folder is not None:
        context = containerfile.render_folder(plan, wish, needs, carried)
        write_folder(Path(asked.folder), context)
        print(f"{asked.folder}: {stack.name} {stack.version} on {asked.base}", file=sys.stderr)
        print(f"next: buildah bud -t {stack.name} {shlex.quote(asked.folder)}", file=sys.stderr)
        return 0
    text = containerfile.render(plan, wish, needs, carried)
    if asked.output:
        files.write(asked.output, text)
        print(f"{asked.output}: {stack.name} {stack.version} on {asked.base}", file=sys.stderr)
    else:
        print(text, end="")
    return 0


def _carried(needs: Container, loaded: Loaded) -> Files:
    """Return the texts of our programs that a build runs, and the files of the recipe."""
    ours = visible.programs()
    return Files(
        programs={name: ours[name].read_text(encoding="utf-8") for name in needs.programs},
        blobs={digest: path.read_bytes() for digest, path in loaded.blobs.items()},
    )


def _faults(asked: ContainerfileOptions) -> tuple[Problem, ...]:
    """Return everything that is wrong with the options."""
    bases = [asked.base, *filter(None, [asked.builder_base])]
    packages = [*asked.package, *asked.builder_package]
    checks = ((containerfile.check_base, bases), (containerfile.check_package, packages))
    found: list[Problem] = []
    if asked.output is not None and asked.folder is not None:
        found.append(
            Problem(
                reason=Reason.USAGE,
                message="`-o` and `--folder` are two ways to write one Containerfile",
                hint="leave one of them out",
            )
        )
    for check, words in checks:
        for word in words:
            try:
                check(word)
            except StackproofError as error:
                found += error.problems
    return tuple(found)


def chosen_view(asked: str | None, default: str | None, names: tuple[str, ...]) -> str | None:
    """Return the name of the view to set; None where there is none and none is asked for."""
    if asked is not None and asked not in names:
        raise fail(
            Reason.UNKNOWN_VIEW,
            f"the recipe has no view `{asked}`",
            hint=f"views are: {', '.join(names) or 'none'}",
        )
    return asked or default or next(iter(names), None)


def write_folder(folder: Path, context: Context) -> None:
    """Write a context to a folder that is new or empty.

    Raises `StackproofError`: NOT_REPLACED for anything else that is there, NOT_PERMITTED,
    DISK_FULL; nothing half-written is left.
    """
    temporary = ""
    try:
        if os.path.lexists(folder) and (not folder.is_dir() or any(folder.iterdir())):
            raise fail(
                Reason.NOT_REPLACED,
                f"`{folder}` is there, and no empty folder",
                where=Location(file=str(folder)),
                hint="name another folder, or move this one away first",
            )
        place = Path(outputs.follow_own_link(os.fspath(folder))).absolute()
        place.parent.mkdir(parents=True, exist_ok=True)
        temporary = tempfile.mkdtemp(dir=place.parent, prefix=f".{place.name}.")
        root = Path(temporary)
        for path, content in {"Containerfile": context.text.encode(), **context.files}.items():
            target = root / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
            target.chmod(0o755 if path in context.executable else 0o644)
        for name, _, _ in os.walk(root):
            os.chmod(name, 0o755)  # noqa: S103 - a builder gives these modes to the container
        os.rename(root, place)
        temporary = ""
    except OSError as error:
        raise files.translate(error, folder) from error
    finally:
        if temporary:
            shutil.rmtree(temporary, ignore_errors=True)
