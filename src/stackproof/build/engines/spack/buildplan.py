"""Spack stack and lock to plans, as data: to build and pack them, and to mirror their sources."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from stackproof.build import benchmark, tail
from stackproof.build.engines.spack import (
    compilers,
    configuration,
    environments,
    layout,
    locks,
    metadata,
)
from stackproof.build.engines.spack.layout import (
    BUILT,
    COMPILERS,
    ENVIRONMENTS,
    EPOCH,
    MODULES,
    REPLACEMENTS,
    STAGE,
    WORKER,
    spack,
    tool,
)
from stackproof.build.engines.spack.lockplan import setup_step
from stackproof.build.engines.spack.stack import (
    PATH_VARIABLES,
    Caches,
    Mirror,
    Programs,
    SpackEnvironment,
    SpackLock,
    SpackStack,
    SpackView,
)
from stackproof.build.plan import BUILD, PYTHON, Plan, Step
from stackproof.core import ids

# ------------------------------- What the worker in the sandbox is told about the views of a stack

FILE = "views.json"
"""Where the worker finds it, below the build."""
_GCC = {"c": "gcc", "cxx": "g++", "fortran": "gfortran"}


def view_job(stack: SpackStack, lock: SpackLock) -> str:
    """Return what the worker has to know about every view, as JSON text."""
    data = {
        "mount": stack.mount,
        "lists": list(PATH_VARIABLES),
        "environments": {
            environment.name: {
                view.name: _view(stack, lock, environment, view) for view in environment.views
            }
            for environment in stack.environments
        },
    }
    return json.dumps(data, indent=1, sort_keys=True) + "\n"


def _view(
    stack: SpackStack, lock: SpackLock, environment: SpackEnvironment, view: SpackView
) -> dict[str, Any]:
    return {
        "links": links(stack, lock, environment) if view.add_compilers else {},
        "prefix_paths": {name: list(folders) for name, folders in view.prefix_paths.items()},
        "changes": [msgspec.structs.asdict(change) for change in view.changes],
    }


def links(stack: SpackStack, lock: SpackLock, environment: SpackEnvironment) -> dict[str, str]:
    """Return the compilers' programs by the name that a view's `bin` gives them."""
    found: dict[str, str] = {}
    for name in environment.compilers:
        brought = compilers.programs(stack, lock, compilers.named(stack, name))
        for one in compilers.matching(brought, environment.compiler_specs):
            for language, path in sorted(one.paths.items()):
                # Several versions of one compiler: the first is the default.
                found.setdefault(_link_name(one, language, path), path)
    return dict(sorted(found.items()))


def _link_name(one: Programs, language: str, path: str) -> str:
    """Return a program's usual name: a site's gcc may be called gcc-13, users say gcc."""
    return _GCC[language] if one.package == "gcc" else path.rpartition("/")[2]


INSTALL = "spack-install"
"""What `Step.reports` says of a step whose output is that of `spack install`."""
# Never pushed to a cache, for their size or licence; the list is Stackinator's (builder.py).
_NOT_CACHED = frozenset(("nvhpc", "cuda", "perl"))
_PRE_HOOK = "pre-install-hook"
_POST_HOOK = "post-install-hook"
_PACKAGES_PER_CALL = 200
_INSTALL_STEPS = {
    COMPILERS: "install-compiler",
    ENVIRONMENTS: "install",
    BUILT: "install-built",
    REPLACEMENTS: "install-replacement",
}


def build_plan(
    stack: SpackStack,
    lock: SpackLock,
    caches: Caches,
    *,
    csrc: Mapping[str, str] | None = None,
) -> Plan:
    """Return the steps that build a locked stack and pack its image.

    With `csrc` (C sources of the benchmark by name) it is compiled with the stack's MPI, if it
    has one. What depends on the user's caches is no input of the image: the image's id, and with
    it the folder of the build, is the same with and without them.
    """
    steps: list[Step] = [setup_step(stack, lock.clones)]
    trust = _trust_step(caches, (steps[0].id,))
    steps += _image_steps(stack, lock, csrc or {}, steps[0].id)
    if trust:
        steps.insert(1, trust)
    push = _push_step(stack, lock, caches, _installed(steps))
    if push:
        steps.append(push)
    return Plan(name=stack.name, mount=stack.mount, steps=tuple(steps))


def _image_steps(
    stack: SpackStack, lock: SpackLock, csrc: Mapping[str, str], last: str
) -> list[Step]:
    """Return the steps from the first hook to the image, each with the one before as its input."""
    facts = metadata.mpi_facts(stack, lock)
    programs = {benchmark.NATIVE: benchmark.program_path(stack.mount)} if facts and csrc else {}
    steps = (
        *_hook(_PRE_HOOK, stack.pre_install, stack),
        _fetch_step(stack, lock),
        *_install_steps(stack),
        *([_cleanup_step(stack)] if stack.cleanup != "none" else []),
        _views_step(stack, lock),
        *([_modules_step(stack)] if stack.modules is not None else []),
        # Spack's wrappers name the real compiler and need no variables.
        *tail.compiled(stack, facts if csrc else None, csrc),
        _metadata_step(stack, lock, programs),
        *_hook(_POST_HOOK, stack.post_install, stack),
        _tidy_step(stack),
        tail.packed(stack),
    )
    return list(tail.in_turn(steps, last))


def _hook(name: str, text: str | None, stack: SpackStack) -> Iterator[Step]:
    """Yield the step that runs a hook, if there is one; it may fetch, and it stays in the image."""
    if text is None:
        return
    yield Step(
        name=name,
        description=f"run the recipe's {name.removesuffix('-hook')} hook",
        files={name: text},
        executable=(name,),
        commands=(tool(f"{stack.mount}/{name}", cwd=f"{BUILD}/environments"),),
        network=True,
    )


def _fetch_step(stack: SpackStack, lock: SpackLock) -> Step:
    """Return the step that gets every source, so that what builds needs no network."""
    clean = tool("rm", "-rf", STAGE)  # as `spack clean --stage` does, without a start of Spack
    calls = [
        spack("fetch", "--missing", environment=folder)
        for folder in locks.folders(stack)
        if builds(lock, folder, stack.mount)
    ]
    return Step(
        name="fetch",
        description="get the sources of everything that is not installed yet",
        build_files=solution_files(stack, lock),
        # Also first: Spack takes a file that a failed try left, whatever is in it.
        commands=(clean, *calls, clean),
        network=True,
        resumes=True,
    )


def solution_files(stack: SpackStack, lock: SpackLock) -> dict[str, str]:
    """Return the files below the build that give Spack its solutions, and what they refer to."""
    found = {}
    for folder, content in lock.environments.items():
        found[f"{folder}/spack.lock"] = ids.canonical_json(content).decode()
        found |= environments.solved_files(stack, folder, lock.environments)
    return found


def builds(lock: SpackLock, folder: str, mount: str) -> bool:
    """Return whether anything of a folder's solution is not on the machine already."""
    known = locks.nodes(lock.environments[folder], mount)
    return any(not node.external for node in known.values())


def _install_steps(stack: SpackStack) -> Iterator[Step]:
    """Yield the steps that install: compilers in turn, then all environments at the same time."""
    folders = locks.folders(stack)
    last = [folder for folder in folders if not folder.startswith(f"{COMPILERS}/")]
    yield from (_install_step(folder) for folder in folders if folder not in last)
    needs = {f"{ENVIRONMENTS}/{e.name}": locks.spliced_from(e) for e in stack.environments}
    yield from layout.join_steps("install", {f: _install_step(f) for f in last}, needs)


def _install_step(folder: str) -> Step:
    kind, _, name = folder.partition("/")
    return Step(
        name=f"{_INSTALL_STEPS[kind]}-{name}",
        description=f"build the packages of {folder}",
        commands=(spack("install", "--only-concrete", "--show-log-on-error", environment=folder),),
        resumes=True,
        reports=INSTALL,
    )


def _installed(steps: list[Step]) -> tuple[str, ...]:
    """Return the id of the last step that installs something."""
    return tuple(step.id for step in steps if step.reports == INSTALL)[-1:]


def _cleanup_step(stack: SpackStack) -> Step:
    """Return the step that removes what no environment needs to run, or to build against it.

    Compilers that an environment names stay, as it links them into its views. Of what is spliced
    the form that was compiled goes, with its MPI.
    """
    kept = ("--keep-build-dependencies",) if stack.cleanup == "build" else ()
    where = [
        word
        for folder in locks.folders(stack)
        if not folder.startswith(f"{BUILT}/")
        for word in ("--except-environment", f"{BUILD}/{folder}")
    ]
    return Step(
        name="cleanup",
        description=f"remove packages that are not needed ({stack.cleanup})",
        commands=(spack("gc", "--yes-to-all", *kept, *where),),
    )


def _views_step(stack: SpackStack, lock: SpackLock) -> Step:
    """Return the step that makes the views' trees and writes what they change in an environment."""
    folders = {e.name: f"{ENVIRONMENTS}/{e.name}" for e in stack.environments if e.views}
    texts = {
        f"{folder}/spack.yaml": environments.spack_yaml(
            stack, folder, lock.environments, views=True
        )
        for folder in folders.values()
    }
    return Step(
        name="views",
        description="make the views and find out what they change",
        build_files={FILE: view_job(stack, lock), **texts},
        commands=tuple(
            spack("python", WORKER, "views", f"{BUILD}/{FILE}", name, environment=folder)
            for name, folder in folders.items()
        ),
        outputs=("env",),
    )


def _modules_step(stack: SpackStack) -> Step:
    return Step(
        name="modules",
        description="write module files",
        build_files=configuration.module_files(stack),
        commands=tuple(
            spack("module", kind, "refresh", "--delete-tree", "--yes-to-all", scope=MODULES)
            for kind in configuration.module_kinds(stack)
        ),
        outputs=("modules",),
    )


def _metadata_step(stack: SpackStack, lock: SpackLock, programs: Mapping[str, str]) -> Step:
    files = configuration.user_files(stack, lock)
    files |= metadata.files(stack, lock, programs)
    files["meta/bom.cdx.json"] = metadata.render_bom(stack, lock)
    changes = metadata.transports_of(stack, lock).required()
    return Step(
        name="metadata",
        description="write metadata, configuration for users, lock and bill of materials",
        files=files,
        commands=(
            spack("python", WORKER, "licences", stack.mount),
            tool(PYTHON, "-I", "-S", WORKER, "metadata", stack.mount),
        ),
        outputs=("config", *(f"env/{name}" for name in changes)),
    )


def _tidy_step(stack: SpackStack) -> Step:
    """Return the step that takes out what differs between two builds of one lock."""
    return Step(
        name="tidy",
        description="take out caches of Python, build times and logs; let everybody read",
        commands=(
            tool(PYTHON, "-I", "-S", WORKER, "tidy", stack.mount, str(EPOCH)),
            tool("chmod", "-R", "a+rX", stack.mount),
        ),
    )


def _trust_step(caches: Caches, inputs: tuple[str, ...]) -> Step | None:
    """Return the step that makes Spack trust the keys of the caches, None without any."""
    keys = configuration.key_files(caches)
    signed = [
        m for m in caches.mirrors if m.kind == "buildcache" and m.settings.get("signed", True)
    ]
    if not keys and not signed:
        return None
    commands = [spack("gpg", "trust", target) for target in keys.values()]
    if not keys:
        commands.append(spack("buildcache", "keys", "--install", "--trust"))
    return Step(
        name="cache-keys",
        description="trust the keys of the caches",
        inputs=inputs,
        commands=tuple(commands),
        network=not keys,
    )


def _takes_packages(mirror: Mirror) -> bool:
    """Return whether packages are pushed to a mirror at the end, not by Spack as it installs."""
    settings = mirror.settings
    may_push = "push" in settings or "url" in settings
    return mirror.kind == "buildcache" and may_push and not settings.get("autopush")


def _push_step(
    stack: SpackStack, lock: SpackLock, caches: Caches, inputs: tuple[str, ...]
) -> Step | None:
    """Return the step that pushes what was built to the user's caches, signed, None without key."""
    targets = [m.name for m in caches.mirrors if _takes_packages(m)]
    if caches.private_key is None or not targets:
        return None
    pushed = [
        f"/{node.hash}"
        for node in locks.everything(lock, stack.mount).values()
        if not node.external
        and node.name not in _NOT_CACHED
        and not node.version.startswith("git.")
    ]
    parts = [pushed[i : i + _PACKAGES_PER_CALL] for i in range(0, len(pushed), _PACKAGES_PER_CALL)]
    calls = [
        spack("buildcache", "push", "--only=package", target, *part)
        for target in targets
        for part in parts
    ]
    calls += [spack("buildcache", "update-index", target) for target in targets]
    return Step(
        name="cache-push",
        description=f"push {len(pushed)} packages to {', '.join(targets)}",
        inputs=inputs,
        commands=tuple(calls),
        network=True,
    )


MIRROR = f"{BUILD}/new-mirror"
"""Where the mirror that is made lies in the sandbox."""


def mirror_plan(stack: SpackStack, lock: SpackLock) -> Plan:
    """Return the steps that bring the sources of everything that is locked into `MIRROR`.

    Spack leaves out what the machine brings, and what is in the mirror already. The mirror is the
    user's own, so sources that may not be given away are in it too (`--private`).
    """
    setup = setup_step(stack, lock.clones)
    where = ("--directory", MIRROR, "--all", "--private")
    fill = Step(
        name="mirror",
        description="bring the sources of everything that is locked",
        inputs=(setup.id,),
        build_files=solution_files(stack, lock),
        commands=(
            *(
                spack("mirror", "create", *where, environment=folder)
                for folder in locks.folders(stack)
                if builds(lock, folder, stack.mount)
            ),
            spack("clean", "--stage"),
        ),
        network=True,
    )
    return Plan(name=stack.name, mount=stack.mount, steps=(setup, fill))
