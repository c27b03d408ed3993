"""Benchmark programs compiled for an arm by the wrappers of its own MPI, once for equal inputs.

What is compiled lies in the cache, in a folder whose name is a digest of the sources, the commands,
and of what the wrappers are (`MpiWrappers.identity`).
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path

from stackproof.bench.programs import solver
from stackproof.bench.ready import MpiWrappers
from stackproof.build.benchmark import FLAGS, LIBRARIES, NATIVE
from stackproof.build.programs import ProgramSource
from stackproof.core.command import Command
from stackproof.core.effects import cache_folder, cache_kinds, files, shipped
from stackproof.core.effects.run import check

PROBE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
int main(int count, char **names) {
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;
    Dl_info found;
    if (count > 1) {
        for (int i = 1; i < count; i++)
            if (dlopen(names[i], RTLD_LAZY)) printf("%s\n", names[i]);
        return 0;
    }
    void *address = dlsym(RTLD_DEFAULT, "MPI_Init");
    MPI_Get_library_version(text, &length);
    printf("library %s\n", address && dladdr(address, &found) ? found.dli_fname : "");
    printf("%.*s\n", length, text);
    return 0;
}
"""
"""Says which library a compiled program got, and what that calls itself. MPI allows
`MPI_Get_library_version` before MPI_Init (MPI 4.1, section 9.1.1), so that nothing is started. With
names of libraries it says which of them it can open, and nothing else."""

_KIND = "programs"
# What of the benchmark program the solver is made of, too.
_SHARED = (
    "clocks", "disturb", "emit", "evidence", "gpu", "mapped", "memory", "network", "parse",
    "pattern", "tell",
)  # fmt: skip
_KEPT_BYTES = 2 << 30
_TIMEOUT_S = 1800.0


def native_source() -> ProgramSource:
    """Return our own benchmark program, with the flags that images have it compiled with."""
    sources = shipped.benchmark_sources()
    units = sorted(name for name in sources if name.endswith(".c"))
    return ProgramSource(
        name=NATIVE,
        files=sources,
        commands=(("{c}", *FLAGS, "-o", NATIVE, *units, *LIBRARIES),),
        outputs=(NATIVE,),
    )


def solver_source() -> ProgramSource:
    """Return our own solver, which tells what the benchmark program tells by the same files."""
    shared = shipped.benchmark_sources()
    own = {f"solver/{name}": text for name, text in shipped.benchmark_sources("solver").items()}
    units = (*(f"{name}.c" for name in _SHARED), *(name for name in own if name.endswith(".c")))
    return ProgramSource(
        name=solver.NAME,
        files=shared | own,
        commands=(
            ("{c}", *FLAGS, "-DSTACKPROOF_SOLVER", "-I.", "-o", solver.NAME, *units, *LIBRARIES),
        ),
        outputs=(solver.NAME,),
    )


def probe_source() -> ProgramSource:
    """Return the program that says which MPI's library it got, `ask`."""
    return ProgramSource(
        name="mpi-probe",
        files={"ask.c": PROBE},
        commands=(("{c}", "-o", "ask", "ask.c", "-ldl"),),
        outputs=("ask",),
    )


def parse_probe(text: str) -> tuple[str, str]:
    """Return the library's path and what it calls itself, from what the probe printed."""
    first, _, said = text.partition("\n")
    return first.removeprefix("library ").strip(), said.strip("\0\n ")


def compile_program(compilers: MpiWrappers, source: ProgramSource) -> Path:
    """Return the folder with a program's sources and outputs, compiled unless it is there.

    Raises `StackproofError`: BUILD_FAILED with the last lines of the compiler, TOOL_MISSING, and
    what a cache that cannot be written raises.
    """
    place = cache_kinds.home(_KIND) / f"{source.name}-{_digest(compilers, source)[:32]}"
    cache_kinds.in_use()
    if not place.is_dir():
        with cache_folder.alone(place):
            if not place.is_dir():
                with cache_folder.making(place) as folder:
                    _compile(compilers, source, folder)
                cache_folder.prune(_KIND, _KEPT_BYTES, keep=place)
    cache_folder.used(place)
    return place


def _compile(compilers: MpiWrappers, source: ProgramSource, folder: Path) -> None:
    for name, content in source.files.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        files.write(target, content)
    folder.chmod(0o755)
    start = tuple(word.replace("{folder}", str(folder)) for word in compilers.start)
    filled = {**compilers.wrappers, "jobs": str(len(os.sched_getaffinity(0)))}
    for words in source.commands:
        argv = tuple(_filled(word, filled) for word in words)
        check(
            Command(argv=(*start, *argv), cwd=str(folder), env=compilers.env, timeout_s=_TIMEOUT_S)
        )
    check(Command(argv=("ls", "-d", *source.outputs), cwd=str(folder)))  # says which is missing


def _filled(word: str, words: Mapping[str, str]) -> str:
    for name, text in words.items():
        word = word.replace(f"{{{name}}}", text)
    return word


def _digest(compilers: MpiWrappers, source: ProgramSource) -> str:
    contents = {
        name: hashlib.sha256(os.fsencode(content) if isinstance(content, str) else content)
        for name, content in source.files.items()
    }
    whole = [
        compilers.identity,
        dict(sorted(compilers.wrappers.items())),
        sorted((name, digest.hexdigest()) for name, digest in contents.items()),
        source.commands,
        source.outputs,
    ]
    return hashlib.sha256(json.dumps(whole).encode()).hexdigest()
