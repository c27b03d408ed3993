"""A Spack stack to its lock, and stack and lock to an image, on this machine."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from msgspec import field

from stackproof.build.effects import executor, git, workspace
from stackproof.build.effects.workspace import BuildSetup, Installing
from stackproof.build.engines.spack import buildplan, configuration, layout, lockplan, locks, output
from stackproof.build.engines.spack.effects import nodes
from stackproof.build.engines.spack.effects import progress as spack_progress
from stackproof.build.engines.spack.engine import repositories
from stackproof.build.engines.spack.stack import Caches, LockedClone, Mirror, SpackLock, SpackStack
from stackproof.build.engines.spack.workers import Workers
from stackproof.build.plan import Plan
from stackproof.core import ids
from stackproof.core.command import Bind, Command, Completed, EnvPatch
from stackproof.core.effects import cache_kinds, files
from stackproof.core.effects.run import run
from stackproof.core.errors import Reason, StackproofError, fail
from stackproof.core.ids import short
from stackproof.core.monitor import Event, Monitor
from stackproof.core.value import Value, replace

OWN_CACHE = "stackproof"
"""The name of the cache of packages that every build on this machine fills and uses."""
_INDICES = "cache/misc"
_COMPILE_TIMEOUT_S = 1800.0
# How much memory a build tree may want, in bytes: a rule of thumb and generous, since a build
# that runs out of memory starts again on disk.
_BYTES_PER_PACKAGE = 500_000_000
_BYTES_AT_LEAST = 1_000_000_000
_BYTES_OF_GIANTS = 16_000_000_000
_NOT_SOFTWARE = frozenset(("bin", "boot", "build", "dev", "etc", "lib", "lib64", "proc", "root",
                           "run", "sbin", "sys", "var"))  # fmt: skip
_GIANTS = frozenset(("gcc", "llvm", "llvm-amdgpu", "cuda", "nvhpc", "intel-oneapi-compilers",
                     "rust", "py-torch", "py-tensorflow", "trilinos"))  # fmt: skip


class BuildPlace(Value):
    """Where a build may work: `in_memory` is `auto`, `yes` or `no`; `folder` names a place.

    `jobs` is how many processes it may start at once, None for all cores; `passed` are variables
    of the user that hooks get. With `workers` packages are installed on the nodes of a job.
    """

    in_memory: str = "auto"
    folder: Path | None = None
    jobs: int | None = None
    passed: tuple[str, ...] = ()
    workers: Workers | None = None


class Request(Value):
    """A stack to build, the files it is made of by digest, the user's caches, and the place."""

    stack: SpackStack
    blobs: Mapping[str, Path] = field(default_factory=dict)
    caches: Caches = field(default_factory=Caches)
    origin: str = ""
    place: BuildPlace = field(default_factory=BuildPlace)


def make_lock(request: Request, monitor: Monitor) -> SpackLock:
    """Return Spack's own solution of a stack: exact commits, versions, variants and dependencies.

    Raises `StackproofError`: BUILD_FAILED with Spack's words when there is no solution,
    UNKNOWN_VERSION for a commit that a repository lacks, NO_NETWORK, DISK_FULL, TOOL_MISSING
    without Spack's solver, or without patchelf for a splice.
    """
    stack = request.stack
    _need_tools(request, solver=True)
    clones = resolve_clones(stack, monitor)
    setup = _setup(request, clones)
    wanted = locks.lock_files(stack)
    found: dict[str, bytes] = {}
    while len(found) < len(wanted):
        plan = lockplan.lock_plan(stack, clones, found)
        made = executor.perform(plan, monitor, setup=setup, read=wanted)
        if set(made) <= set(found):
            break  # Spack left no further lock file: reading them says which one is missing
        found |= made
    return lockplan.read_lock(stack, clones, found)


def _need_tools(request: Request, *, solver: bool = False) -> None:
    """Refuse at once what Spack says in many words: that it has no solver, or cannot link again."""
    if any(mirror.kind == "bootstrap" for mirror in request.caches.mirrors):
        return
    if solver and not importlib.util.find_spec("clingo"):
        raise fail(
            Reason.TOOL_MISSING,
            "Spack's solver is missing: the Python that runs stackproof has no package `clingo`",
            hint=f"install it: {sys.executable} -m pip install clingo; or name a bootstrap mirror",
        )
    if any(one.splice for one in request.stack.environments) and not shutil.which("patchelf"):
        raise fail(
            Reason.TOOL_MISSING,
            "Spack splices by patchelf, which is not on PATH",
            hint="install patchelf, or name a bootstrap mirror",
        )


def setup(request: Request, lock: SpackLock, monitor: Monitor) -> BuildSetup:
    """Return what the build of a locked stack has of this machine; raises as `tree_folder`.

    TOOL_MISSING where something is spliced and there is no patchelf.
    """
    _need_tools(request)
    tree = tree_folder(request.place, _bytes_needed(lock), monitor)
    return replace(_setup(request, lock.clones), tree=tree)


def fill_mirror(request: Request, lock: SpackLock, folder: Path, monitor: Monitor) -> None:
    """Bring the sources of a locked stack into a folder, laid out as a mirror of Spack.

    Raises what `executor.perform` raises: NO_NETWORK for sources that cannot be had.
    """
    setup = _setup(request, lock.clones)
    mirror = Bind(source=str(folder), target=buildplan.MIRROR, writable=True)
    setup = replace(setup, binds=(*setup.binds, mirror))
    plan = buildplan.mirror_plan(request.stack, lock)
    executor.perform(plan, monitor, setup=setup)


@contextmanager
def _source_problems(plan: Plan) -> Iterator[None]:
    """Say of sources that a step could not get why, and what to do, instead of Spack's words."""
    try:
        yield
    except StackproofError as error:
        shown = error.problems[0].detail or ""
        if error.reason is not Reason.BUILD_FAILED or "etch" not in shown:
            raise
        folder = workspace.home(plan) / "logs"
        found = (*folder.glob("fetch-*.log"), *folder.glob("mirror-*.log"))
        logs = sorted(found, key=lambda path: path.stat().st_mtime)
        problems = (
            output.source_problems(logs[-1].read_text(errors="replace", encoding="utf-8"))
            if logs
            else ()
        )
        if not problems:
            raise
        raise StackproofError(*problems) from error


def resolve_clones(stack: SpackStack, monitor: Monitor) -> tuple[LockedClone, ...]:
    """Return Spack and its package repositories at the commits that they have now.

    Raises `StackproofError` (UNKNOWN_VERSION, NO_NETWORK, FILE_MISSING).
    """
    found = []
    for name, source, folder in repositories(stack):
        commit = git.resolve(source.url, source.commit)
        monitor(Event(what="note", name="commit", text=f"{name} is at {short(commit)}"))
        ref = source.commit or "HEAD"
        found.append(LockedClone(name=name, url=source.url, ref=ref, commit=commit, folder=folder))
    return tuple(found)


def own_caches(stack: SpackStack, caches: Caches) -> Caches:
    """Return the user's caches and those of this machine: sources, solutions, packages.

    Packages are kept for each mount point, since their paths are part of them. They are not
    signed: only who may write the cache folder can put something there.
    """
    name = stack.mount.strip("/").replace("/", "-")
    folders = {
        "sources": Path(caches.source_cache or cache_kinds.home("sources")),
        "solutions": Path(caches.concretizer_cache or cache_kinds.home("solutions")),
        "packages": cache_kinds.home("packages") / f"{name}-v{stack.generation}",
    }
    for folder in folders.values():
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise files.translate(error, folder) from error
    own = Mirror(
        name=OWN_CACHE,
        kind="buildcache",
        settings={
            "url": str(folders["packages"]), "signed": False, "autopush": True, "binary": True,
            "source": False,
        },
    )  # fmt: skip
    return replace(
        caches,
        mirrors=(own, *caches.mirrors),
        source_cache=str(folders["sources"]),
        concretizer_cache=str(folders["solutions"]),
    )


def tree_folder(place: BuildPlace, needed: int, monitor: Monitor) -> Path | None:
    """Return the folder for the build tree, None for the build folder in the cache.

    Raises `StackproofError` (DISK_FULL) when it must be in memory and does not fit.
    """
    if place.folder is not None:
        return place.folder
    if place.in_memory == "no" or place.workers is not None:  # other nodes have their own memory
        return None
    free = min(workspace.free_bytes(workspace.MEMORY), _available_memory())
    if place.in_memory == "auto":
        try:
            workspace.memory_folder()
        except StackproofError as error:  # somebody else took the name; the disk is there, too
            text = f"building on disk: {error.problems[0].message}"
            monitor(Event(what="note", name="disk", text=text))
            return None
    if free >= needed:
        return workspace.memory_folder()
    text = f"the build may need {needed / 1e9:.0f} GB, {free / 1e9:.1f} GB of memory are free"
    unfinished = sorted(path.name for path in workspace.memory_folder().iterdir())
    if unfinished:
        text += f" (kept there to be continued: {', '.join(unfinished)})"
    if place.in_memory == "yes":
        raise fail(
            Reason.DISK_FULL,
            f"the build tree does not fit into memory: {text}",
            hint="build on disk with --in-memory=no, or name a folder with --build-dir; what is "
            f"not to be continued in `{workspace.memory_folder()}` can be removed",
        )
    monitor(Event(what="note", name="disk", text=f"building on disk: {text}"))
    return None


def _available_memory() -> int:
    """Return the bytes that can be used without swapping (`MemAvailable` of proc(5))."""
    with open("/proc/meminfo", encoding="utf-8") as lines:
        facts = dict(line.split(":", 1) for line in lines)
    return int(facts["MemAvailable"].split()[0]) * 1024


def _bytes_needed(lock: SpackLock) -> int:
    """Return how large the tree of a build may become, if every package is built."""
    every = locks.everything(lock, "/").values()
    names = [node.name for node in every if not node.external]
    giants = sum(name in _GIANTS for name in names)
    return _BYTES_AT_LEAST + _BYTES_PER_PACKAGE * (len(names) - giants) + _BYTES_OF_GIANTS * giants


def _setup(request: Request, clones: tuple[LockedClone, ...]) -> BuildSetup:
    jobs = request.place.jobs or len(os.sched_getaffinity(0))
    settings = configuration.cache_settings(request.stack, request.caches, jobs=jobs)
    key = ids.content_id([[clone.name, clone.commit] for clone in clones])
    names = tuple(clone.name for clone in clones)
    return BuildSetup(
        blobs=request.blobs,
        build_files=settings.build_files,
        binds=(*settings.binds, *of_machine(request.stack)),
        # The Python that runs this has the solver, so that Spack needs no bootstrap.
        environment=EnvPatch(set={"SPACK_PYTHON": sys.executable}).then(settings.environment),
        network=settings.network,
        passed=request.place.passed,
        install=partial(install, request.place.workers),
        prepare=compiled,
        explained=_source_problems,
        origin=request.origin,
        indices=workspace.Indices(
            folder=_INDICES,
            kept=cache_kinds.home("indices") / short(key),
            names=("builtin", *names),
        ),
    )


def compiled(tree: Path) -> None:
    """Compile Spack's own modules in its clone: nothing can be written beside them in the sandbox.

    A module that this Python cannot compile (test inputs) is left as it is.
    """
    folder = tree / "lib" / "spack"
    if folder.is_dir():
        words = ("-I", "-S", "-m", "compileall", "-q", "-j", "0", str(folder))
        run(Command(argv=(sys.executable, *words), timeout_s=_COMPILE_TIMEOUT_S))


def of_machine(stack: SpackStack) -> Iterator[Bind]:
    """Yield the machine's software outside of /usr that a build sees, to read.

    Recipes name it too, and their hooks may use the network: a folder that not everybody may read,
    of the system, or of the user's home is none, nor is one that holds that home. What is below the
    mount point is the build's own.
    """
    homes = tuple(_homes())
    for prefix in configuration.external_prefixes(stack):
        real = Path(os.path.realpath(prefix))
        users = any(real.is_relative_to(home) or home.is_relative_to(real) for home in homes)
        if users or len(real.parts) <= 2 or {real.parts[1], Path(prefix).parts[1]} & _NOT_SOFTWARE:
            continue
        open_to_all = all(
            os.path.isdir(p) and os.stat(p).st_mode & 0o1 for p in (real, *real.parents)
        )
        if open_to_all and not Path(prefix).is_relative_to(stack.mount):
            yield Bind(source=str(real), target=prefix)


def _homes() -> Iterator[Path]:
    """Yield the user's home, and the one that the system knows, which may be another."""
    yield Path.home().resolve()
    with suppress(KeyError):
        yield Path(pwd.getpwuid(os.getuid()).pw_dir).resolve()


def install(workers: Workers | None, job: Installing, monitor: Monitor) -> None:
    """Run the calls of `spack install` of a step, and say how far they are.

    Here those of several environments run at the same time. On the nodes of a job they run in turn,
    each on all nodes.
    """
    calls = layout.list_calls(job.step, job.command)
    reader = spack_progress.Reader(job.step.name, monitor, tuple(calls))
    if not workers:
        _judge(job, calls, run(job.command, log=job.log, watch=reader), monitor)
        return
    for name, call in calls.items():
        log = job.log.with_stem(f"{job.log.stem}-{name.replace('/', '-')}") if name else job.log
        done = nodes.install(call, workers, job.space.tree, monitor, log=log, watch=reader)
        _judge(replace(job, log=log), {"": call}, done, monitor)


def _judge(
    job: Installing, calls: Mapping[str, Command], done: Completed, monitor: Monitor
) -> None:
    """Raise `StackproofError` for calls that failed, or that met what was changed in a cache."""
    if done.returncode not in job.command.ok or done.timed_out:
        raise spack_progress.failure(calls, done, job.log, job.space, job.mount)
    spack_progress.check_signatures(done, job.log, monitor, tuple(calls))
