"""A plan to what its image will need of a machine, as far as that is known before it is built.

Files tell the rest once they are there (`inject.needs`). Until then a wheel's tag and the glibc of
the machine that compiles are the most that an image can ask for, and how programs start the least.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import field

from stackproof.build.plan import Plan
from stackproof.core.value import Value
from stackproof.core.versions import versions
from stackproof.inject.needs import Lacks, TreeNeeds, lacks
from stackproof.inject.releases import Releases, number_of
from stackproof.inject.target import target_of_site
from stackproof.site.model import Site

_BILL = "bom.cdx.json"
_TAG = re.compile(r"manylinux_(\d+)_(\d+)_|manylinux(1|2010|2014)_")
_OLD_TAGS = {"1": (2, 5), "2010": (2, 12), "2014": (2, 17)}
"""Source: https://peps.python.org/pep-0600/ (legacy manylinux tags)."""
_NEW_START = "GLIBC_2.34"
"""What every program asks for that is linked with this glibc or a newer one: `__libc_start_main`.

Source: the news of glibc 2.34, https://sourceware.org/glibc/wiki/Release/2.34.
"""
_KERNELS = {"zstd": "4.14", "lz4": "3.19"}
"""The first Linux that mounts SquashFS of a compression; gzip and xz it always did.

Source: fs/squashfs/Kconfig of https://git.kernel.org/pub/scm/linux/kernel/git/torvalds/linux.git.
"""
_DRIVERS = {"11": "450.80", "12": "525.60", "13": "580.0"}
"""The oldest driver of NVIDIA's for all releases of a CUDA.

Source: https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html.
"""
_SLINGSHOT, _DRIVER = "slingshot-host-software", "nvidia-driver"
"""What sites call the software of the network, and the driver of GPUs, among their externals."""


class ForeseenNeeds(Value):
    """What an image will need: `least` in any case, `most` as far as it is known already.

    `brings` are releases, by name, of what it brings along that must fit the machine's kernel and
    drivers; `kernel` is the first Linux that mounts it without FUSE, empty for any.
    """

    least: TreeNeeds
    most: TreeNeeds
    brings: Mapping[str, str] = field(default_factory=dict)
    kernel: str = ""


def foresee(plan: Plan, stack: Any, glibc: str, *, locked: bool) -> ForeseenNeeds:
    """Return what the image of a plan will need; `glibc` is that of the machine that compiles.

    What is not `locked` yet is taken to be compiled.
    """
    least: dict[str, str] = {}
    most: dict[str, str] = {}
    asks: dict[str, str] = {}
    for name in (one.filename for step in plan.steps for one in step.fetch):
        node = _node_of(name)
        if number_of(node) > number_of(most.get("GLIBC", "")):
            most["GLIBC"], asks["GLIBC"] = node, name
    here = f"GLIBC_{glibc}" if glibc else ""
    if not locked or any(step.compiles for step in plan.steps):
        if number_of(here) > number_of(most.get("GLIBC", "")):
            most["GLIBC"], asks["GLIBC"] = here, "what is compiled here"
        if number_of(here) >= number_of(_NEW_START):
            least["GLIBC"] = _NEW_START
    return ForeseenNeeds(
        least=TreeNeeds(
            machine=stack.architecture, nodes=least, asks={"GLIBC": "what is compiled here"}
        ),
        most=TreeNeeds(machine=stack.architecture, nodes=most, asks=asks),
        brings=dict(sorted(_brought(plan))),
        kernel=_KERNELS.get(stack.compression, ""),
    )


def lacking(needs: ForeseenNeeds, site: Site, releases: Releases) -> Lacks:
    """Return what a site lacks for certain, and what its file, or only the build, can tell."""
    target = target_of_site(site, releases)
    sure, most = (lacks(one, target, releases) for one in (needs.least, needs.most))
    perhaps = [] if sure.lacks else [f"perhaps {text}" for text in most.lacks]
    found = [*_drivers(needs, site)]
    return Lacks(
        lacks=(*sure.lacks, *(text for known, text in found if known)),
        unknown=(*perhaps, *most.unknown, *(text for known, text in found if not known)),
    )


def _node_of(filename: str) -> str:
    """Return the newest glibc that a wheel may ask for, by its tags; empty for another file."""
    found = [
        _OLD_TAGS[old] if old else (int(major), int(minor))
        for major, minor, old in _TAG.findall(filename)
    ]
    return f"GLIBC_{'.'.join(map(str, min(found)))}" if found else ""


def _brought(plan: Plan) -> Iterator[tuple[str, str]]:
    """Yield what the bill of materials names of what must fit a kernel or a driver."""
    for step in plan.steps:
        for path, text in step.files.items():
            if not path.endswith(_BILL):
                continue
            for part in json.loads(text).get("components", ()):
                outside = any(p["name"] == "spack:external" for p in part.get("properties", ()))
                needed = part.get("scope", "required") == "required"
                if part["name"] in {"libcxi", "cuda"} and needed and not outside:
                    yield part["name"], str(part["version"])


def _drivers(needs: ForeseenNeeds, site: Site) -> Iterator[tuple[bool, str]]:
    """Yield what is known to be lacking (True), or not known, of kernel and drivers."""
    stated = {name: one.version for name, one in site.externals.items() if one.version}
    if needs.kernel and not _reaches(site.kernel or "", needs.kernel):
        has = (
            f"{site.name} has {site.kernel}" if site.kernel else f"{site.name} does not say its own"
        )
        text = f"a kernel that mounts the image without FUSE, Linux {needs.kernel} or a backport"
        yield False, f"{text}: {has}"
    if libcxi := needs.brings.get("libcxi"):
        has = stated.get(_SLINGSHOT, "")
        if not _reaches(has, libcxi):
            told = f"has that of {has}" if has else f"does not say its `{_SLINGSHOT}`"
            yield False, f"a driver that answers libcxi {libcxi}: {site.name} {told}"
    if cuda := needs.brings.get("cuda"):
        wanted, has = _DRIVERS.get(cuda.partition(".")[0], ""), stated.get(_DRIVER, "")
        text = f"a driver for CUDA {cuda}" + (f", {wanted} or newer" if wanted else "")
        if not wanted or not has:
            yield (
                False,
                f"{text}: {site.name} "
                + (f"has {has}" if has else f"does not say its `{_DRIVER}`"),
            )
        elif not _reaches(has, wanted):
            yield True, f"{text}: {site.name} has {has}"


def _reaches(has: str, wanted: str) -> bool:
    """Return whether a release is known to be another one or newer; suffixes do not count."""
    found = re.match(r"\d+(?:\.\d+)*", has)
    return bool(found) and versions(found[0] if found else "").within(versions(f"{wanted}:"))
