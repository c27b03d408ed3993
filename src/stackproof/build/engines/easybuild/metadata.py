"""Stack and lock to what the image says of itself, and to its views."""

from __future__ import annotations

from collections.abc import Iterator

from stackproof.build import benchmark, bom, programs, tail
from stackproof.build.engines.easybuild import layout
from stackproof.build.engines.easybuild.chain import Easyconfig
from stackproof.build.engines.easybuild.request import ExternalComponent, Gpu
from stackproof.build.engines.easybuild.stack import EasyBuildLock, EasyBuildStack
from stackproof.build.transport_views import TransportViews, transport_views
from stackproof.core.command import EnvPatch
from stackproof.image.model import Image, MpiFacts, View
from stackproof.mpi import families
from stackproof.mpi.transports.profile import Libfabric

MODULES_VIEW = "modules"
"""The view that adds the module files to MODULEPATH; every image has it."""
PROVIDERS = "easybuild:providers"
"""The property of a bill of materials that holds libfabric's providers, with commas between."""


def render_bom(stack: EasyBuildStack, lock: EasyBuildLock) -> str:
    """Return the bill of materials.

    Every component of the chain is there with its version, licence, source files and their
    digests, and what it is built on; so is what the machine brings, and EasyBuild itself, which is
    of scope `excluded`.
    """
    parts = [_part(one) for one in lock.components]
    parts += _outside(stack)
    parts += programs.program_bills(stack.programs, tuple(part.ref for part in parts))
    needs = [part.ref for part in parts]
    parts += [bom.of_index(file, kind="application", scope="excluded") for file in lock.tool]
    facts = {**stack.site_facts, "optarch": stack.optarch}
    return bom.render(stack, lock, parts, needs=needs, facts=facts)


def _part(one: Easyconfig) -> bom.BillEntry:
    properties = {"easybuild:module": one.module}
    if one.providers:
        properties[PROVIDERS] = ",".join(one.providers)
    for source in one.sources:
        where = source.accepted[0].provenance or source.address
        properties[f"source:{source.filename}"] = where
    return bom.BillEntry(
        name=one.component,
        version=one.version,
        ref=f"easybuild:{one.module}",
        scope="required",
        sha256=one.sources[0].accepted[0].sha256 if len(one.sources) == 1 else "",
        licence=one.licence,
        properties=properties,
        needs=tuple(f"easybuild:{name}" for name in one.needs),
    )


def _outside(stack: EasyBuildStack) -> Iterator[bom.BillEntry]:
    """Yield what the machine has; of its libfabric the recipe says which providers are in."""
    request = stack.request
    given: dict[str, ExternalComponent] = dict(request.externals)
    if request.gpu_at:
        given[request.gpu] = request.gpu_at
    for name, external in given.items():
        properties = {"easybuild:external": external.prefix, "easybuild:module": external.module}
        if name == "libfabric":
            properties[PROVIDERS] = ",".join(request.providers)
        yield bom.BillEntry(
            name=name,
            version=external.version,
            ref=f"external:{name}@{external.version}",
            scope="required",
            properties={key: value for key, value in properties.items() if value},
        )


def transports_of(stack: EasyBuildStack) -> TransportViews:
    """Return the changes by views of the recipe's transports, and those that cannot be views."""
    request = stack.request
    mpi = request.mpi and MpiFacts(
        family=request.mpi[0],
        version=request.mpi[1],
        prefix=stack.mount,
        launcher=families.REGISTRY[request.mpi[0]].launcher,
    )
    libfabric = Libfabric(version=request.libfabric, providers=frozenset(request.providers))
    taken = (MODULES_VIEW, *(view.name for view in stack.views))
    return transport_views(stack, mpi, libfabric, taken=taken)


def describe_image(stack: EasyBuildStack, lock: EasyBuildLock) -> Image:
    """Return the description in an image; its `path`, `size` and `sha256` are still empty.

    Raises `StackproofError` (UNSUPPORTED) for a transport of the recipe that cannot be had.
    """
    changes = transports_of(stack).required()
    facts = mpi_facts(stack, lock)
    needs = _environment(stack, lock)
    gpu = stack.request.gpu
    has = tail.of_mpi(facts, "" if gpu is Gpu.NONE else gpu.value)
    prefix = facts.prefix if facts else component_prefix(stack, lock, "libfabric")
    views = {
        view.name: View(
            name=view.name,
            root=f"{stack.mount}/env/{view.name}",
            description=view.description,
            env=needs.then(view.filled(prefix=prefix, mount=stack.mount)),
            features=has,
        )
        for view in stack.views
    }
    views[MODULES_VIEW] = View(
        name=MODULES_VIEW,
        root=f"{stack.mount}/env/{MODULES_VIEW}",
        description="module files for Lmod and Environment Modules",
        env=EnvPatch(prepend={"MODULEPATH": (f"{stack.mount}/{layout.TCL_MODULES}/all",)}),
    )
    native = benchmark.NATIVE if facts and benchmark.NATIVE in stack.benchmarks else None
    places = {native: benchmark.program_path(stack.mount)} if native else {}
    places |= programs.program_places(stack.programs, stack.mount)
    return tail.described(stack, lock, facts, places, views, changes)


def mpi_facts(stack: EasyBuildStack, lock: EasyBuildLock) -> MpiFacts | None:
    """Return what the image will say about its MPI; None for a network stack alone."""
    if stack.request.mpi is None:
        return None
    family = stack.request.mpi[0]
    found = _component(lock, family)
    return MpiFacts(
        family=family,
        version=found.version,
        prefix=f"{stack.mount}/{layout.SOFTWARE}/{found.module}",
        launcher=families.REGISTRY[family].launcher,
    )


def component_prefix(stack: EasyBuildStack, lock: EasyBuildLock, name: str) -> str:
    """Return the folder that a component is installed in; that of the machine for an external."""
    external = stack.request.externals.get(name)
    if external is not None:
        return external.prefix
    return f"{stack.mount}/{layout.SOFTWARE}/{_component(lock, name).module}"


def _component(lock: EasyBuildLock, name: str) -> Easyconfig:
    return next(one for one in lock.components if one.component == name)


def _environment(stack: EasyBuildStack, lock: EasyBuildLock) -> EnvPatch:
    """Return what a view changes: programs and libraries of the MPI and of libfabric.

    After them come OSU's benchmarks and libcxi's diagnostic programs, where a recipe asks for
    them. What is built finds its own libraries by run paths; `LD_LIBRARY_PATH` is for programs that
    were compiled elsewhere. Manual pages are found beside what is on PATH.
    """
    names = [*(stack.request.mpi or ())[:1], "libfabric"]
    prefixes = [component_prefix(stack, lock, name) for name in names]
    prefixes = [prefix for prefix in prefixes if prefix != "/usr"]  # everybody has it already
    shown = {"osu": True, "libcxi": stack.request.libcxi_tools}
    shown_folders = [
        f"{stack.mount}/{layout.SOFTWARE}/{component.module}/{folder}"
        for component in lock.components
        if shown.get(component.component, False)
        for folder in layout.PROGRAMS[component.component]
    ]
    own = programs.program_folders(stack.programs, stack.mount)
    return own.then(
        EnvPatch(
            prepend={
                "PATH": (*(f"{prefix}/bin" for prefix in prefixes), *shown_folders),
                "LD_LIBRARY_PATH": tuple(f"{prefix}/lib" for prefix in prefixes),
                "PKG_CONFIG_PATH": tuple(f"{prefix}/lib/pkgconfig" for prefix in prefixes),
            }
        )
    )
