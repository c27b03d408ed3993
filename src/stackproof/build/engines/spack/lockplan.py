"""Spack stack to the plan that locks it: Spack's own solution of every environment, as data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stackproof.build import tail
from stackproof.build.engines.spack import compilers, configuration, environments, layout, locks
from stackproof.build.engines.spack.layout import (
    COMPILERS,
    CONFIG,
    ENVIRONMENTS,
    EPOCH,
    REPOSITORIES,
    SPACK_CLONE,
    WORKER,
    spack,
    tool,
)
from stackproof.build.engines.spack.stack import LockedClone, SpackLock, SpackStack
from stackproof.build.plan import BUILD, PYTHON, Clone, Plan, Step
from stackproof.core import ids, noun
from stackproof.core.command import Command, EnvPatch
from stackproof.core.errors import Problem, StackproofError


def lock_plan(
    stack: SpackStack,
    clones: tuple[LockedClone, ...],
    files: Mapping[str, bytes] | None = None,
) -> Plan:
    """Return the steps up to Spack's solutions; none of them installs or needs the network.

    `files` are lock files (by path below the build) that are known already. Compilers are
    solved in turn, then all environments at the same time. Generations 2 and 3 are solved in one
    plan. In generation 1 a compiler's prefix has to be known before anything that it builds can be
    solved, so a plan goes only as far as `files` allow: run it, add the
    files that it left, ask for the next one, until all of `locks.lock_files` are there. What is
    spliced waits for its parts in every generation.
    """
    known = {
        path.removesuffix("/spack.lock"): locks.content_of(path, data)
        for path, data in (files or {}).items()
    }
    setup = setup_step(stack, clones)
    solved: list[Step] = []
    side_by_side: dict[str, Step] = {}
    parts = {f"{ENVIRONMENTS}/{e.name}": locks.spliced_from(e) for e in stack.environments}
    for folder in locks.folders(stack):
        first = environments.needed_folders(stack, folder) if stack.generation == 1 else ()
        if folder in known or not known.keys() >= {*first, *parts.get(folder, ())}:
            continue
        step = _concretize(stack, folder, known)
        if folder.startswith(f"{COMPILERS}/"):
            solved.append(step)
        else:
            side_by_side[folder] = step
    solved += layout.join_steps("concretize", side_by_side)
    steps = (setup, *tail.in_turn(solved, setup.id))
    return Plan(name=stack.name, mount=stack.mount, steps=steps)


def wants(stack: SpackStack) -> str:
    """Return the id of what a lock must answer: everything that decides Spack's solution.

    Views, hooks, modules and texts do not, so that a lock survives an edit of them; nor does
    Spack's `config.yaml`, which says where it works.
    """
    folders = locks.folders(stack)
    files = configuration.files(stack)
    del files[f"{CONFIG}/config.yaml"]
    return ids.content_id(
        {
            "configuration": files,
            "environments": {f: environments.spack_yaml(stack, f) for f in folders},
            "found": {f: list(environments.find_external(stack, f)) for f in folders},
            "local": [noun.to_data(repository) for repository in stack.local_repositories],
            "spack": noun.to_data(stack.spack),
            "packages": [noun.to_data(r) for r in stack.package_repositories],
            "architecture": stack.architecture,
            "target": stack.target,
        }
    )


def read_lock(
    stack: SpackStack, clones: tuple[LockedClone, ...], files: Mapping[str, bytes]
) -> SpackLock:
    """Return the lock of a stack from the lock files that Spack left (`lock_files`).

    Raises `StackproofError` (GARBAGE_OUTPUT, UNSUPPORTED) with all problems.
    """
    problems: list[Problem] = []
    contents: dict[str, Any] = {}
    for path in locks.lock_files(stack):
        try:
            contents[path.removesuffix("/spack.lock")] = locks.content_of(path, files.get(path))
        except StackproofError as error:
            problems += error.problems
    if problems:
        raise StackproofError(*problems)
    return SpackLock(wants=wants(stack), clones=clones, environments=contents)


def setup_step(stack: SpackStack, clones: tuple[LockedClone, ...]) -> Step:
    """Return the step that lays out repositories and configuration; both plans begin with it."""
    root = f"{stack.mount}/{REPOSITORIES}"
    cloned = {clone.name: clone for clone in clones}
    ours = [n for n in configuration.repository_names(stack) if n not in cloned]
    # Spack wants the folder in an empty repository too.
    commands = [tool("mkdir", "-p", *(f"{root}/{name}/packages" for name in ours))]
    for repository in stack.package_repositories:
        source = f"{BUILD}/{cloned[repository.name].folder}/{repository.path}"
        commands.append(tool("cp", "-rT", source, f"{root}/{repository.name}"))
    commands.append(tool(PYTHON, "-I", "-S", WORKER, "date", root, str(EPOCH)))
    trees = {
        **{f"{REPOSITORIES}/{local.namespace}": local.files for local in stack.local_repositories},
        "meta/recipe": stack.recipe_files,
        "meta/extra": stack.extra_files,
    }
    build_files = configuration.files(stack)
    for folder in locks.folders(stack):
        build_files[f"{folder}/spack.yaml"] = environments.spack_yaml(stack, folder)
    return Step(
        name="setup",
        description="lay out Spack, its packages and its configuration",
        files={
            f"{REPOSITORIES}/{namespace}/repo.yaml": _repo_yaml(stack, namespace)
            for namespace in ours
        },
        copies={
            f"store/{where}/{path}": copy
            for where, tree in trees.items()
            for path, copy in tree.items()
        },
        build_files=build_files,
        clones=tuple(
            Clone(name=c.name, url=c.url, commit=c.commit, folder=c.folder) for c in clones
        ),
        commands=tuple(commands),
        outputs=(REPOSITORIES, "meta"),
    )


def _concretize(stack: SpackStack, folder: str, known: Mapping[str, Any]) -> Step:
    build_files = {
        f"{name}/spack.lock": ids.canonical_json(content).decode()
        for name, content in known.items()
    }
    build_files |= environments.solved_files(stack, folder, known)
    found = environments.find_external(stack, folder)
    commands = [_find(folder, found)] if found else []
    files: dict[str, str] = {}
    if f"{folder}/compilers.yaml" in build_files:
        for needed in environments.needed_folders(stack, folder):
            files |= compilers.scripts(stack, compilers.from_content(stack, known[needed]))
    return Step(
        name=f"concretize-{folder.replace('/', '-')}",
        description=f"let Spack choose the packages of {folder}",
        files=files,
        executable=tuple(files),
        build_files=build_files,
        commands=(*commands, _solve(stack, folder)),
    )


def _solve(stack: SpackStack, folder: str) -> Command:
    """Return the call that solves, for the microarchitecture that the stack is for."""
    call = spack("concretize", "--force", environment=folder)
    if stack.target is None:
        return call
    clone = f"{BUILD}/{SPACK_CLONE}"
    words = (PYTHON, "-I", WORKER, "solve", stack.target, clone, *call.argv[1:])
    return Command(argv=words, cwd=call.cwd, env=call.env)


def _find(folder: str, packages: tuple[str, ...]) -> Command:
    """Return the call that writes the packages found on the machine beside the `spack.yaml`.

    Spack writes them to the scope of the user, which is therefore a folder of the environment.
    """
    call = spack("external", "find", "--not-buildable", "--scope=user", *packages)
    there = EnvPatch(set={"SPACK_USER_CONFIG_PATH": f"{BUILD}/{folder}/{environments.FOUND}"})
    return Command(argv=call.argv, cwd=call.cwd, env=call.env.then(there))


def _repo_yaml(stack: SpackStack, namespace: str) -> str:
    """Return `repo.yaml` of a local repository: since Spack 1.0 it names the packages' API."""
    text = f"repo:\n  namespace: {namespace}\n"
    return text if stack.generation == 1 else f"{text}  api: v2.0\n"
