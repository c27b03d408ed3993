"""Stack and lock of a vendor's MPI to plan: every step of the build, as data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from urllib.parse import quote

from stackproof.build import benchmark, bom, tail
from stackproof.build.engine import Sources
from stackproof.build.engines.vendor import releases, selection
from stackproof.build.engines.vendor.stack import VendorLock, VendorRpm, VendorStack
from stackproof.build.plan import BUILD, PYTHON, TOOLS, Copy, Plan, Step
from stackproof.build.transport_views import TransportViews, transport_views
from stackproof.core.command import Command, EnvPatch
from stackproof.core.value import replace
from stackproof.image.model import Image, MpiFacts, View
from stackproof.mpi import families
from stackproof.mpi.transports.profile import Libfabric

INSTALL = "vendor"
"""What the step reports that changes libraries: they are read again when it has ended."""
_CHANGES = "changes.json"
SPACK = "config/packages.yaml"
"""The file of an image that makes its MPI known to Spack, as in images of Spack's."""


def build_plan(stack: VendorStack, lock: VendorLock, sources: Sources) -> Plan:
    """Return the plan that builds the image of a locked stack."""
    install = install_step(stack, lock)
    facts = mpi_facts(stack, lock)
    native = facts if benchmark.NATIVE in stack.benchmarks else None
    rest = (
        *tail.compiled(stack, native, sources.csrc, environment(stack, lock)),
        tail.metadata_step(
            describe_image(stack, lock), stack, lock,
            bill=render_bom(stack, lock), recipe=sources.recipe,
        ),
        tail.packed(stack),
    )  # fmt: skip
    steps = (install, *tail.in_turn(rest, install.id))
    return Plan(name=stack.name, mount=stack.mount, steps=steps)


def install_step(stack: VendorStack, lock: VendorLock) -> Step:
    """Return the step that lays out the files of the RPMs and fits them to their new place."""
    files = {file.target: file for one in lock.packages for file in one.files}
    return Step(
        name="install",
        description=f"put {len(files)} files of {len(lock.packages)} RPMs into {stack.mount}",
        files={SPACK: spack_packages(stack, lock)},
        copies={
            f"store/{file.target}": Copy(sha256=file.sha256, executable=file.executable)
            for file in files.values()
            if file.kind != "link"
        },
        build_files={_CHANGES: json.dumps(_changes(stack, lock), indent=1, sort_keys=True)},
        commands=(
            Command(
                argv=(PYTHON, "-I", "-S", f"{TOOLS}/vendor_worker.py", f"{BUILD}/{_CHANGES}"),
            ),
        ),
        outputs=(*dict.fromkeys(one.folder for one in lock.packages), SPACK),
        reports=INSTALL,
    )


def _changes(stack: VendorStack, lock: VendorLock) -> dict[str, object]:
    """Return what the worker is to do."""
    prefix = mpi_facts(stack, lock).prefix
    files = {file.target: file for one in lock.packages for file in one.files}
    compilers = releases.COMPILERS.get(lock.compiler.partition("-")[0], releases.COMPILERS["gnu"])
    bin_folder = f"{lock.mpi.folder}/bin/"
    return {
        "mount": stack.mount,
        "links": {one.target: one.link for one in files.values() if one.kind == "link"},
        "libraries": {
            target: {"rpath": one.rpath, "add": one.add, "replace": dict(one.replace)}
            for target, one in selection.changes(stack, lock).items()
        },
        "texts": [one.target for one in files.values() if one.kind == "text"],
        "wrappers": [
            one.target
            for one in files.values()
            if one.kind == "text" and one.target.startswith(bin_folder)
        ],
        "variables": {
            "prefix": prefix, "exec_prefix": prefix, "sysconfdir": f"{prefix}/etc",
            "includedir": f"{prefix}/include", "modincdir": f"{prefix}/include",
            "libdir": f"{prefix}/lib",
            **dict(zip(("CC", "CXX", "FC"), compilers, strict=True)),
        },
        "library": selection.main_library(lock),
        "linked": _linked(stack, lock),
        "moved": {one.root: f"{stack.mount}/{one.folder}" for one in lock.packages},
    }  # fmt: skip


def _linked(stack: VendorStack, lock: VendorLock) -> str:
    """Return what a wrapper links in the place of the MPI's library alone.

    The library for GPUs calls the driver, which only nodes with a GPU have: programs are linked
    without it.
    """
    words = ["-Wl,--disable-new-dtags", "-Wl,-rpath,$libdir", f"-l{selection.main_library(lock)}"]
    gtl = selection.gtl_library(lock)
    if gtl:
        folder = next(one.folder for one in lock.packages if one.product == "gtl")
        place = f"{stack.mount}/{folder}/lib"
        words += [f"-L{place}", f"-Wl,-rpath,{place}", "-Wl,--allow-shlib-undefined", f"-l{gtl}"]
    return " ".join(words)


def spack_packages(stack: VendorStack, lock: VendorLock) -> str:
    """Return a packages.yaml of Spack with the MPI as an external, which is never built."""
    name, compiler = families.REGISTRY[stack.mpi_family].name, lock.compiler.partition("-")
    spec = f"{name}@{lock.mpi.product_version} +wrappers"
    if stack.gtl != "none":
        spec += f" +{stack.gtl}"
    lines = (
        "# For `spack: packages:` of a site, or the packages.yaml of a cluster configuration.",
        "packages:",
        f"  {name}:",
        "    buildable: false",
        "    externals:",
        f"    - spec: {spec}",
        f"      prefix: {mpi_facts(stack, lock).prefix}",
        "  mpi:",
        f"    require: [{name}]  # compiled for {compiler[0]} {compiler[2]}",
    )
    return "\n".join(lines) + "\n"


def mpi_facts(stack: VendorStack, lock: VendorLock) -> MpiFacts:
    """Return what the image will say about its MPI."""
    return MpiFacts(
        family=stack.mpi_family,
        version=lock.mpi.product_version,
        prefix=f"{stack.mount}/{lock.mpi.folder}",
        launcher=families.REGISTRY[stack.mpi_family].launcher,
    )


def environment(stack: VendorStack, lock: VendorLock) -> EnvPatch:
    """Return what the MPI needs to compile and to run; with its library for GPUs it is asked to.

    Without `MPICH_GPU_SUPPORT_ENABLED=1` Cray MPICH takes no buffer of a GPU (`man intro_mpi`).
    """
    found = families.REGISTRY[stack.mpi_family].environment(mpi_facts(stack, lock).prefix)
    if stack.gtl == "none":
        return found
    return found.then(EnvPatch(set={"MPICH_GPU_SUPPORT_ENABLED": "1"}))


def transports_of(stack: VendorStack, lock: VendorLock) -> TransportViews:
    """Return the changes by views of the recipe's transports, and those that cannot be views."""
    own = [view.name for view in stack.views]
    return transport_views(stack, mpi_facts(stack, lock), Libfabric(), taken=own)


def describe_image(stack: VendorStack, lock: VendorLock) -> Image:
    """Return the description in an image: also that nobody may hand it on.

    Raises `StackproofError` (UNSUPPORTED) for a transport of the recipe that cannot be had.
    """
    facts, needs = mpi_facts(stack, lock), environment(stack, lock)
    views = {
        view.name: View(
            name=view.name,
            root=f"{stack.mount}/env/{view.name}",
            description=view.description,
            env=needs.then(view.filled(prefix=facts.prefix, mount=stack.mount)),
            features=tail.of_mpi(facts, "" if stack.gtl == "none" else stack.gtl),
        )
        for view in stack.views
    }
    programs = {name: benchmark.program_path(stack.mount) for name in stack.benchmarks}
    changes = transports_of(stack, lock).required()
    image = tail.described(stack, lock, facts, programs, views, changes)
    return replace(image, redistribute=False)


def render_bom(stack: VendorStack, lock: VendorLock) -> str:
    """Return the bill of materials: each RPM with its digest, and what the machine brings."""
    parts = [_part(one) for one in lock.packages]
    parts += [_of_site(name, user) for name, user in sorted(selection.outside(stack, lock).items())]
    facts = {**stack.site_facts, "compiler-of-mpi": lock.compiler, "redistribute": "no"}
    return bom.render(stack, lock, parts, needs=[part.ref for part in parts], facts=facts)


def _part(one: VendorRpm) -> bom.BillEntry:
    version = f"{one.version}-{one.release}"
    words: Mapping[str, str] = {
        "arch": one.architecture,
        **({"epoch": str(one.epoch)} if one.epoch else {}),
    }
    query = "&".join(f"{key}={quote(value, safe='')}" for key, value in words.items())
    return bom.BillEntry(
        name=one.name,
        version=version,
        ref=f"rpm:{one.nevra}",
        scope="required",
        sha256=one.sha256,
        licence=one.licence,
        purl=f"pkg:rpm/hpe/{quote(one.name, safe='')}@{quote(version, safe='')}?{query}",
        properties={"rpm:file": one.filename, "rpm:vendor": one.vendor or "not stated"},
    )


def _of_site(soname: str, user: str) -> bom.BillEntry:
    return bom.BillEntry(
        name=soname,
        version="",
        ref=f"site:{soname}",
        scope="required",
        properties={"site:needed-by": user, "site:from": releases.site_package(soname)},
    )
