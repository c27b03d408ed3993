"""The EasyBuild engine: components built from source, each with its module file."""

from __future__ import annotations

from collections.abc import Mapping

from stackproof.build import programs, tail
from stackproof.build.engine import (
    OCI,
    OWN,
    Container,
    Findings,
    Rows,
    Sources,
    Where,
    licences,
    other_machine,
)
from stackproof.build.engines.easybuild import layout, metadata
from stackproof.build.engines.easybuild.chain import Easyconfig
from stackproof.build.engines.easybuild.stack import (
    EasyBuildLock,
    EasyBuildStack,
    files_of,
    list_outside_folders,
    wants,
)
from stackproof.build.plan import DOWNLOADS, Plan, Step
from stackproof.build.stack import Artefact
from stackproof.core import ids
from stackproof.core.command import EnvPatch
from stackproof.core.errors import Problem, Reason
from stackproof.core.value import replace
from stackproof.image.model import MpiFacts
from stackproof.mpi import families

# ---------------------------------- Stack and lock to the plan that builds and packs them, as data
# One step for each component, whose inputs are the components it is built on: what else is in the
# stack, or how the image looks, does not change its id, and with it what was built before serves.


def build_plan(
    stack: EasyBuildStack,
    lock: EasyBuildLock,
    *,
    recipe: Mapping[str, str],
    csrc: Mapping[str, str],
) -> Plan:
    """Return the steps that build a locked stack and pack its image.

    `recipe` is the recipe as written, by its file's name, `csrc` the benchmark's C sources.
    """
    steps = [_tool_step(stack, lock)]
    made: dict[str, str] = {}
    for component in lock.components:
        needs = tuple(made[name] for name in component.needs if name in made)
        step = _component_step(stack, lock, component, (steps[0].id, *needs))
        steps.append(step)
        made[component.module] = step.id
    steps.append(_tidy_step(stack, tuple(step.id for step in steps)))
    image = metadata.describe_image(stack, lock)
    native = image.mpi if stack.benchmarks else None
    compiled = _program_steps(stack, image.mpi, made) if image.mpi else ()
    bill = metadata.render_bom(stack, lock)
    tools = {"easybuild": stack.easybuild}
    rest = (
        *tail.compiled(stack, native, csrc, layout.compilers_on_path(stack.request.toolchain)),
        tail.metadata_step(image, stack, lock, bill=bill, recipe=recipe, tools=tools),
        tail.packed(stack),
    )
    before = (steps[-1], *compiled)
    steps += (*compiled, *tail.in_turn(rest, *(step.id for step in before)))
    return Plan(name=stack.name, mount=stack.mount, steps=tuple(steps))


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
    return tuple(
        replace(
            programs.program_step(program, stack.mount, mpi, EnvPatch()), inputs=(made[module],)
        )
        for program in stack.programs
    )


def _tidy_step(stack: EasyBuildStack, inputs: tuple[str, ...]) -> Step:
    """Return the step that takes out what differs between two builds of one lock."""
    folders = (layout.SOFTWARE, layout.LUA_MODULES, layout.TCL_MODULES)
    return Step(
        name="tidy",
        description="take out logs, reports and locks of the build",
        inputs=inputs,
        commands=(layout.worker("tidy", *(f"{stack.mount}/{folder}" for folder in folders)),),
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
        if lock.wants == wants(stack):
            return ""
        other = other_machine(stack, lock, wants)
        return other or "versions, providers or sources have changed"

    def problems(self, stack: EasyBuildStack, lock: EasyBuildLock | None, where: Where) -> Findings:
        """See `Engine`; a lock adds whether it pins the programs' sources."""
        views = metadata.transports_of(stack).placed(where("transports"))
        pinned = lock.programs if lock else ()
        changed = programs.find_changes(stack.programs, pinned, where("programs"))
        return Findings(problems=(*views.problems, *changed), notes=views.notes)

    def plan(self, stack: EasyBuildStack, lock: EasyBuildLock | None, sources: Sources) -> Plan:
        """See `Engine`; what makes a lock is no step but a look at the catalogue and at sources."""
        if lock is None:
            raise TypeError("the plan of components needs a lock")
        return build_plan(stack, lock, recipe=sources.recipe, csrc=sources.csrc)

    def rows(self, stack: EasyBuildStack, lock: EasyBuildLock | None) -> Rows:
        """See `Engine`."""
        rows = [
            ("stack", f"{stack.name} {stack.version}  {stack.description}".rstrip()),
            ("engine", f"easybuild {stack.easybuild}"),
            ("machine", f"{stack.architecture}, {stack.site_facts.get('compiler', '')}"),
            ("optarch", stack.optarch),
            ("mount", stack.mount),
        ]
        if lock is None:
            return tuple(rows)
        rows.append(("views", ", ".join(metadata.describe_image(stack, lock).views)))
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
        image = metadata.describe_image(stack, lock)
        headers = {header: HEADERS[header] for header in lock.headers if header in HEADERS}
        fabric = next((one.version for one in lock.components if one.component == "libfabric"), "")
        mpi = image.mpi
        return Container(
            views=tuple(image.views),
            environments={"": EnvPatch(), **{key: view.env for key, view in image.views.items()}},
            labels={
                f"{OCI}.licenses": licences(one.licence for one in lock.components),
                f"{OWN}.libfabric": fabric,
                f"{OWN}.mpi": f"{mpi.family} {mpi.version}" if mpi else "",
                f"{OWN}.mpi.abi": families.REGISTRY[mpi.family].abi if mpi else "",
                f"{OWN}.mpi.prefix": mpi.prefix if mpi else "",
            },
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
