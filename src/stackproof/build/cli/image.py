"""`stackproof image`: images listed; a locked recipe as a recipe for container builders."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from stackproof.build import containerfile
from stackproof.build.containerfile import ContainerfileRequest, Files
from stackproof.build.effects import builders, contexts, locking, stacks, visible
from stackproof.build.effects.loaded import Loaded
from stackproof.build.engine import OCI, OWN, Container
from stackproof.build.options import ContainerfileOptions
from stackproof.core import ids, noun
from stackproof.core.cli import progress
from stackproof.core.command import EnvPatch
from stackproof.core.effects import files
from stackproof.core.effects.sandbox import packages
from stackproof.core.errors import Problem, Reason, StackproofError, fail
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
    lock = locking.need(builder, loaded)
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
        contexts.write_folder(Path(asked.folder), context)
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
