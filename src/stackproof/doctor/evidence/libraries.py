"""What a program or an MPI would load on this machine, to evidence; nothing is run.

The closure comes from the model of the dynamic loader. Releases stand as constants in libraries:
libfabric's `PACKAGE_VERSION` (src/fi_tostr.c), PMIx's `OpenPMIx 5.0.11 (PMIx Standard: …`.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from stackproof.knowledge.evidence import Evidence, Pieces
from stackproof.linking.loader import Closure, MappedObject, missing_nodes
from stackproof.mpi import families

_RELEASES = {
    "libfabric": re.compile(rb"(?<=\0)(\d\.\d{1,2}\.\d{1,2}(?:\.\d{1,2})?)(?:rc\d+)?(?=\0)"),
    "pmix": re.compile(rb"OpenPMIx (\d+\.\d+\.\d+)\S* \("),
}
_XPMEM = b"/dev/xpmem"  # what libxpmem opens: github.com/hpc/xpmem, lib/libxpmem.c
_COPIES = ("libmpi", "libopen-pal", "libfabric", "libxpmem", "libuct")
"""Libraries that copy messages, by the beginning of their names."""

_OF_NODES = (
    "libcuda.", "libnvidia-", "libamdhip64.", "libhsa-runtime64.", "librocm", "libcxi.",
    "libxpmem.", "libibverbs.", "librdmacm.", "libze_loader.",
)  # fmt: skip
"""Libraries of drivers, which a login node may lack where the nodes have them."""

_FABRICS = ("libfabric.", "libcxi.")
_CRAY = re.compile(r"^/opt/cray/pe/mpich/(?P<release>[^/]+)/")

_USES = {
    "probe": re.compile(r"MPI_(I|M|Im)?[Pp]robe"),
    "one-sided": re.compile(r"MPI_(Put|Rput|Get|Rget|R?[Aa]ccumulate|Win_(create|allocate)\w*)"),
    "bcast": re.compile(r"MPI_Bcast"),
    "alltoall": re.compile(r"MPI_Alltoall[vw]?"),
    "non-blocking-collective": re.compile(
        r"MPI_I(allreduce|reduce\w*|bcast|barrier|(all)?gatherv?|scatterv?|alltoall[vw]?|e?x?scan)"
    ),
}
"""What rules ask of a program -> functions of MPI."""

Content = Callable[[str], bytes]
"""Returns the bytes of a loaded file, by its path in the view."""


def of_closure(closure: Closure, content: Content, plugins: Sequence[str] = ()) -> Evidence:
    """Return what a closure tells; `plugins` are names of files that the MPI opens by itself.

    Raises what `content` raises.
    """
    pieces = Pieces()
    for name, beginning in (("libfabric", "libfabric."), ("pmix", "libpmix.")):
        library = _named(closure, beginning)
        if library is not None:
            release = release_of(name, content(library.file.path))
            pieces.version(name, release, _where(closure, library))
    libfabric = _named(closure, "libfabric.")
    if libfabric is not None:
        has_cxi = any(name.startswith("libcxi.") for name in libfabric.elf.needed)
        has_cxi = has_cxi or any(name.startswith("libcxi-fi") for name in plugins)
        text = "is" if has_cxi else "is not"
        pieces.fact("cxi-provider", has_cxi, f"libcxi {text} among what {libfabric.path} needs")
    _missing(closure, pieces, told=libfabric is not None)
    if family := _family(closure, content):
        pieces.fact("mpi", family, closure.program.path)
    if family and (plug_in := families.REGISTRY[family].ofi_plug_in):
        found = plug_in if any(name.startswith(plug_in) for name in plugins) else ""
        pieces.fact("ofi-support", libfabric is not None or bool(found), _reason(libfabric, found))
    if xpmem := _xpmem(closure, content, plugins):
        pieces.fact("xpmem-built", True, xpmem)
    elif family:
        origin = f"nothing that {closure.program.path} loads opens /dev/xpmem"
        pieces.fact("xpmem-built", False, origin)
    return pieces.evidence()


def uses_of(closure: Closure) -> Evidence:
    """Return what of MPI a program calls by name; it may use more through libraries of its own."""
    names = {one.name.removeprefix("P") for one in closure.program.elf.imports}
    found = tuple(use for use, pattern in _USES.items() if any(map(pattern.fullmatch, names)))
    pieces = Pieces(f"functions that {closure.program.path} calls")
    pieces.fact("uses", found)
    return pieces.evidence(partial=("fact uses",) if found else ())


def of_program(closure: Closure, variables: Mapping[str, str]) -> Evidence:
    """Return the evidence that only a program has: Cray's library for GPUs, and its release."""
    cray = next((one for one in closure.objects if _CRAY.match(one.file.path)), None)
    pieces = Pieces(f"what {closure.program.path} loads")
    if cray is not None:
        gtl = _named(closure, "libmpi_gtl_")
        pieces.fact("gtl-linked", gtl is not None, gtl.path if gtl else "")
        wanted = variables.get("CRAY_MPICH_VERSION")
        match = _CRAY.match(cray.file.path)
        if wanted and match:
            text = f"{cray.file.path} is loaded, the module's release is {wanted}"
            pieces.fact("cpe-libraries-match", match["release"] == wanted, text)
    return pieces.evidence()


def release_of(library: str, content: bytes) -> str:
    """Return the release that the constants of a library say, empty when they do not agree."""
    found = set(_RELEASES[library].findall(content))
    return found.pop().decode() if len(found) == 1 else ""


def _named(closure: Closure, beginning: str) -> MappedObject | None:
    return next((one for one in closure.objects if _base(one).startswith(beginning)), None)


def _base(loaded: MappedObject) -> str:
    return posixpath.basename(loaded.elf.soname or loaded.path)


def _where(closure: Closure, loaded: MappedObject) -> str:
    by = closure.program if loaded.by is None else closure.objects[loaded.by]
    return f"{loaded.file.path}, found for {posixpath.basename(by.path)} by {loaded.how}"


def _reason(libfabric: MappedObject | None, plug_in: str) -> str:
    if libfabric is not None:
        return f"it loads {libfabric.path}"
    return f"it has the plug-in {plug_in}" if plug_in else "nothing that it loads is libfabric"


def _family(closure: Closure, content: Content) -> str:
    """Return the family of the MPI in a closure, empty when there is none."""
    library = _named(closure, "libmpi.") or _named(closure, "libmpi_")
    if library is None:
        return ""
    path = library.file.path
    names = [_base(loaded) for loaded in closure.objects]
    return families.of_library(names, path, lambda: content(path))


def _missing(closure: Closure, pieces: Pieces, *, told: bool) -> None:
    """Note versions of symbols, and libraries, that are not to be had."""
    nodes = [one for one in missing_nodes(closure) if _base(one.provider).startswith(_FABRICS)]
    if nodes:
        words = dict.fromkeys(
            f"{posixpath.basename(one.by.path)} needs {one.need.name} of {one.provider.file.path}"
            for one in nodes
        )
        pieces.fact("fabric-symbols-missing", True, "; ".join(words))
    elif told:
        pieces.fact("fabric-symbols-missing", False, f"what {closure.program.path} loads")
    absent = list(dict.fromkeys(_absent(closure)))
    origin = ", ".join(absent) or f"what {closure.program.path} loads"
    pieces.fact("libraries-missing", bool(absent), origin)


def _absent(closure: Closure) -> Iterator[str]:
    for edge in closure.missing:
        if not edge.name.startswith(_OF_NODES):
            by = posixpath.basename(closure.objects[edge.by].path)
            yield f"{edge.name}, which {by} needs"


def _xpmem(closure: Closure, content: Content, plugins: Sequence[str]) -> str:
    """Return why an MPI is built for XPMEM, empty when nothing shows it."""
    for edge in closure.edges:
        if edge.name.startswith("libxpmem."):
            return f"{posixpath.basename(closure.objects[edge.by].path)} needs {edge.name}"
    for name in plugins:
        if "xpmem" in name:
            return f"it has the plug-in {name}"
    for one in closure.objects:
        if _base(one).startswith(_COPIES) and _XPMEM in content(one.file.path):
            return f"{one.path} opens /dev/xpmem"
    return ""
