"""An MPI of EESSI, as its programs find it: its own, or one that a site has put under it.

Where things lie is EESSI's layout (eessi.io/docs, "Filesystem layer"; its init/modules/EESSI): a
version has its software by processor, and the site's part differs from it by one word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

REPOSITORY = "/cvmfs/software.eessi.io"

OWN, INJECTED = "none", "host_injections"
"""What `inject` may be besides a folder: EESSI's own MPI, or what the site has put under it."""

# EasyBuild's suffix of a module's version: the compiler, then an accelerator.
_TOOLCHAIN = re.compile(r"-(GCC|LLVM|NVHPC|intel-compilers)(?:core)?-[\d.]+")
_ACCELERATOR = re.compile(r"-(CUDA|ROCm)-([\d.]+)")
_COMPILERS = {"intel-compilers": "Intel"}


def software_of(repository: str, version: str, cpu: str = "") -> str:
    """Return the folder of a version's software, for a processor such as `x86_64/amd/zen3`."""
    return f"{repository}/versions/{version}/software/linux/{cpu}".rstrip("/")


def site_of(repository: str, software: str) -> str:
    """Return the site's folder beside that of a version's software for a processor."""
    rest = software.removeprefix(f"{repository}/versions/")
    return f"{repository}/host_injections/{rest}"


def start_script(repository: str, version: str) -> str:
    """Return the script that starts EESSI's own Lmod and loads its module."""
    return f"{repository}/versions/{version}/init/lmod/bash"


def override_folders(site: str, family: str, modules: Sequence[str]) -> tuple[str, ...]:
    """Return the folders that programs of a toolchain look into before any other, in their order.

    `modules` are loaded ones: the last one with a compiler in its version tells the toolchain
    (EESSI's eb_hooks.py: accelerator and compiler, compiler, plain; each with lib and lib64).
    """
    names = dict.fromkeys((*_variants(modules), "system"))
    return tuple(
        f"{site}/rpath_overrides/{family}/{name}/{library}"
        for name in names
        for library in ("lib", "lib64")
    )


def _variants(modules: Sequence[str]) -> Iterator[str]:
    for name in reversed(modules):
        if found := _TOOLCHAIN.search(name):
            compiler = _COMPILERS.get(found[1], found[1])
            if accelerator := _ACCELERATOR.search(name):
                yield f"system-{compiler}-{accelerator[1].upper()}-{accelerator[2]}"
            yield f"system-{compiler}"
            return


def wrapper_script(wrapper: str) -> str:
    """Return a script that calls a compiler wrapper with the linker that lies beside the script."""
    return f'#!/bin/sh\nexec "{wrapper}" "-B${{0%/*}}/" "$@"\n'


def linker_script(folders: Sequence[str]) -> str:
    """Return a script that links as EESSI's compilers do: the folders come first in a DT_RPATH.

    A wrapper may ask for a DT_RUNPATH, in which the loader would look too late; EasyBuild's linker
    leaves that word out as well.
    """
    paths = ":".join(folders)
    return (
        "#!/bin/sh\nfor word do\n    shift\n"
        '    [ "$word" = --enable-new-dtags ] || set -- "$@" "$word"\ndone\n'
        f'exec ld --disable-new-dtags -rpath "{paths}" "$@"\n'
    )
