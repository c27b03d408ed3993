"""An MPI on this machine is asked what it is: its wrapper compiles, and the program answers."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import field

from stackproof.bench.effects.compile_program import PROBE, parse_probe
from stackproof.core.command import Command, Completed, EnvPatch
from stackproof.core.effects import files
from stackproof.core.effects.run import how_it_ended, run
from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.core.value import Value
from stackproof.inject.effects import named
from stackproof.inject.findings.launcher import OFFERS
from stackproof.mpi import families

SYSTEM = ("/", "/usr", "/usr/local")
"""Prefixes below which programs and libraries are found without any variable."""

WRAPPERS = ("mpicc", "mpiicx", "mpiicc", "cc")
"""C wrappers by their usual names, the likeliest first; `cc` is that of Cray's PrgEnv."""

OTHER_LANGUAGES: Mapping[str, Mapping[str, str]] = {
    "mpicc": {"c++": "mpicxx", "fortran": "mpifort"},
    "mpiicx": {"c++": "mpiicpx", "fortran": "mpiifx"},
    "mpiicc": {"c++": "mpiicpc", "fortran": "mpiifort"},
    "cc": {"c++": "CC", "fortran": "ftn"},
}
"""The wrappers of other languages, by that of C."""

_ANSWER_S = 120.0
_TAIL_LINES = 6
# Variables by which compilers and wrappers do other things.
_COMPILING = (
    "CPATH", "C_INCLUDE_PATH", "LIBRARY_PATH", "OMPI_", "MPICH_", "I_MPI_", "CRAY_", "PE_", "CC",
)  # fmt: skip
# Launchers as `inject` calls them, to those of `launch.launchers`.
_LAUNCHERS = {"hydra": "hydra", "intel-hydra": "intel-hydra", "prte": "prte", "orterun": "prte"}


class Installation(Value):
    """An MPI that was asked: it compiled a program, and that program said what it runs with.

    `wrappers` are paths of compiler wrappers by language (`c`, `c++`, `fortran`), `mpiexec` is
    empty where it has no launcher of its own; `library` is the real path of the library that has
    MPI_Init, `said` what that calls itself, `identity` a digest of all that a compiled program
    depends on.
    """

    family: str
    version: str
    prefix: str
    wrappers: Mapping[str, str]
    library: str
    library_sha256: str
    said: str
    identity: str
    mpiexec: str = ""
    env: EnvPatch = field(default_factory=EnvPatch)


def suffix_of(wrapper: str) -> str:
    """Return what a distribution puts behind the names of one of its MPIs: `.mpich` or nothing."""
    name = os.path.basename(wrapper)
    known = next((one for one in WRAPPERS if name == one or name.startswith(f"{one}.")), name)
    return name[len(known) :]


def siblings(wrapper: str) -> dict[str, str]:
    """Return the paths at which the wrappers of other languages would lie, by language."""
    suffix = suffix_of(wrapper)
    plain = os.path.basename(wrapper)[: -len(suffix) or None]
    folder = os.path.dirname(wrapper)
    others = OTHER_LANGUAGES.get(plain, {})
    return {language: f"{folder}/{name}{suffix}" for language, name in others.items()}


def environments(prefix: str) -> tuple[tuple[str, EnvPatch], ...]:
    """Return the environments in which an installation may work, in the order to try them.

    First without more than its programs on PATH, as a site's own works, for any family; then as
    each family's tree needs it that was moved from where it was built.
    """
    bare = EnvPatch() if prefix in SYSTEM else EnvPatch(prepend={"PATH": (f"{prefix}/bin",)})
    return (
        ("", bare),
        *((one.name, one.environment(prefix)) for one in families.REGISTRY.values()),
    )


def of_prefix(text: str) -> Installation:
    """Return the MPI that a folder holds, or that a compiler wrapper belongs to.

    Raises `StackproofError`: FILE_MISSING, NO_MPI where nothing there compiles MPI programs,
    INVALID_VALUE for several MPIs, WRONG_MPI for a launcher of another one, BUILD_FAILED with what
    a broken wrapper said.
    """
    path = os.path.abspath(text)
    if not os.path.exists(path):
        raise fail(
            Reason.FILE_MISSING,
            f"there is no `{text}`",
            where=Location(file=text),
            hint="name the folder of an MPI with `bin` and `lib`, or its compiler wrapper",
        )
    wrapper = path if os.path.isfile(path) else _wrapper_in(path)
    prefix = os.path.dirname(os.path.dirname(wrapper))
    return _asked(wrapper, prefix, environments(prefix), named_by=text)


def of_environment(env: EnvPatch, wrapper: str, mpiexec: str, *, named_by: str) -> Installation:
    """Return the MPI of an environment that is ready, by its wrapper; raises as `of_prefix`."""
    prefix = os.path.dirname(os.path.dirname(wrapper))
    return _asked(wrapper, prefix, (("", env),), named_by=named_by, mpiexec=mpiexec)


def _wrapper_in(prefix: str) -> str:
    """Return the only C wrapper of a prefix; raises `StackproofError` (NO_MPI, INVALID_VALUE)."""
    folder = f"{prefix}/bin"
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    found = {
        os.path.realpath(f"{folder}/{name}"): f"{folder}/{name}"
        for name in names
        if name.split(".")[0] in WRAPPERS[:-1] and os.access(f"{folder}/{name}", os.X_OK)
    }
    plain = [path for path in found.values() if not suffix_of(path)]
    # One MPI may have wrappers for several compilers; of a distribution each has a suffix.
    suffixes = {suffix_of(path) for path in found.values()} - {""}
    if len(suffixes) > 1 or (suffixes and plain):
        several = ", ".join(f"`{path}`" for path in sorted(found.values()))
        raise fail(
            Reason.INVALID_VALUE,
            f"`{prefix}` holds several MPIs: {several}",
            where=Location(file=prefix),
            hint=f"name the wrapper of one of them: prefix: {min(found.values())}",
        )
    if not found:
        raise fail(
            Reason.NO_MPI,
            f"`{prefix}` has no compiler wrapper of an MPI: no `bin/mpicc`",
            where=Location(file=prefix),
            hint="name the folder that holds `bin/mpicc`, or the wrapper itself; distributions "
            "have wrappers apart, as libmpich-dev and libopenmpi-dev",
        )
    order = {name: place for place, name in enumerate(WRAPPERS)}
    return min(found.values(), key=lambda path: order[os.path.basename(path).split(".")[0]])


def _asked(
    wrapper: str,
    prefix: str,
    tries: Sequence[tuple[str, EnvPatch]],
    *,
    named_by: str,
    mpiexec: str = "",
) -> Installation:
    """Return what an MPI answers in the first environment in which it does."""
    first: StackproofError | None = None
    for family, env in tries:
        try:
            library, said = _answer(wrapper, env, named_by)
            _require_own(library, wrapper, prefix, env)
        except StackproofError as error:
            first = first or error
            continue
        known = families.identify(said)
        if known is None:
            raise fail(
                Reason.UNSUPPORTED,
                f"`{wrapper}` belongs to an MPI that is not known here: `{_first(said)}`",
                where=Location(file=named_by),
                hint=f"known are: {', '.join(one.title for one in families.REGISTRY.values())}",
            )
        if family in {"", known[0]}:
            found = _launcher(known[0], prefix, wrapper, mpiexec)
            real = os.path.realpath(library)
            return Installation(
                family=known[0],
                version=known[1],
                prefix=prefix,
                wrappers=_wrappers(wrapper),
                library=real,
                library_sha256=files.sha256(real),
                said=_first(said),
                identity=_identity(wrapper, real, env),
                mpiexec=found,
                env=env,
            )
    assert first is not None  # noqa: S101 - there is always one environment
    raise first


def _answer(wrapper: str, env: EnvPatch, named_by: str) -> tuple[str, str]:
    """Compile the probe and run it; return the path of the library and what it calls itself."""
    with tempfile.TemporaryDirectory(prefix="stackproof-ask-") as folder:
        files.write(Path(folder) / "ask.c", PROBE)
        aside = env.then(EnvPatch(set={"TMPDIR": folder}))  # compilers that are killed leave files
        done = _run((wrapper, "-o", "ask", "ask.c", "-ldl"), aside, folder)
        if done.returncode != 0:
            raise fail(
                Reason.BUILD_FAILED,
                f"`{wrapper}` cannot compile the smallest MPI program: it {how_it_ended(done)}",
                where=Location(file=named_by),
                detail=_tail(done),
                hint="the wrapper is broken, or needs what is not set here: a module may set it, "
                "`module: [NAME]` in the place of `prefix`",
            )
        done = _run((f"{folder}/ask",), env, folder)
    if done.returncode != 0:
        raise fail(
            Reason.NO_MPI,
            f"a program that `{wrapper}` compiled does not run: it {how_it_ended(done)}",
            where=Location(file=named_by),
            detail=_tail(done),
            hint="its libraries are not found, or belong to another MPI; a module may set "
            "LD_LIBRARY_PATH for them",
        )
    library, said = parse_probe(done.stdout.decode(errors="replace"))
    return library or wrapper, said


def _require_own(library: str, wrapper: str, prefix: str, env: EnvPatch) -> None:
    """Raise `StackproofError` (WRONG_MPI) for a program that runs with another MPI's library.

    It is the wrapper's own when it lies in its prefix, or in a folder that the wrapper links from.
    """
    real, home = os.path.realpath(library), os.path.realpath(prefix)
    if prefix in SYSTEM or real.startswith(f"{home}/"):
        return
    shown = _run((wrapper, "-show"), env, "/").stdout.decode(errors="replace").split()
    folders = [word[2:] for word in shown if word.startswith("-L") and os.path.isdir(word[2:])]
    linked = {os.path.realpath(f"{one}/{name}") for one in folders for name in os.listdir(one)}
    if real not in linked and (folders or any(word.startswith("-L") for word in shown)):
        raise fail(
            Reason.WRONG_MPI,
            f"a program that `{wrapper}` compiled runs with `{real}`, which is another MPI's",
            where=Location(file=wrapper),
            hint="the loader finds that one first: set LD_LIBRARY_PATH as a module of this MPI "
            "does, or take the other MPI's module away",
        )


def _run(argv: tuple[str, ...], env: EnvPatch, folder: str) -> Completed:
    return run(Command(argv=argv, env=env, cwd=folder, timeout_s=_ANSWER_S))


def _launcher(family: str, prefix: str, wrapper: str, mpiexec: str) -> str:
    """Return the path of the MPI's own launcher, empty where it has none beside its wrapper.

    Raises `StackproofError` (WRONG_MPI) for one that would start single ranks of this MPI.
    """
    wanted = families.get(family).launcher
    names = ("mpiexec.hydra", "mpiexec") if wanted == "intel-hydra" else ("mpiexec",)
    places = [f"{prefix}/bin/{name}{suffix_of(wrapper)}" for name in names]
    path = mpiexec or next((one for one in places if os.access(one, os.X_OK)), "")
    kind = named.kind_of_file(os.path.realpath(path)) if path else ""
    if kind and _LAUNCHERS[kind] != wanted and OFFERS[kind] != OFFERS.get(wanted):
        raise fail(
            Reason.WRONG_MPI,
            f"`{path}` is the launcher of another MPI than `{wrapper}`: it is {kind}, and "
            f"{families.get(family).title} is started by {wanted}",
            where=Location(file=path),
            hint="two MPIs are mixed here: name one of them, or load one module only",
        )
    return path


def _wrappers(wrapper: str) -> dict[str, str]:
    others = siblings(wrapper).items()
    return {"c": wrapper, **{name: path for name, path in others if os.access(path, os.X_OK)}}


def _identity(wrapper: str, library: str, env: EnvPatch) -> str:
    """Return a digest of all that a program compiled here depends on besides its sources."""
    told = [
        _run((wrapper, word), env, "/").stdout.decode(errors="replace")
        for word in ("-show", "--version")
    ]
    asked = {k: v for k, v in sorted(env.apply({}).items()) if k.startswith(_COMPILING)}
    parts = [wrapper, files.sha256(os.path.realpath(wrapper)), files.sha256(library), told, asked]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _first(said: str) -> str:
    return (said.splitlines() or [""])[0].strip()


def _tail(done: Completed) -> str | None:
    lines = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
    return "\n".join(lines[-_TAIL_LINES:]) or None
