"""`stackproof plan RECIPE`: the resolved stack and every step, before anything is done."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from stackproof import noun
from stackproof.cli import progress, stacks
from stackproof.cli.loaded import Loaded
from stackproof.errors import StackproofError
from stackproof.ids import short
from stackproof.plan import Plan, Step
from stackproof.stack import Lock

if TYPE_CHECKING:  # what one kind of recipe needs is imported where it is planned
    from stackproof.engines.easybuild.stack import EasyBuildLock
    from stackproof.spackstack import GitSource, LockedClone, SpackLock, SpackStack

_FULL_COMMIT = re.compile(r"[0-9a-f]{40}")
_SOLVE_FIRST = (
    "the steps of the build follow from the lock: `stackproof build --stop-after lock` makes it"
)


def run(args: argparse.Namespace) -> int:
    """Print the plan, or where a value is from; nothing is written.

    A recipe for wheels without a lock is looked up in the package index. One for Spack is not
    solved here, which takes minutes: without a lock there are the steps that make it.
    """
    loaded = stacks.load_recipe(args)
    if args.explain is not None:
        from stackproof.cli import origins  # noqa: PLC0415 - only with --explain

        return origins.show(loaded, args)
    if loaded.for_spack:
        _plan_spack(loaded, as_json=args.json)
    elif loaded.for_easybuild:
        _plan_easybuild(loaded, args)
    else:
        _plan_wheel(loaded, as_json=args.json)
    return 0


def _plan_wheel(loaded: Loaded, *, as_json: bool) -> None:
    from stackproof.cli import wheel  # noqa: PLC0415 - only for wheels
    from stackproof.planner import describe, plan, transports_of  # noqa: PLC0415 - as above

    lock = wheel.valid_lock(loaded) or wheel.make_lock(loaded, progress.monitor())
    made = plan(loaded.wheel, lock, loaded.sources)
    progress.print_notes(*loaded.notes, *transports_of(loaded.wheel, lock).notes)
    if as_json:
        _print_json(loaded, lock, made, known=True)
        return
    stack = loaded.wheel
    rows = [
        ("stack", f"{stack.name} {stack.version}  {stack.description}"),
        ("engine", stack.engine),
        ("machine", f"{stack.architecture}, {stack.site_facts.get('compiler', '')}"),
        ("mount", stack.mount),
        ("views", ", ".join(describe(stack, lock).views)),
    ]
    rows += [("file", f"{a.filename}  sha256 {a.sha256}") for a in lock.artefacts]
    _print_rows([*rows, ("plan", short(made.id))])
    _print_steps(made.steps)


def _plan_easybuild(loaded: Loaded, args: argparse.Namespace) -> None:
    from stackproof.cli import easybuild  # noqa: PLC0415 - only for such stacks
    from stackproof.engines.easybuild import metadata  # noqa: PLC0415 - as above

    stack = loaded.easybuild
    lock, stale = easybuild.find_lock(loaded)
    progress.print_notes(*loaded.notes, *stale)
    lock = lock or easybuild.solve(loaded, args.mirror, progress.monitor())
    made = easybuild.plan(loaded, lock)
    progress.print_notes(*metadata.transports_of(stack).notes)
    if args.json:
        _print_json(loaded, lock, made, known=True)
        return
    rows = [
        ("stack", f"{stack.name} {stack.version}  {stack.description}".rstrip()),
        ("engine", f"easybuild {stack.easybuild}"),
        ("machine", f"{stack.architecture}, {stack.site_facts.get('compiler', '')}"),
        ("optarch", stack.optarch),
        ("mount", stack.mount),
        ("views", ", ".join(metadata.describe(stack, lock).views)),
    ]
    for one in lock.components:
        rows.append(("component", f"{one.module}  {one.licence}".rstrip()))
        rows += [
            ("file", f"{source.filename}  sha256 {source.accepted[0].sha256}")
            for source in one.sources
        ]
    rows += [("left out", f"{one.component}: {one.reason}") for one in lock.left_out]
    rows += [("note", text) for text in lock.notes]
    _print_rows([*rows, ("plan", short(made.id))])
    _print_steps(made.steps)


def _plan_spack(loaded: Loaded, *, as_json: bool) -> None:
    from stackproof.cli import spack  # noqa: PLC0415 - only for Spack stacks
    from stackproof.engines import spack as engine  # noqa: PLC0415
    from stackproof.engines.spack import metadata  # noqa: PLC0415
    from stackproof.host import shipped  # noqa: PLC0415

    stack = loaded.spack
    found = engine.problems(stack)
    if found:
        raise StackproofError(*found)
    lock, stale = spack.find_lock(loaded)
    progress.print_notes(*loaded.notes, *stale)
    if lock is not None:
        csrc = shipped.benchmark_sources()
        made, known = engine.build_plan(stack, lock, loaded.caches, csrc=csrc), True
        if stack.transports:
            progress.print_notes(*metadata.transports_of(stack, lock).notes)
    else:
        clones = tuple(clones_as_named(stack))
        made = engine.lock_plan(stack, clones)
        known = all(_FULL_COMMIT.fullmatch(clone.commit) for clone in clones)
    if as_json:
        _print_json(loaded, lock, made, known=known)
        return
    _print_rows(_spack_rows(loaded, lock))
    _print_rows([("plan", short(made.id) if known else "to make the lock")])
    _print_steps(made.steps, known=known)
    if lock is None:
        print(f"note: {_SOLVE_FIRST}", file=sys.stderr)
    if not known:
        text = "ids are known once branches and tags have been looked up, as for the lock"
        print(f"note: {text}", file=sys.stderr)


def clones_as_named(stack: SpackStack) -> Iterator[LockedClone]:
    """Yield the repositories as the recipe names them: what a branch or tag is now is not asked."""
    from stackproof.spackstack import LockedClone  # noqa: PLC0415 - only for Spack stacks

    wanted = [("spack", stack.spack, "spack")]
    wanted += [(r.name, r.source, f"repos/{r.name}") for r in stack.package_repositories]
    for name, source, folder in wanted:
        ref = source.commit or "HEAD"
        yield LockedClone(name=name, url=source.url, ref=ref, commit=ref, folder=folder)


def _spack_rows(loaded: Loaded, lock: SpackLock | None) -> Iterator[tuple[str, str]]:
    """Yield what is known of a Spack stack, a word and a line for each."""
    stack = loaded.spack
    yield "stack", f"{stack.name} {stack.version}  {stack.description}".rstrip()
    yield "engine", f"spack, generation {stack.generation}"
    target = f", {stack.target}" if stack.target else ""
    yield "machine", f"{stack.architecture}{target}"
    yield "mount", stack.mount
    commits = {clone.name: clone.commit for clone in lock.clones} if lock else {}
    yield "spack", _source(stack.spack, commits.get("spack"))
    for repository in stack.package_repositories:
        where = _source(repository.source, commits.get(repository.name))
        yield "packages", f"{repository.name}  {where}"
    for local in stack.local_repositories:
        names = dict.fromkeys(path.split("/")[1] for path in local.files)
        yield "packages", f"{local.namespace}  {', '.join(names)}"
    for accepted in stack.os_sources:
        origin = f"{accepted.suite}: {accepted.source} {accepted.source_version}"
        yield "os source", f"{accepted.name} {accepted.version}  {origin}, {short(accepted.sha256)}"
    for compiler in stack.compilers:
        specs = "  ".join(compiler.specs)
        yield "compiler", f"{compiler.name}  {specs or 'of the machine'}"
    outside = sorted(name for name, body in stack.packages.items() if _is_outside(body))
    if outside:
        yield "external", ", ".join(outside)
    for environment in stack.environments:
        yield "environment", f"{environment.name}  {', '.join(environment.compilers)}"
        yield from (("spec", spec) for spec in environment.specs)
        yield from (("variant", text) for text in environment.variants)
        yield from (("view", view.name) for view in environment.views)
    hooks = (("pre-install", stack.pre_install), ("post-install", stack.post_install))
    yield from (("hook", name) for name, text in hooks if text is not None)
    yield "lock", str(loaded.lock_path) if lock else "none that answers the recipe"


def _source(source: GitSource, commit: str | None) -> str:
    at = source.commit or "the default branch"
    return f"{source.url} at {at}" + (f", {short(commit)}" if commit and commit != at else "")


def _is_outside(body: Any) -> bool:
    return isinstance(body, Mapping) and bool(body.get("externals"))


def _print_rows(rows: Sequence[tuple[str, str]] | Iterator[tuple[str, str]]) -> None:
    for word, text in rows:
        print(f"{word:<12} {text}".rstrip())


def _print_steps(steps: tuple[Step, ...], *, known: bool = True) -> None:
    width = max((len(step.name) for step in steps), default=0)
    for number, step in enumerate(steps, 1):
        name = short(step.id) if known else "-" * len(short(step.id))
        print(f"{number:>3}. {name}  {step.name:<{width}}  {step.description}".rstrip())


def _print_json(
    loaded: Loaded, lock: Lock | SpackLock | EasyBuildLock | None, made: Plan, *, known: bool
) -> None:
    """Print everything; an id that depends on what has not been looked up yet is null."""
    data = {
        "schema": made.SCHEMA,
        "id": made.id if known else None,
        "stack": noun.to_data(loaded.stack),
        "lock": noun.to_data(lock) if lock else None,
        "steps": [{**noun.to_data(step), "id": step.id if known else None} for step in made.steps],
    }
    print(noun.to_json(data), end="")
