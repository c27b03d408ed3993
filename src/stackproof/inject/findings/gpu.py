"""Closures to findings about GPUs: whether the MPI to be injected can take the program's buffers.

Cray MPICH moves GPU buffers with a library of its own (GTL, `libmpi_gtl_cuda` or `libmpi_gtl_hsa`)
that the program must be linked with: with MPICH_GPU_SUPPORT_ENABLED=1 it ends without it, and
without the variable it takes a GPU's address for one of the host (OLCF's Frontier User Guide,
"GPU-Aware MPI"; rule K44 of `knowledge/`). Others have that inside, if they were built so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from stackproof.inject.findings.symbols import InjectionAttempt
from stackproof.inject.model import Cause, Effect, Finding
from stackproof.inject.program import traces_of
from stackproof.linking.loader import Closure

_RUNTIMES = {
    "CUDA": re.compile(r"libcuda(?:rt)?\.so(?:\.\d+)*"),
    "ROCm": re.compile(r"lib(?:amdhip64|hsa-runtime64)\.so(?:\.\d+)*"),
}
_GTL = {
    "CUDA": re.compile(r"libmpi_gtl_cuda\.so(?:\.\d+)*"),
    "ROCm": re.compile(r"libmpi_gtl_hsa\.so(?:\.\d+)*"),
}
_CRAY_NAME = re.compile(r"libmpi_(?:cray|gnu|intel|amd|aocc|nvidia|pgi)(?:_\d+)?\.so\.12")
# HPE's own libraries, which no other MPI needs.
_CRAY_NEEDS = re.compile(r"lib(?:dsmml|pals)\.so\.\d+")
_PLUGIN = {
    "CUDA": re.compile(r".*cuda.*\.so.*"),
    "ROCm": re.compile(r".*(?:rocm|hip|hsa).*\.so.*"),
}


def gpu_findings(case: InjectionAttempt) -> Iterator[Finding]:
    """Yield what the files say of GPU buffers, for a program that loads CUDA or ROCm itself."""
    main = case.main
    if main is None:
        return
    for runtime in _runtimes(case):
        gtls = {kind: _named(case.after, pattern) for kind, pattern in _GTL.items()}
        if _is_cray(case):
            yield from _gtl_findings(case, runtime, gtls)
            continue
        if gtls[runtime]:
            yield Finding(
                cause=Cause.GTL,
                effect=Effect.NOTE,
                message=f"`{gtls[runtime]}` is of Cray MPICH; this MPI does not use it",
                file=case.after.program.path,
                provider=gtls[runtime],
            )
        if not _knows(case, runtime):
            yield Finding(
                cause=Cause.GPU,
                effect=Effect.CANNOT_TELL,
                message=f"the program uses {runtime}, and nothing in this MPI does: buffers in a "
                "GPU's memory would crash it, buffers of the host work",
                file=case.after.program.path,
                provider=main.path,
                remedy=f"inject an MPI built with {runtime}, unless all buffers are of the host",
            )


def _gtl_findings(case: InjectionAttempt, runtime: str, gtls: dict[str, str]) -> Iterator[Finding]:
    other = next((name for kind, name in gtls.items() if kind != runtime and name), "")
    if other and not gtls[runtime]:
        yield Finding(
            cause=Cause.GTL,
            effect=Effect.FAILS,
            message=f"the program uses {runtime}, and `{other}` is for other GPUs",
            file=case.after.program.path,
            provider=other,
            remedy="load the GTL for the program's GPUs in its place",
        )
    elif not gtls[runtime]:
        brought = [path for name, path in case.replacement.names.items()
                   if _GTL[runtime].fullmatch(name)]  # fmt: skip
        yield Finding(
            cause=Cause.GTL,
            effect=Effect.STEP if brought else Effect.CANNOT_TELL,
            message=f"the program uses {runtime} and was not linked with Cray MPICH's GTL: buffers "
            "in a GPU's memory need it",
            file=case.after.program.path,
            provider=brought[0] if brought else "",
            remedy=f"LD_PRELOAD={brought[0]} and MPICH_GPU_SUPPORT_ENABLED=1"
            if brought
            else "name the GTL of that MPI with LD_PRELOAD, unless the program hands over buffers "
            "of the host only",
        )


def _runtimes(case: InjectionAttempt) -> list[str]:
    """Return the GPU runtimes that the program and its own libraries ask for."""
    asked = {
        edge.name
        for edge in case.after.edges
        if not case.owns(case.after.objects[edge.by].path)
        and not _named_gtl(case.after.objects[edge.by].path)
    }
    return [
        kind
        for kind, pattern in _RUNTIMES.items()
        if any(pattern.fullmatch(name) for name in asked)
    ]


def _named_gtl(path: str) -> bool:
    name = path.rpartition("/")[2]
    return any(pattern.fullmatch(name) for pattern in _GTL.values())


def _named(closure: Closure, pattern: re.Pattern[str]) -> str:
    """Return the path of the first object whose name fits, empty for none."""
    for loaded in closure.objects:
        if pattern.fullmatch(loaded.elf.soname or loaded.path.rpartition("/")[2]):
            return loaded.path
    return ""


def _is_cray(case: InjectionAttempt) -> bool:
    main = case.main
    if main is None:
        return False
    return bool(_CRAY_NAME.fullmatch(main.elf.soname)) or any(
        _CRAY_NEEDS.fullmatch(name) for name in main.elf.needed
    )


def _knows(case: InjectionAttempt, runtime: str) -> bool:
    """Return whether an injected library asks for a runtime, or has a plug-in that would."""
    wanted, plugin = _RUNTIMES[runtime], _PLUGIN[runtime]
    for loaded in case.after.objects:
        if not case.owns(loaded.path):
            continue
        opened = traces_of(case.view, loaded).opened
        names = (name.rpartition("/")[2] for name in (*loaded.elf.needed, *opened))
        if any(wanted.fullmatch(name) for name in names):
            return True
    paths = case.replacement.plugins(case.view)
    return any(plugin.fullmatch(path.rpartition("/")[2]) for path in paths)
