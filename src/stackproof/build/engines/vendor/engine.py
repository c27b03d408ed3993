"""The vendor engine: Cray MPICH of HPE's RPMs as an image, for the site that has them."""

from __future__ import annotations

import json
import posixpath
import re
import stat
from collections.abc import Iterator, Mapping
from urllib.parse import quote

from stackproof.build import benchmark, bom, tail
from stackproof.build.engine import (
    Container,
    Findings,
    Rows,
    Sources,
    Where,
    describe_container,
    licences,
    list_rows,
)
from stackproof.build.engines.vendor import releases, selection
from stackproof.build.engines.vendor.rpm import PackagedFile
from stackproof.build.engines.vendor.selection import ChosenRpms, Product
from stackproof.build.engines.vendor.stack import (
    VendorFile,
    VendorLibrary,
    VendorLock,
    VendorRpm,
    VendorStack,
    wants,
)
from stackproof.build.meaning import make_stack, meaning_problems
from stackproof.build.plan import BUILD, PYTHON, TOOLS, Copy, Plan, Step
from stackproof.build.transport_views import TransportViews, transport_views
from stackproof.core import document as documents
from stackproof.core.command import Command, EnvPatch
from stackproof.core.document import Document
from stackproof.core.errors import Location, Problem, Reason, StackproofError
from stackproof.core.value import Value, replace
from stackproof.image.model import Image, MpiFacts
from stackproof.linking.elf import ElfFile
from stackproof.mpi import families
from stackproof.mpi.transports.profile import Libfabric

# ------------------------------- A recipe with `engine: vendor` to the stack it means on a machine

SCHEMA = "vendor-recipe"


def parse_vendor_recipe(
    document: Document, facts: Mapping[str, str], folders: tuple[str, ...] = ()
) -> VendorStack:
    """Return the stack that a recipe means on a machine.

    `facts` are `architecture` and others of the site, `folders` those of its libraries; those that
    the recipe names come first. Raises `StackproofError` with every problem.
    """
    found = [*documents.problems(document, SCHEMA)]
    if isinstance(document.data, dict):
        found += meaning_problems(document)
        if "hip" in document.data and document.data.get("gtl") != "rocm":
            found.append(
                document.problem(
                    ("hip",),
                    "`hip` is a release of ROCm, which `gtl` does not ask for",
                    "add `gtl: rocm`, or leave `hip` out",
                )
            )
    if found:
        raise StackproofError(*found)
    data = document.data
    return make_stack(
        VendorStack,
        data,
        facts,
        "Cray MPICH, ready to use",
        mpi_family=data["mpi"]["family"],
        mpi_version=data["mpi"].get("version", ""),
        libraries=tuple(dict.fromkeys((*data.get("libraries", ()), *folders))),
    )


# --------------------------------------------------------------------------------------------------
# RPMs that were chosen and read to the lock: which file goes where, and what each library is.

_GLIBC = re.compile(r"GLIBC_(\d+(?:\.\d+)+)")
_TEXTS = (".pc", ".conf", ".cmake")


class ReadRpm(Value):
    """An RPM that was unpacked: its own digest, those of its files, and the ELF files by digest."""

    product: Product
    sha256: str
    files: Mapping[str, str]
    elfs: Mapping[str, ElfFile]


def make_lock(stack: VendorStack, chosen: ChosenRpms, read: tuple[ReadRpm, ...]) -> VendorLock:
    """Return the lock of a stack.

    Raises `StackproofError` (INVALID_VALUE) for libraries of another machine, and for two RPMs that
    bring different files of one name.
    """
    packages = tuple(_package(one, stack) for one in read)
    problems = [*_clashes(packages), *_foreign(read, packages, stack)]
    if problems:
        raise StackproofError(*problems)
    libraries = tuple(
        _library(file, one.elfs[file.sha256])
        for one, package in zip(read, packages, strict=True)
        for file in package.files
        if file.kind == "elf"
    )
    return VendorLock(
        wants=wants(stack),
        compiler=f"{chosen.mpich.compiler}-{chosen.mpich.built}",
        packages=packages,
        libraries=libraries,
        notes=chosen.notes,
    )


def _package(read: ReadRpm, stack: VendorStack) -> VendorRpm:
    product, rpm = read.product, read.product.rpm
    found = []
    for file in sorted(rpm.files, key=lambda one: one.path):
        target = selection.place(product, file.path, stack)
        if target and not stat.S_ISDIR(file.mode):
            found.append(_file(read, file, target))
    return VendorRpm(
        filename=rpm.file,
        sha256=read.sha256,
        name=rpm.name,
        epoch=rpm.epoch,
        version=rpm.version,
        release=rpm.release,
        architecture=rpm.architecture,
        licence=rpm.licence,
        vendor=rpm.vendor,
        product=product.role,
        product_version=product.release,
        root=product.root,
        folder=product.folder,
        scripts=rpm.scripts,
        files=tuple(found),
    )


def _file(read: ReadRpm, file: PackagedFile, target: str) -> VendorFile:
    if file.link:
        return VendorFile(path=file.path, target=target, kind="link", link=file.link)
    sha256 = read.files[file.path]
    kind = "plain"
    if sha256 in read.elfs:
        kind = "elf" if read.elfs[sha256].dynamic else "plain"
    elif "/bin/" in target or target.endswith(_TEXTS):
        kind = "text"
    executable = bool(file.mode & stat.S_IXUSR)
    return VendorFile(
        path=file.path, target=target, kind=kind, sha256=sha256, executable=executable
    )


def _library(file: VendorFile, elf: ElfFile) -> VendorLibrary:
    nodes = [match[1] for need in elf.version_needs if (match := _GLIBC.fullmatch(need.name))]
    numbers = {node: tuple(map(int, node.split("."))) for node in nodes}
    wanted: dict[str, list[str]] = {}
    for need in elf.version_needs:
        if not need.weak and not releases.is_glibc(need.library):
            wanted.setdefault(need.library, []).append(need.name)
    return VendorLibrary(
        target=file.target,
        soname=elf.soname,
        needed=elf.needed,
        glibc=max(numbers, key=lambda node: numbers[node], default=""),
        versions={library: tuple(names) for library, names in wanted.items()},
    )


def _clashes(packages: tuple[VendorRpm, ...]) -> Iterator[Problem]:
    """Yield what two RPMs bring under one name; the same file twice is none."""
    seen: dict[str, tuple[VendorRpm, VendorFile]] = {}
    for package in packages:
        for file in package.files:
            other = seen.setdefault(file.target, (package, file))
            if (other[1].sha256, other[1].link) != (file.sha256, file.link):
                yield Problem(
                    reason=Reason.INVALID_VALUE,
                    message=f"`{other[0].filename}` and `{package.filename}` bring a different "
                    f"`{file.path}`",
                    hint="take away the one that does not belong there",
                )


def _foreign(
    read: tuple[ReadRpm, ...], packages: tuple[VendorRpm, ...], stack: VendorStack
) -> Iterator[Problem]:
    for one, package in zip(read, packages, strict=True):
        for file in package.files:
            if file.kind == "elf" and one.elfs[file.sha256].machine != stack.architecture:
                yield Problem(
                    reason=Reason.INVALID_VALUE,
                    message=f"`{posixpath.basename(file.path)}` is for "
                    f"{one.elfs[file.sha256].machine}, and the stack for {stack.architecture}",
                    where=Location(file=package.filename),
                    hint="take the RPM out of the folder",
                )


INSTALL = "vendor"
"""What the step reports that changes libraries: they are read again when it has ended."""
_CHANGES = "changes.json"
SPACK = "config/packages.yaml"
"""The file of an image that makes its MPI known to Spack, as in images of Spack's."""


def build_plan(stack: VendorStack, lock: VendorLock, sources: Sources) -> Plan:
    """Return the plan that builds the image of a locked stack."""
    native = mpi_facts(stack, lock) if benchmark.NATIVE in stack.benchmarks else None
    rest = (
        *tail.compiled(stack, native, sources.csrc, environment(stack, lock)),
        tail.metadata_step(
            describe_image(stack, lock), stack, lock,
            bill=render_bom(stack, lock), recipe=sources.recipe,
        ),
    )  # fmt: skip
    return tail.plan_of(stack, [install_step(stack, lock)], rest)


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
    """Return the facts of the image about its MPI."""
    prefix = f"{stack.mount}/{lock.mpi.folder}"
    return tail.facts_of(stack.mpi_family, lock.mpi.product_version, prefix)


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
    facts = mpi_facts(stack, lock)
    features = tail.of_mpi(facts, "" if stack.gtl == "none" else stack.gtl)
    views = tail.own_views(stack, facts.prefix, environment(stack, lock), features)
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


class VendorEngine:
    """A vendor's MPI, repackaged: nothing is compiled but the benchmark."""

    def stale(self, stack: VendorStack, lock: VendorLock) -> str:
        """See `Engine`."""
        same = lock.wants == wants(stack)
        return "" if same else "the MPI, its compiler or its parts have changed"

    def problems(self, stack: VendorStack, lock: VendorLock | None, where: Where) -> Findings:
        """See `Engine`."""
        if lock is None:
            return Findings()
        views = transports_of(stack, lock).placed(where("transports"))
        notes = [Problem(reason=Reason.UNSUPPORTED, message=text) for text in lock.notes]
        scripts = [
            f"{one.filename} ({', '.join(one.scripts)})" for one in lock.packages if one.scripts
        ]
        if scripts:
            message = f"scripts of RPMs are not run: {'; '.join(scripts)}"
            notes.append(Problem(reason=Reason.UNSUPPORTED, message=message))
        return Findings(problems=views.problems, notes=(*notes, *views.notes))

    def plan(self, stack: VendorStack, lock: VendorLock | None, sources: Sources) -> Plan:
        """See `Engine`; what makes a lock is no step but a look into the RPMs."""
        if lock is None:
            raise TypeError("the plan of a vendor's MPI needs a lock")
        return build_plan(stack, lock, sources)

    def rows(self, stack: VendorStack, lock: VendorLock | None) -> Rows:
        """See `Engine`."""
        rows = [
            *list_rows(stack),
            ("redistribute", "no: the image is for the site that has the RPMs"),
        ]
        if lock is None:
            return tuple(rows)
        glibc, user = selection.floor(lock)
        title = families.REGISTRY[stack.mpi_family].title
        rows += [
            ("mpi", f"{title} {lock.mpi.product_version} for {lock.compiler}"),
            ("views", ", ".join(describe_image(stack, lock).views)),
            *(("rpm", f"{one.nevra}  sha256 {one.sha256}") for one in lock.packages),
            *(
                ("of the site", f"{name}  for {who}  {releases.site_package(name)}".rstrip())
                for name, who in selection.outside(stack, lock).items()
            ),
        ]
        if glibc:
            rows.append(("glibc", f"{glibc} or newer, for {user}"))
        return tuple(rows)

    def container(self, stack: VendorStack, lock: VendorLock) -> Container:
        """See `Engine`; its builder refuses Containerfiles, which would hand the files on."""
        return describe_container(
            describe_image(stack, lock),
            environment(stack, lock),
            licences(one.licence for one in lock.packages),
            programs=("vendor_worker.py",),
            builder_programs=("patchelf",),
        )


ENGINE = VendorEngine()
