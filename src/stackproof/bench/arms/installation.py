"""An MPI as it is installed, and what it answered: the probe, its environments, its programs."""

from __future__ import annotations

import os
from collections.abc import Mapping

from msgspec import field

from stackproof.core.command import EnvPatch
from stackproof.core.value import Value
from stackproof.mpi.families import REGISTRY

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
    return (("", bare), *((one.name, one.environment(prefix)) for one in REGISTRY.values()))


def parse_probe(text: str) -> tuple[str, str]:
    """Return the library's path and what it calls itself, from what the probe printed."""
    first, _, said = text.partition("\n")
    return first.removeprefix("library ").strip(), said.strip("\0\n ")
