"""Known faults of a loaded Spack stack: conflicts, and packages that hide others of their name."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterator
from pathlib import Path

from stackproof.build.effects.loaded import Loaded
from stackproof.build.engines.spack import conflicts, environment_file
from stackproof.build.engines.spack.effects import stackinator
from stackproof.build.engines.spack.stack import SpackLock, SpackStack
from stackproof.build.engines.spack.stackinator.cluster import SITE, package_names, shadowed
from stackproof.core.effects import documents, shipped
from stackproof.core.errors import Location, Problem, Reason, StackproofError, did_you_mean

FILE = "conflicts.yaml"
ENVIRONMENTS = "environments.yaml"
_OF_SPACK = frozenset(("spack", "spack-packages", "spack-compilers", "spack-file"))
FIRST_PACKAGES = "var/spack/repos/builtin/packages"
"""Where Spack up to 0.23 has its packages."""


def conflict_problems(
    loaded: Loaded, lock: SpackLock | None
) -> tuple[tuple[Problem, ...], tuple[Problem, ...]]:
    """Return what must be refused and what should be known, by the versions asked for or locked.

    A recipe of our own format can accept a conflict by its id. Recipes of Stackinator's formats
    have no word for that: there every conflict is a note.
    """
    known = load_conflicts()
    document = loaded.document
    accepted = () if document is None else tuple(document.data.get("accept", ()))
    found = conflicts.find(loaded.stack, lock, known)
    problems, notes = conflicts.split(found, accepted, _places(loaded))
    if document is None:
        return (), (*problems, *notes)
    ids = [conflict.id for conflict in known]
    unknown = (
        document.problem(
            ("accept", index),
            f"`{name}` is not a known conflict",
            did_you_mean(name, ids).strip() or f"they are: {', '.join(ids)}",
        )
        for index, name in enumerate(accepted)
        if name not in ids
    )
    return (*problems, *unknown), notes


def environment_problems(path: str) -> tuple[Problem, ...]:
    """Return the known faults of files of Spack and of a Stackinator recipe of 2023.

    A file that is no YAML is a fault itself, a template is not.
    """
    kind = documents.kind_of(path)
    try:
        if kind == "stackinator-2023" and os.path.isdir(path):
            old = stackinator.load_documents(path, ("packages.yaml", "compilers.yaml"))
            return environment_file.judge_old(*old.values()) if len(old) > 1 else ()
        if kind not in _OF_SPACK:
            return ()
        file = os.path.join(path, environment_file.NAME) if os.path.isdir(path) else path
        beside = os.path.join(os.path.dirname(file), "compilers.yaml")
        others = [beside] if kind == "spack-packages" and os.path.isfile(beside) else []
        return environment_file.judge_spack(
            documents.load(file), load_conflicts(), *map(documents.load, others)
        )
    except StackproofError as error:
        return tuple(
            p for p in error.problems if p.reason is Reason.YAML_SYNTAX and not _is_template(p)
        )


def _is_template(problem: Problem) -> bool:
    """Look for marks of Jinja in the file of a problem."""
    text = Path(problem.where.file).read_text("utf-8", "replace") if problem.where else ""
    return "{%" in text or "{{" in text


@functools.cache
def load_conflicts() -> tuple[conflicts.Conflict, ...]:
    """Return the known conflicts between packages."""
    return conflicts.parse_conflicts(
        documents.load(str(shipped.find("knowledge", FILE)), ours=True)
    )


def shadow_notes(loaded: Loaded, lock: SpackLock | None) -> Iterator[Problem]:
    """Yield a note for each repository of which the recipe's own packages hide some.

    What the cloned repositories hold is known where this machine has them, as after a lock.
    """
    own = _own_packages(loaded.stack)
    for name, names in _other_packages(loaded.stack, lock) if own else ():
        hidden = shadowed(own, names)
        if hidden:
            yield Problem(
                reason=Reason.INVALID_VALUE,
                message=f"the recipe's own packages take the place of those in `{name}`: "
                f"{', '.join(hidden)}",
                hint="rename them, or keep in mind that what is newer there is not used",
                where=Location(file=_packages_place(loaded, hidden[0])),
            )


def _own_packages(stack: SpackStack) -> tuple[str, ...]:
    """Return the packages that travel with a recipe; its `repo` is among its files."""
    own = (path for path in stack.recipe_files if path.startswith("repo/packages/"))
    return package_names(path.removeprefix("repo/") for path in own)


def _other_packages(
    stack: SpackStack, lock: SpackLock | None
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the other repositories with the packages that they are known to have."""
    commits = {clone.name: clone.commit for clone in lock.clones} if lock else {}
    if stack.generation == 1:
        ref = commits.get("spack", stack.spack.commit)
        yield "builtin", _listed(stack.spack.url, ref, FIRST_PACKAGES)
    else:
        for local in stack.local_repositories:
            if local.namespace == SITE:
                yield SITE, package_names(local.files)
    for repository in stack.package_repositories:
        ref = commits.get(repository.name, repository.source.commit)
        names = _listed(repository.source.url, ref, f"{repository.path}/packages")
        yield repository.name, names


def _listed(url: str, ref: str | None, folder: str) -> tuple[str, ...]:
    """Return the packages of a repository that this machine has; what is wrong with it is not ours.

    A mirror that is not there is an error of the build, which needs it.
    """
    from stackproof.build.effects import git  # noqa: PLC0415 - only where a recipe has its own packages

    with contextlib.suppress(StackproofError):
        return git.listed(url, ref, folder)
    return ()


def _packages_place(loaded: Loaded, name: str) -> str:
    """Return the file of one of the recipe's packages, for people."""
    if loaded.document is None:
        return str(loaded.path / "repo" / "packages" / name)
    folder = loaded.document.data.get("repo") or "repo"
    return str(loaded.path.parent / folder / "packages" / name)


def _places(loaded: Loaded) -> dict[str, Location]:
    """Return where the specs of each environment stand."""
    document = loaded.document
    if document is None:
        found = stackinator.load_documents(str(loaded.path), (ENVIRONMENTS,))
        document = found[ENVIRONMENTS]
    start = ("environments",) if loaded.document is not None else ()
    places = {}
    for environment in loaded.stack.environments:
        body = document.data
        for part in (*start, environment.name):
            body = body[part]
        key = next((key for key in ("network", "mpi") if body.get(key)), "specs")
        places[environment.name] = document.where(*start, environment.name, key)
    return places
