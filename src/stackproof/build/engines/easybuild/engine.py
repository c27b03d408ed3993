"""The EasyBuild engine: components built from source, each with its module file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from stackproof.build import benchmark, bom, programs, tail
from stackproof.build.engine import (
    OWN,
    Container,
    Findings,
    Rows,
    Sources,
    Where,
    compare_wants,
    describe_container,
    licences,
    list_rows,
)
from stackproof.build.engines.easybuild import layout
from stackproof.build.engines.easybuild.chain import Easyconfig
from stackproof.build.engines.easybuild.components import ExternalComponent, Gpu
from stackproof.build.engines.easybuild.stack import (
    EasyBuildLock,
    EasyBuildStack,
    files_of,
    list_outside_folders,
    wants,
)
from stackproof.build.plan import DOWNLOADS, Plan, Step
from stackproof.build.stack import Artefact
from stackproof.build.transport_views import TransportViews, transport_views
from stackproof.core import ids
from stackproof.core.command import EnvPatch
from stackproof.core.errors import Problem, Reason
from stackproof.image.model import Image, MpiFacts, View
from stackproof.mpi.transports.profile import Libfabric

# ---------------------------------- Stack and lock to the plan that builds and packs them, as data
# One step for each component, whose inputs are the components it is built on: what else is in the
# stack, or how the image looks, does not change its id, and with it what was built before serves.


def build_plan(stack: EasyBuildStack, lock: EasyBuildLock, sources: Sources) -> Plan:
    """Return the steps that build a locked stack and pack its image."""
    steps = [_tool_step(stack, lock)]
    made: dict[str, str] = {}
    for component in lock.components:
        needs = tuple(made[name] for name in component.needs if name in made)
        step = _component_step(stack, lock, component, (steps[0].id, *needs))
        steps.append(step)
        made[component.module] = step.id
    steps.append(_tidy_step(stack, tuple(step.id for step in steps)))
    image = describe_image(stack, lock)
    native = image.mpi if stack.benchmarks else None
    own = _program_steps(stack, image.mpi, made) if image.mpi else ()
    on_path = layout.compilers_on_path(stack.request.toolchain)
    rest = (
        *tail.compiled(stack, native, sources.csrc, on_path),
        tail.metadata_step(
            image, stack, lock, bill=render_bom(stack, lock), recipe=sources.recipe,
            tools={"easybuild": stack.easybuild},
        ),
    )  # fmt: skip
    return tail.plan_of(stack, (*steps, *own), rest, behind=(steps[-1], *own))


def _tool_step(stack: EasyBuildStack, lock: EasyBuildLock) -> Step:
    """Return the step that brings EasyBuild; with what decides the bytes of everything built."""
    return Step(
        name="easybuild",
        description=f"unpack EasyBuild {stack.easybuild}",
        build_files={
            "machine.json": ids.canonical_json(
                {
                    "mount": stack.mount,
                    "architecture": stack.architecture,
                    "below": stack.below.path if stack.below else None,
                    **_compiler(stack),
                    **stack.site_facts,
                }
            ).decode()
        },
        fetch=lock.tool,
        commands=(
            layout.worker(
                "unpack", layout.TOOL, *(f"{DOWNLOADS}/{file.filename}" for file in lock.tool)
            ),
        ),
    )


def _compiler(stack: EasyBuildStack) -> dict[str, str]:
    """Return the compiler as a fact, none for the gcc of the facts or a module's."""
    toolchain = stack.request.toolchain
    return {"toolchain": f"{toolchain.name} {toolchain.version}"} if toolchain.compilers else {}


def _component_step(
    stack: EasyBuildStack, lock: EasyBuildLock, component: Easyconfig, inputs: tuple[str, ...]
) -> Step:
    path = f"{layout.EASYCONFIGS}/{component.filename}"
    metadata_file = {layout.METADATA: lock.metadata} if lock.metadata else {}
    below = stack.below.modules if stack.below else ()
    words = (path, f"--external-modules-metadata={layout.METADATA}") if lock.metadata else (path,)
    return Step(
        name=component.module.replace("/", "-"),
        description=f"build {component.name} {component.version}",
        inputs=inputs,
        build_files={path: component.text, **metadata_file},
        fetch=files_of(component),
        commands=(
            layout.eb(
                stack.mount,
                *words,
                optarch=stack.optarch,
                modules=below,
                toolchain=stack.request.toolchain,
                local=any(path.startswith("/usr/local/") for path in list_outside_folders(stack)),
            ),
        ),
        outputs=_outputs(component),
        reports=layout.INSTALL,
    )


def _outputs(component: Easyconfig) -> tuple[str, ...]:
    """Return what a component installs: its folder and module files, below the mount point."""
    return (
        f"{layout.SOFTWARE}/{component.module}",
        f"{layout.LUA_MODULES}/all/{component.module}.lua",
        f"{layout.TCL_MODULES}/all/{component.module}",
    )


def _program_steps(
    stack: EasyBuildStack, mpi: MpiFacts, made: Mapping[str, str]
) -> tuple[Step, ...]:
    """Return the steps of the recipe's programs, which stand on the MPI alone; `made` are ids."""
    module = mpi.prefix.removeprefix(f"{stack.mount}/{layout.SOFTWARE}/")
    return programs.program_steps(stack.programs, stack.mount, mpi, EnvPatch(), made[module])


def _tidy_step(stack: EasyBuildStack, inputs: tuple[str, ...]) -> Step:
    """Return the step that takes out what differs between two builds of one lock."""
    folders = (layout.SOFTWARE, layout.LUA_MODULES, layout.TCL_MODULES)
    return Step(
        name="tidy",
        description="take out logs, reports and locks of the build",
        inputs=inputs,
        commands=(layout.worker("tidy", *(f"{stack.mount}/{folder}" for folder in folders)),),
    )


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
    mpi = request.mpi and tail.facts_of(*request.mpi, stack.mount)
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
    views = tail.own_views(stack, prefix, needs, has)
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
    """Return the facts of the image about its MPI; None for a network stack alone."""
    if stack.request.mpi is None:
        return None
    family = stack.request.mpi[0]
    found = _component(lock, family)
    prefix = f"{stack.mount}/{layout.SOFTWARE}/{found.module}"
    return tail.facts_of(family, found.version, prefix)


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


LMOD = "/usr/share/lmod/lmod/libexec/lmod"
"""Where the package `lmod` of Debian and Ubuntu has the program that EasyBuild calls."""
# What EasyBuild asks for (https://docs.easybuild.io/installation/, Requirements); a chain may run
# more programs.
_PACKAGES = (
    "bzip2", "ca-certificates", "curl", "file", "g++", "gcc", "git", "gzip", "libc6-dev",
    "lmod", "make", "patch", "python3", "python3-pip", "tar", "xz-utils",
)  # fmt: skip
HEADERS: Mapping[str, tuple[str, str]] = {
    "curl/curl.h": ("libcurl4-openssl-dev", "libcurl4"),
    "infiniband/efadv.h": ("libibverbs-dev", "ibverbs-providers"),
    "infiniband/verbs.h": ("libibverbs-dev", "ibverbs-providers"),
    "numa.h": ("libnuma-dev", "libnuma1"),
    "rdma/rdma_cma.h": ("librdmacm-dev", "librdmacm1"),
    "rdma/rdma_netlink.h": ("linux-libc-dev", ""),
    "uuid/uuid.h": ("uuid-dev", "libuuid1"),
}
"""Which package of Debian and Ubuntu has a header file, and which one what it is linked to.

Nothing for what only the kernel has. Source: packages.debian.org.
"""


class EasyBuildEngine:
    """Chains of components; which easyconfigs these are is asked of the catalogue (`solve`)."""

    def stale(self, stack: EasyBuildStack, lock: EasyBuildLock) -> str:
        """See `Engine`."""
        return compare_wants(stack, lock, wants, "versions, providers or sources have changed")

    def problems(self, stack: EasyBuildStack, lock: EasyBuildLock | None, where: Where) -> Findings:
        """See `Engine`; a lock adds whether it pins the programs' sources."""
        views = transports_of(stack).placed(where("transports"))
        pinned = lock.programs if lock else ()
        changed = programs.find_changes(stack.programs, pinned, where("programs"))
        return Findings(problems=(*views.problems, *changed), notes=views.notes)

    def plan(self, stack: EasyBuildStack, lock: EasyBuildLock | None, sources: Sources) -> Plan:
        """See `Engine`; what makes a lock is no step but a look at the catalogue and at sources."""
        if lock is None:
            raise TypeError("the plan of components needs a lock")
        return build_plan(stack, lock, sources)

    def rows(self, stack: EasyBuildStack, lock: EasyBuildLock | None) -> Rows:
        """See `Engine`."""
        optarch, engine = ("optarch", stack.optarch), f"easybuild {stack.easybuild}"
        rows = [*list_rows(stack, optarch, engine=engine)]
        if lock is None:
            return tuple(rows)
        rows.append(("views", ", ".join(describe_image(stack, lock).views)))
        for one in lock.components:
            rows.append(("component", f"{one.module}  {one.licence}".rstrip()))
            rows += [
                ("file", f"{source.filename}  sha256 {source.accepted[0].sha256}")
                for source in one.sources
            ]
        rows += programs.list_rows(stack.programs)
        rows += [("left out", f"{one.component}: {one.reason}") for one in lock.left_out]
        return (*rows, *(("note", text) for text in lock.notes))

    def container(self, stack: EasyBuildStack, lock: EasyBuildLock) -> Container:
        """See `Engine`."""
        image = describe_image(stack, lock)
        headers = {header: HEADERS[header] for header in lock.headers if header in HEADERS}
        fabric = next((one.version for one in lock.components if one.component == "libfabric"), "")
        return describe_container(
            image,
            EnvPatch(),
            licences(one.licence for one in lock.components),
            {f"{OWN}.libfabric": fabric},
            gpu=stack.request.gpu,
            notes=_from_the_system(stack, lock),
            programs=("easybuild_worker.py", "easybuild_hooks.py"),
            packages=(
                *(["libgfortran5"] if "gfortran" in lock.tools else []),
                *(found[1] for found in headers.values() if found[1]),
            ),
            builder_packages=(*_PACKAGES, *(found[0] for found in headers.values())),
            builder_programs=(*lock.tools, *_compilers(stack)),
            variables={"LMOD_CMD": LMOD},
            outside=list_outside_folders(stack),
            sources=tuple(source for one in lock.components for source in one.sources),
            download=_download,
        )


ENGINE = EasyBuildEngine()


def _compilers(stack: EasyBuildStack) -> tuple[str, ...]:
    """Return the programs of a named compiler that a package of the system can bring."""
    made, prefix = stack.request.toolchain.compilers, stack.request.toolchain.prefix
    return (made.c, made.cxx) if made and not prefix else ()


def _from_the_system(stack: EasyBuildStack, lock: EasyBuildLock) -> tuple[Problem, ...]:
    unknown = [f"the header file {header}" for header in lock.headers if header not in HEADERS]
    found = (*list_outside_folders(stack), *unknown)
    if not found:
        return ()
    note = Problem(
        reason=Reason.TOOL_MISSING,
        message=f"the build takes from the system: {', '.join(found)}",
        hint="both bases must have what is used at run time; --package and --builder-package "
        "install packages",
    )
    return (note,)


def _download(artefact: Artefact) -> tuple[tuple[str, ...], ...]:
    """Return what downloads a source distribution: pip opens it, after its digest."""
    wanted = f"{artefact.name}=={artefact.version} --hash=sha256:{artefact.sha256}"
    pip = (
        "python3", "-m", "pip", "download", "--quiet", "--no-deps", "--no-input",
        "--disable-pip-version-check", "--retries=1", "--timeout=20", "--no-binary=:all:",
        "--dest", DOWNLOADS, "--require-hashes", "--requirement", "/dev/stdin",
    )  # fmt: skip
    return (("echo", wanted), pip)
