"""Whether a launcher and an MPI find each other: a launcher of another MPI starts single ranks.

A rank learns from its launcher who it is by one of two ways, PMI (a socket in PMI_FD or PMI_PORT)
or PMIx (a server named in PMIX_NAMESPACE). A rank that finds none takes itself for the only one:
nothing fails, and N programs of one rank run.
"""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Iterator

from stackproof.core.errors import StackproofError
from stackproof.inject.attempt import InjectionAttempt
from stackproof.inject.findings.abi import moved_from
from stackproof.inject.model import Cause, Effect, Finding
from stackproof.linking.loader import Closure, LoaderSettings, MappedObject, elf_at, load_program
from stackproof.mpi import abi
from stackproof.mpi.abi import Abi

# Which way each launcher offers; it depends on --mpi of srun, `-o pmi=` of Flux, --pmi of PALS, so
# that it must be said. Flux's simple one is MPICH's (flux-shell-options(7)), PALS's own is Cray's.
OFFERS = {
    "hydra": "pmi",
    "intel-hydra": "pmi",
    "prte": "pmix",
    "orterun": "pmix",
    "srun:pmi2": "pmi2",
    "srun:pmix": "pmix",
    "srun:cray_shasta": "cray",
    "flux:simple": "pmi",
    "flux:pmix": "pmix",
    "flux:cray-pals": "cray",
    "pals": "cray",
    "pals:pmix": "pmix",
}
"""Launchers by name, and the way that they offer."""


def abi_of(launcher: str) -> str | None:
    """Return the ABI of the MPIs that a launcher is for, None for no launcher."""
    return (Abi.OPENMPI if OFFERS[launcher] == "pmix" else Abi.MPICH) if launcher else None


NAMESPACES = ("none", "per-node", "per-rank")
"""Which processes share a user namespace with which."""


def launcher_findings(case: InjectionAttempt) -> Iterator[Finding]:
    """Yield whether a launcher starts one job with the injected MPI, or single ranks."""
    main, launcher, file = case.main, case.question.launcher, case.question.launcher_file
    if main is None or not launcher:
        return
    proxy = _missing_proxy(case, launcher, file)
    if proxy:
        yield Finding(
            cause=Cause.LAUNCHER,
            effect=Effect.FAILS,
            message=f"`{file}` starts nothing: it looks for its `{proxy}` in the folder that it is "
            "called by, where there is none",
            file=file,
            provider=proxy,
            remedy="call it by its own path, or put a link to that beside it",
        )
        return
    speaks = _spoken(case)
    offer = OFFERS[launcher]
    if offer in speaks:
        if main.family.abi == Abi.OPENMPI and launcher == "prte" and _is_openmpi4(case):
            yield _refused(case, launcher, "PRRTE does not start Open MPI 4 as one job")
        elif file and launcher == "orterun" and _is_openmpi4(case) and not is_own(case, file):
            yield Finding(
                cause=Cause.LAUNCHER,
                effect=Effect.CANNOT_TELL,
                message=f"`{file}` is of another Open MPI 4: two releases may wait for each other "
                "forever, as 4.1.7 and 4.1.8 do",
                file=main.path,
                remedy=f"start it with the MPI's own mpiexec, in `{case.replacement.home}/bin`",
            )
        return
    if offer == "cray":
        yield Finding(
            cause=Cause.LAUNCHER,
            effect=Effect.CANNOT_TELL,
            message="whether this MPI finds Cray PMI shows only at its start",
            file=main.path,
            remedy="start it with two ranks and look at the size of MPI_COMM_WORLD",
        )
        return
    if offer == "pmi2" and "pmi" in speaks and _has_words(case, "PMI2_Init"):
        if _has_words(case, "I_MPI_PMI_LIBRARY"):  # MPICH has PMI-2 inside, Intel MPI opens it
            yield Finding(
                cause=Cause.LAUNCHER,
                effect=Effect.STEP,
                message="Intel MPI takes Slurm's PMI-2 from a library that it must be told of",
                file=main.path,
                remedy="I_MPI_PMI_LIBRARY=/path/of/Slurm's/libpmi2.so",
            )
        return
    words = " or ".join(sorted(speaks)) or "neither PMI nor PMIx"
    yield _refused(case, launcher, f"it offers {offer}, the MPI speaks {words}")


_PROXIES = {"hydra": "hydra_pmi_proxy", "intel-hydra": "hydra_bstrap_proxy"}
"""What Hydra starts on each node, from the folder of its own `argv[0]` (mpiexec.c, `base_path`)."""


def _missing_proxy(case: InjectionAttempt, launcher: str, file: str) -> str:
    """Return the helper that a launcher does not find, empty where it has one or is a script."""
    name = _PROXIES.get(launcher, "")
    if not name or "/" not in file or case.view.look(f"{posixpath.dirname(file)}/{name}"):
        return ""
    return name if elf_at(case.view, file) else ""


def environment_findings(case: InjectionAttempt) -> Iterator[Finding]:
    """Yield whether a launcher must be kept from the variables that its ranks need."""
    view, file = case.after.searcher.view, case.question.launcher_file
    if not file or view.look(file) is None or is_own(case, file):
        return
    environment = case.environment(relocated=bool(moved_from(case)))
    paths = environment.get("LD_LIBRARY_PATH", "")
    preload = environment.get("LD_PRELOAD", "")
    setting = LoaderSettings(
        library_path=tuple(paths.split(":")) if paths else (),
        preload=tuple(preload.split(":")) if preload else (),
    )
    closure = _closure_of(case, file, setting)
    if closure is None:
        return
    taken = [loaded.path for loaded in closure.objects[1:] if case.owns(loaded.path)]
    if "OPAL_PREFIX" in environment and _is_of_openmpi(closure):
        taken.append(environment["OPAL_PREFIX"])
    if taken:
        words = " ".join(f"{name}={shlex.quote(value)}" for name, value in environment.items())
        yield Finding(
            cause=Cause.LAUNCHER,
            effect=Effect.STEP,
            message=f"the variables are for the ranks alone: with them `{file}` itself would take "
            f"`{taken[0]}`",
            file=file,
            provider=taken[0],
            remedy=f"{posixpath.basename(file)} … env {words} {case.after.program.path}",
        )


def _is_of_openmpi(closure: Closure) -> bool:
    names = (loaded.elf.soname for loaded in closure.objects[1:])
    return any(name.startswith(("libopen-rte.", "libopen-pal.", "libprrte.")) for name in names)


def _refused(case: InjectionAttempt, launcher: str, why: str) -> Finding:
    main = case.main
    return Finding(
        cause=Cause.LAUNCHER,
        effect=Effect.FAILS,
        message=f"`{launcher}` would start N jobs of one rank each, or none: {why}",
        file=main.path if main else "",
        remedy=f"start it with the MPI's own mpiexec, in `{case.replacement.home}/bin`",
    )


def is_own(case: InjectionAttempt, file: str) -> bool:
    """Return true for a launcher of the injected MPI: in its prefix, or on its run-time library.

    In a folder of the system several MPIs lie beside each other: there the file that the launcher
    itself loads as Open MPI's run-time library decides, or another copy of the same build.
    """
    if case.owns(file):
        return True
    runtimes = {
        loaded_file.elf.build_id or loaded_file.file.identity
        for loaded_file in _loaded(case)
        if _is_runtime(loaded_file)
    }
    own = _closure_of(case, file)
    loaded = own.objects[1:] if own else ()
    used = [
        loaded_file.elf.build_id or loaded_file.file.identity
        for loaded_file in loaded
        if _is_runtime(loaded_file)
    ]
    return bool(used) and runtimes.issuperset(used)


def _is_runtime(loaded: MappedObject) -> bool:
    name = loaded.soname
    return name.startswith(("libopen-rte.", "libprrte."))


def _loaded(case: InjectionAttempt) -> tuple[MappedObject, ...]:
    """Return the libraries loaded with the injected MPI, also where it is opened later."""
    objects = tuple(case.after.objects)
    main = case.main
    if main is None or any(
        case.is_injected(loaded) and abi.family_of(loaded.elf) for loaded in objects
    ):
        return objects
    own = _closure_of(case, main.path, case.after.searcher.setting)
    return (*objects, *own.objects) if own else objects


def _closure_of(
    case: InjectionAttempt, path: str, setting: LoaderSettings | None = None
) -> Closure | None:
    """Return the libraries that a file loads by itself, None for a script."""
    searcher = case.after.searcher
    try:
        return load_program(
            searcher.view, path, machine=searcher.machine, setting=setting or LoaderSettings()
        )
    except StackproofError:
        return None


def _spoken(case: InjectionAttempt) -> frozenset[str]:
    """Return the ways that the injected MPI can take."""
    main = case.main
    if main is None:
        return frozenset()
    ways = set()
    # PMIx is a library of its own; Open MPI 4 has it inside.
    if main.family.abi == Abi.OPENMPI or any(
        "PMIx_Init" in loaded.elf.exports for loaded in _loaded(case)
    ):
        ways.add("pmix")
    if main.family.abi != Abi.OPENMPI and _has_words(case, "PMI_FD"):
        ways.add("pmi")
    return frozenset(ways)


def _has_words(case: InjectionAttempt, word: str) -> bool:
    """Return true where the injected MPI has a variable or function, by whatever name."""
    file = case.view.look(case.main.path) if case.main else None
    try:
        return file is not None and word in case.view.traces(file).words
    except StackproofError:
        return False


def _is_openmpi4(case: InjectionAttempt) -> bool:
    return any(
        posixpath.basename(loaded.path).startswith("libopen-rte.") for loaded in _loaded(case)
    )


def namespace_findings(case: InjectionAttempt) -> Iterator[Finding]:
    """Yield what a user namespace for every rank does: the kernel refuses single-copy reads."""
    if case.question.namespaces != "per-rank" or case.main is None:
        return
    if case.main.family.abi == Abi.MPICH and _has_words(case, "process_vm_readv"):
        yield Finding(
            cause=Cause.NAMESPACES,
            effect=Effect.STEP,
            message="this MPICH reads other ranks' memory (process_vm_readv) and aborts where each "
            "rank has a user namespace of its own",
            file=case.main.path,
            remedy="let all ranks of a node join one namespace; else "
            "MPIR_CVAR_CH4_CMA_ENABLE=0, at half the bandwidth",
        )
