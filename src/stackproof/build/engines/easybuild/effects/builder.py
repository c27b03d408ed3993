"""The builder of EasyBuild stacks: chain, source files, machine, and where a build works."""

from __future__ import annotations

import functools
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path

from stackproof.build.effects import (
    builders,
    executor,
    source_mirror,
    stacks,
)
from stackproof.build.effects.builders import Reading, Solving
from stackproof.build.effects.loaded import Loaded
from stackproof.build.effects.workspace import (
    BuildSetup,
    Installing,
    Workspace,
    available_cores,
    download_path,
)
from stackproof.build.engine import Findings
from stackproof.build.engines.easybuild import swap as easybuild_swap
from stackproof.build.engines.easybuild import tool
from stackproof.build.engines.easybuild.chain import Chain, chain
from stackproof.build.engines.easybuild.components import (
    Catalogue,
    ChainRequest,
    OwnFile,
    Toolchain,
    parse_catalogue,
)
from stackproof.build.engines.easybuild.effects import sources
from stackproof.build.engines.easybuild.effects.sources import SourceFinder, mirror_folders
from stackproof.build.engines.easybuild.engine import ENGINE, HEADERS
from stackproof.build.engines.easybuild.recipe import parse_easybuild_recipe
from stackproof.build.engines.easybuild.selection import GFORTRAN
from stackproof.build.engines.easybuild.stack import (
    EasyBuildLock,
    EasyBuildStack,
    list_outside_folders,
    make_lock,
)
from stackproof.build.engines.spack import conflicts
from stackproof.build.engines.spack import output as spack_output
from stackproof.build.engines.spack.effects import build as spack_build
from stackproof.build.options import BuildOptions
from stackproof.build.plan import Plan, Step
from stackproof.build.swap import RecipeOverlay, SwapKind, SwapWord
from stackproof.core import document
from stackproof.core.command import Bind, Command, Completed, EnvPatch
from stackproof.core.document import Document
from stackproof.core.effects import cache_kinds, documents, files, shipped
from stackproof.core.effects import run as core_run
from stackproof.core.effects.run import run
from stackproof.core.effects.sandbox import package_hint
from stackproof.core.errors import Location, Problem, Reason, StackproofError, fail
from stackproof.core.monitor import Event, Monitor
from stackproof.core.value import replace

# --------------------------------------------------------------------------------------------------
# The catalogue of components that come with stackproof, and the known conflicts between them.

PROVENANCE = "provenance.yaml"
_CONFLICTS = "conflicts.yaml"


@functools.cache
def load() -> Catalogue:
    """Return the catalogue."""
    folder = resources.files("stackproof.build.engines.easybuild") / "components"
    parsed = {
        entry.name: document.parse(entry.read_bytes(), file=entry.name, ours=True).data
        for entry in sorted(folder.iterdir(), key=lambda entry: entry.name)
        if entry.name.endswith(".yaml")
    }
    provenance = parsed.pop(PROVENANCE)
    known = conflicts.parse_conflicts(
        documents.load(str(shipped.find("knowledge", _CONFLICTS)), ours=True)
    )
    return parse_catalogue(provenance, tuple(parsed.values()), known)


# --------------------------------------------------------------------------------------------------
# A running EasyBuild: its lines to events, its failure to an error that shows the cause.

_SHOWN = 10
_LONGEST = 400


def install(job: Installing, monitor: Monitor) -> None:
    """Run EasyBuild and tell a monitor how far it is.

    Raises `StackproofError` when it fails: the reason is that of EasyBuild's exit code, with the
    lines around the first error and the path of its log.
    """

    def watch(line: str) -> None:
        found = tool.event(line)
        if found is not None and found.get("event") == "step":
            text = f"{found.get('module', '')}: {found.get('step', '')}"
            monitor(Event(what="progress", name=job.step.name, text=text))

    done = run(job.command, log=job.log, watch=watch)
    if done.returncode not in job.command.ok or done.timed_out:
        raise _failure(job.command, done, job.step, job.log, job.space)


def _failure(
    command: Command, done: Completed, step: Step, log: Path, space: Workspace
) -> StackproofError:
    found = tool.failure(done.stdout.decode(errors="replace"))
    if found is None:
        return core_run.failure(command, done, log=log)
    kept = log
    shown: tuple[str, ...] = ()
    path = space.on_host(found.log, "/nonexistent") if found.log else None
    if path is not None:
        content = path.read_bytes()
        kept = space.logs / f"{step.name}.easybuild.log"
        files.write(kept, content)
        # EasyBuild's own lines begin so; an error of a compiler is in what it ran.
        text = content.decode(errors="replace")
        text = text.partition("\nCallstack:\n")[0]
        lines = [line for line in text.splitlines() if line and not line.startswith("== ")]
        shown = spack_output.first_error("\n".join(lines)) or tuple(lines[-_SHOWN:])
    full = any("No space left on device" in line for line in (found.message, *shown))
    where = f" in step `{found.step}`" if found.step else ""
    again = f"stackproof shell {space.home.name}"
    return fail(
        Reason.DISK_FULL if full else found.reason,
        f"EasyBuild failed{where} of `{step.name}`: {found.message[:_LONGEST]}",
        detail="\n".join(shown) or None,
        hint=f"the whole log is in `{kept}`; `{again}` opens the sandbox as it was; what was "
        "finished is kept, and the same command goes on from there",
    )


_ADDRESS = re.compile(r"https?://[^\s]+")
_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+_-]*")
_PATCH = ".patch"


def swap_own_files(document: Document, word: SwapWord) -> RecipeOverlay:
    """See `Swapper`; a source at an address is downloaded, as its digest is part of the recipe."""
    known = load()
    easybuild_swap.swap(document, word, known)  # what is wrong with the word, before a download
    file = None if word.kind is SwapKind.WITH else _file(word)
    return easybuild_swap.swap(document, word, known, file)


def _file(word: SwapWord) -> dict[str, str]:
    """Return what a recipe says of a file; it is in the cache then, by its digest."""
    name = os.path.basename(word.value)
    address = _ADDRESS.fullmatch(word.value)
    if not _NAME.fullmatch(name) or (word.kind is SwapKind.PATCH and not name.endswith(_PATCH)):
        wanted = f"end with `{_PATCH}`, and " if word.kind is SwapKind.PATCH else ""
        hint = f"it must {wanted}have letters, digits and `.`, `+`, `_`, `-`"
        message = f"`{name}` cannot be the name of the file"
        raise StackproofError(word.problem(message, hint, reason=Reason.INVALID_VALUE))
    if address:
        if word.kind is SwapKind.PATCH:
            hint = "download it, look at it, and name the file"
            raise StackproofError(word.problem("a patch is a file here, no address", hint))
        return {"filename": name, "sha256": sources.fetched(word.value), "address": word.value}
    if not os.path.isfile(word.value):
        message = f"there is no file `{word.value}`"
        raise StackproofError(word.problem(message, reason=Reason.FILE_MISSING))
    digest = files.sha256(word.value)
    files.copy(word.value, download_path(digest, name))
    return {"filename": name, "sha256": digest}


# How much memory a build tree may want, in bytes: generous, since a build that runs out of memory
# starts again on disk.
_BYTES_AT_LEAST = 500_000_000
_BYTES_PER_COMPONENT = 500_000_000
# Programs that every chain runs, besides those that the catalogue names.
_TOOLS = ("gcc", "make")


class EasyBuildBuilder:
    """See `Builder`."""

    engine = ENGINE
    lock_kind = EasyBuildLock
    solving = Solving.FILES
    swap = staticmethod(swap_own_files)
    refused: Mapping[str, Problem] = {"from": builders.NO_RPMS, "on": builders.NO_NODES}

    def load(self, reading: Reading) -> Loaded:
        """See `Builder`."""
        composed = reading.require_file()
        mirror_folders(reading.options.mirror)  # says what is wrong with it, before all else
        facts = stacks.build_facts(reading.options, composed)
        stack = parse_easybuild_recipe(composed.document, facts)
        programs, blobs = stacks.programs_of(composed.document)
        return Loaded(
            path=reading.path,
            document=composed.document,
            composed=composed,
            stack=replace(stack, programs=programs),
            blobs=blobs,
            notes=stacks.undecided(composed),
            variant=stacks.variant(composed, facts),
        )

    def check(self, loaded: Loaded, lock: EasyBuildLock | None, *, whole: bool) -> Findings:
        """See `Builder`.

        What this machine lacks is a note: the recipe is valid, and may be built elsewhere.
        """
        if not whole:
            return Findings(notes=_known(lock.notes if lock else ()))
        try:
            found = _chain_of(loaded)
        except StackproofError as error:
            return Findings(problems=error.problems)
        own = tuple(_own_file_problems(loaded))
        missing = (p for p in own if p.reason is Reason.FILE_MISSING)
        lacking = (
            Problem(reason=p.reason, message=f"not here: {p.message}", hint=p.hint)
            for p in (*machine_problems(loaded.stack, found.tools, found.headers), *missing)
        )
        return Findings(
            problems=tuple(p for p in own if p.reason is not Reason.FILE_MISSING),
            notes=(*lacking, *_known(found.notes)),
        )

    def solve(self, loaded: Loaded, options: BuildOptions, monitor: Monitor) -> EasyBuildLock:
        """See `Builder`: the mirror is a folder that may hold source files."""
        stack: EasyBuildStack = loaded.stack
        monitor(Event(what="started", name="resolve", text="components, files and digests"))
        found = _chain_of(loaded)
        places = _source_finder(loaded, options, monitor)
        files_of = (file for one in found.easyconfigs for file in one.sources)
        digests = sources.of_all(files_of, places.choose)
        lock = make_lock(stack, found, places.tool(stack.easybuild), digests)
        listed = ", ".join(one.module for one in lock.components)
        monitor(Event(what="done", name="resolve", text=listed))
        return lock

    def setup(
        self,
        loaded: Loaded,
        lock: EasyBuildLock,
        plan: Plan,
        options: BuildOptions,
        monitor: Monitor,
    ) -> BuildSetup:
        """See `Builder`."""
        if executor.is_finished(plan):  # nothing has to be there for what is done already
            return BuildSetup()
        lacking = machine_problems(loaded.stack, lock.tools, lock.headers)
        if lacking:
            raise StackproofError(*lacking)
        _obtain(lock, _source_finder(loaded, options, monitor))
        return _setup(loaded, lock, options, monitor)

    def fill_mirror(
        self,
        loaded: Loaded,
        lock: EasyBuildLock,
        options: BuildOptions,
        folder: Path,
        monitor: Monitor,
    ) -> frozenset[Path]:
        """See `Builder`; raises `StackproofError`: NO_NETWORK for what cannot be had."""
        found = _obtain(lock, _source_finder(loaded, options, monitor, folder))
        own = tuple(executor.fetch(file, tool.fetch_command, monitor) for file in lock.tool)
        for path in (*found, *own):
            target = folder / source_mirror.EASYBUILD / path.name
            if not (target.is_file() and files.sha256(target) == files.sha256(path)):
                files.copy(path, target)
        return frozenset()


def _chain_of(loaded: Loaded) -> Chain:
    """Return the easyconfigs that a recipe means; raises `StackproofError` with all problems."""
    where = loaded.document.where if loaded.document else None
    return chain(loaded.stack.request, load(), where)


def _own_files(loaded: Loaded) -> Iterator[tuple[OwnFile, Location, Path]]:
    """Yield each file that a recipe brings without an address, where it says so, and its place."""
    request: ChainRequest = loaded.stack.request
    named: list[tuple[tuple[str | int, ...], OwnFile]] = [
        (("source-files", name), file) for name, file in request.source_files.items()
    ]
    for name, patches in request.patches.items():
        named += [(("patches", name, index), file) for index, file in enumerate(patches)]
    for key, file in named:
        where = loaded.document.where(*key, "sha256") if loaded.document else Location(file="")
        if os.path.isfile(where.file) and not file.address:  # no word such as --with-patch
            yield file, where, Path(where.file).parent / file.filename


def _own_file_problems(loaded: Loaded) -> Iterator[Problem]:
    """Yield a problem for each of its files that a recipe lacks, and for one that has changed."""
    for file, where, path in _own_files(loaded):
        if path.is_file():
            if (digest := files.sha256(path)) != file.sha256:
                yield Problem(
                    reason=Reason.DIGEST_MISMATCH,
                    message=f"`{path}` has another SHA-256 than the recipe says",
                    hint=f"if it is the right file, write `sha256: {digest}`",
                    where=where,
                )
        elif not download_path(file.sha256, file.filename).is_file():
            yield Problem(
                reason=Reason.FILE_MISSING,
                message=f"`{file.filename}`, which the recipe names, is not beside the recipe",
                hint="put it there, or into a folder that you name: --mirror DIR",
            )


def _source_finder(
    loaded: Loaded, options: BuildOptions, monitor: Monitor, *folders: Path
) -> SourceFinder:
    """Return a finder that knows the files beside a recipe; raises (DIGEST_MISMATCH) for others."""
    changed = [p for p in _own_file_problems(loaded) if p.reason is Reason.DIGEST_MISMATCH]
    if changed:
        raise StackproofError(*changed)
    beside = (path for _, _, path in _own_files(loaded) if path.is_file())
    return SourceFinder((*folders, *mirror_folders(options.mirror)), monitor, beside)


def _known(texts: tuple[str, ...]) -> tuple[Problem, ...]:
    return tuple(Problem(reason=Reason.UNSUPPORTED, message=text) for text in texts)


def machine_problems(
    stack: EasyBuildStack, tools: tuple[str, ...], headers: tuple[str, ...]
) -> tuple[Problem, ...]:
    """Return what this machine lacks to build a stack: programs, header files, folders."""
    problems = [
        _missing(program)
        for program in dict.fromkeys((*_TOOLS, *tools))
        if shutil.which(program) is None
    ]
    problems += _compiler_problems(stack.request.toolchain)
    problems += [
        Problem(
            reason=Reason.TOOL_MISSING,
            message=f"the build needs the header file `{header}` of the system",
            hint=f"install the package that has it{_package_of(header)}",
        )
        for header in headers
        if not any(Path(folder, header).is_file() for folder in _include_folders(stack))
    ]
    try:
        find_lmod()
    except StackproofError as error:
        problems += error.problems
    places = {name: component.prefix for name, component in stack.request.externals.items()}
    if stack.request.gpu_at:
        places[stack.request.gpu] = stack.request.gpu_at.prefix
    if stack.below:
        places["on"] = stack.below.path
        places |= {f"modules {number}": path for number, path in enumerate(stack.below.modules)}
    problems += [
        Problem(
            reason=Reason.FILE_MISSING,
            message=f"`{path}` ({name}) is not a folder of this machine",
            hint="name where it is on the machine that builds",
        )
        for name, path in places.items()
        if not os.path.isdir(path)
    ]
    return tuple(problems)


def _compiler_problems(toolchain: Toolchain) -> Iterator[Problem]:
    """Yield a problem for each program that a named compiler lacks, and for another version."""
    made = toolchain.compilers
    if made is None:
        return
    place = f"{toolchain.prefix}/bin/" if toolchain.prefix else ""
    for program in dict.fromkeys((made.c, made.cxx, made.fortran)):
        if not place or program == GFORTRAN:
            if shutil.which(program) is None:
                yield _missing(program)
        elif not os.access(f"{place}{program}", os.X_OK):
            yield Problem(
                reason=Reason.TOOL_MISSING,
                message=f"`{toolchain.name}` has no `{place}{program}`",
                hint="name the folder whose `bin` has it, as `prefix` of the toolchain",
            )
    if shutil.which(f"{place}{made.c}"):
        text = run(Command(argv=(f"{place}{made.c}", "--version"), timeout_s=20)).stdout.decode()
        if toolchain.version not in text:
            yield Problem(
                reason=Reason.TOOL_MISSING,
                message=f"the recipe asks for {toolchain.name} {toolchain.version}, and "
                f"`{place}{made.c}` says `{text.strip().partition(chr(10))[0]}`",
                hint="name the version that is here, or build where that one is",
            )


def _missing(program: str) -> Problem:
    return Problem(
        reason=Reason.TOOL_MISSING,
        message=f"the build needs `{program}`, which is not installed",
        hint=package_hint(program),
    )


def _package_of(header: str) -> str:
    package, _ = HEADERS.get(header, ("", ""))
    return f", on Debian and Ubuntu {package}" if package else ""


def _include_folders(stack: EasyBuildStack) -> tuple[str, ...]:
    """Return where the system's compiler looks for header files (gcc of Debian, and others)."""
    return ("/usr/include", f"/usr/include/{stack.architecture}-linux-gnu")


def _obtain(lock: EasyBuildLock, places: SourceFinder) -> tuple[Path, ...]:
    """Return the source files of a lock in the cache; with EasyBuild's own where they are at hand.

    The executor asks the package index for what of EasyBuild is not in the cache then.
    """
    for file in lock.tool:
        places.bring(file)
    wanted = (file for one in lock.components for file in one.sources)
    return tuple(sources.of_all(wanted, places.obtain).values())


def _setup(
    loaded: Loaded, lock: EasyBuildLock, options: BuildOptions, monitor: Monitor
) -> BuildSetup:
    program = find_lmod()
    folder = options.build_dir and Path(options.build_dir).resolve()
    place = spack_build.BuildPlace(
        in_memory=options.in_memory, folder=folder or None, jobs=options.jobs
    )
    needed = _BYTES_AT_LEAST + _BYTES_PER_COMPONENT * len(lock.components)
    return BuildSetup(
        binds=(
            *lmod_binds(program),
            *(
                Bind(source=path, target=path)
                for path in list_outside_folders(loaded.stack)
                if not f"{path}/".startswith("/usr/")
            ),
        ),
        environment=EnvPatch(
            set={
                "LMOD_CMD": str(program),
                "EASYBUILD_PARALLEL": str(options.jobs or available_cores()),
            }
        ),
        tree=spack_build.tree_folder(place, needed, monitor),
        kept=cache_kinds.home("components"),
        fetch_command=tool.fetch_command,
        install=install,
    )


# Where the packages of distributions install it (Debian and Ubuntu; Fedora and its relatives).
_PLACES = ("/usr/share/lmod/lmod/libexec/lmod", "/opt/apps/lmod/lmod/libexec/lmod")


def find_lmod() -> Path:
    """Return Lmod's own program: what `LMOD_CMD` names, what is on PATH, or that of a package.

    Raises `StackproofError` (TOOL_MISSING).
    """
    named = os.environ.get("LMOD_CMD") or shutil.which("lmod")
    for place in (named, *_PLACES):
        if place and os.access(place, os.X_OK) and os.path.isfile(place):
            return Path(place).resolve()
    raise fail(
        Reason.TOOL_MISSING,
        "EasyBuild needs a modules tool, and Lmod is not installed",
        hint=f"{package_hint('lmod')}; where it is installed elsewhere, set LMOD_CMD to its "
        "`libexec/lmod`",
    )


def lmod_binds(program: Path) -> tuple[Bind, ...]:
    """Return what a sandbox must see of Lmod; nothing where it is below `/usr`."""
    if program.is_relative_to("/usr"):
        return ()
    root = str(program.parent.parent)
    return (Bind(source=root, target=root),)


BUILDER = EasyBuildBuilder()
