"""What a site file says of its system: the C library, other libraries, and the processors.

What an image needs (`inject.needs`) is held against it. What the file does not say is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import field

from stackproof.core.value import Value
from stackproof.inject.releases import Releases
from stackproof.linking.loader.machine import LEVELS

if TYPE_CHECKING:
    from stackproof.site.model import Site

_C_LIBRARY = re.compile(
    r"(?:ld-linux[\w.-]*|ld64|lib(?:c|m|mvec|dl|pthread|rt|util|resolv|anl|nsl|crypt|BrokenLocale|"
    r"thread_db))\.so\.\d+"
)
_COMPILER = re.compile(r"lib(?:stdc\+\+|gcc_s|gfortran|quadmath|gomp|atomic)\.so\.\d+")
_DRIVER = {
    "nvidia": re.compile(r"lib(?:cuda|nvidia-[\w-]+|nvcuvid)\.so(?:\.\d+)*"),
    "amd": re.compile(r"lib(?:hsa-runtime64|amdhip64|drm_amdgpu)\.so(?:\.\d+)*"),
}
_PRODUCTS = {
    "glibc": "glibc",
    "libfabric": "libfabric",
    "slingshot-host-software": "Slingshot host software",
    "gcc": "GCC",
}
"""How sites call what `knowledge/symbol-versions.yaml` knows releases of."""
_LIBRARIES = {
    "libfabric": "libfabric.so.1",
    "libcxi": "libcxi.so.1",
    "slingshot-host-software": "libcxi.so.1",
    "xpmem": "libxpmem.so.0",
}
"""What sites name as externals, by the library that comes with it."""


class Target(Value):
    """A machine by its facts.

    `nodes` has the newest version node of each kind that its system has; `os_name` is the name
    of that where its glibc follows from nothing else; `present` are libraries that it is known
    to have, by SONAME. `level` is the level of its processors, empty when unknown. `gpu` is
    nvidia, amd, none or empty.
    """

    name: str
    architecture: str = ""
    level: str = ""
    nodes: Mapping[str, str] = field(default_factory=dict)
    os_name: str = ""
    present: frozenset[str] = frozenset()
    gpu: str = ""

    def because(self, kind: str) -> str:
        """Return words that say what a node of a kind follows from; empty for what is stated."""
        return f", as {self.os_name} has" if self.os_name and kind == "GLIBC" else ""

    def has(self, soname: str) -> bool:
        """Return whether the machine is known to have a library."""
        if soname in self.present or (self.gpu in _DRIVER and _DRIVER[self.gpu].fullmatch(soname)):
            return True
        if _COMPILER.fullmatch(soname):
            return "GLIBCXX" in self.nodes
        return is_c_library(soname) and "GLIBC" in self.nodes


def is_c_library(soname: str) -> bool:
    """Return whether a library is of glibc, whose release says all of it."""
    return _C_LIBRARY.fullmatch(soname) is not None


# Levels of the x86-64 psABI by the names that Spack gives to processors.
# Source: microarchitectures.json of https://github.com/archspec/archspec-json.
_LEVELS = {
    **dict.fromkeys(("x86_64", "core2", "k10"), LEVELS[0]),
    **dict.fromkeys(("x86_64_v2", "nehalem", "westmere", "sandybridge", "ivybridge"), LEVELS[1]),
    **dict.fromkeys(
        ("x86_64_v3", "haswell", "broadwell", "skylake", "zen", "zen2", "zen3"), LEVELS[2]
    ),
    **dict.fromkeys(
        ("x86_64_v4", "skylake_avx512", "cascadelake", "icelake", "sapphirerapids", "zen4", "zen5"),
        LEVELS[3],
    ),
}


def target_of_site(site: Site, releases: Releases) -> Target:
    """Return what a site says; of several partitions what holds for all of them."""
    every = {**site.tools, **site.externals}
    versions = {name: one.version for name, one in every.items() if one.version}
    follows = "" if site.glibc else releases.glibc_of(site.os or "")
    if glibc := site.glibc or follows:
        versions["glibc"] = glibc
    told = {word: versions[word] for word in _PRODUCTS if word in versions}
    nodes: dict[str, str] = {}
    for word, release in told.items():
        nodes |= releases.nodes_of(_PRODUCTS[word], release)
    if "glibc" in told:
        nodes["GLIBC"] = f"GLIBC_{'.'.join(told['glibc'].split('.')[:2])}"
    if "gcc" in told:  # nodes of libgcc and libgfortran are called by the release of GCC
        nodes |= {kind: f"{kind}_{told['gcc']}" for kind in ("GCC", "GFORTRAN")}
    partitions = tuple(site.partitions.values())
    machines = {one.architecture for one in partitions}
    found = [_LEVELS.get(one.microarchitecture or "", "") for one in partitions]
    gpus = {"none" if one.gpus == 0 else _maker(one.gpu) for one in partitions}
    return Target(
        name=site.name,
        architecture=(machines.pop() or "") if len(machines) == 1 else "",
        level=min(found, key=LEVELS.index) if found and all(found) else "",
        nodes=nodes,
        os_name=(site.os or "") if follows else "",
        present=frozenset(_LIBRARIES[name] for name in every if name in _LIBRARIES),
        gpu=gpus.pop() if len(gpus) == 1 else "",
    )


def _maker(gpu: str | None) -> str:
    word = (gpu or "").partition(" ")[0].lower()
    return word if word in _DRIVER else ""
