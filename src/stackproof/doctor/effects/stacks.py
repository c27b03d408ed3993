"""What an image's MPI, or a program, would load on this machine.

Files are read, nothing is run.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
import re
import shlex
from collections.abc import Mapping, Sequence

from stackproof.core import limits
from stackproof.core.effects import documents, files
from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.core.value import Value, replace
from stackproof.doctor.effects import logs
from stackproof.doctor.evidence import libraries, places
from stackproof.doctor.evidence.libraries import Content
from stackproof.doctor.options import DoctorOptions
from stackproof.image.effects.image_file import load_image, read_member
from stackproof.image.effects.view import ImageFiles
from stackproof.image.model import Image
from stackproof.image.superblock import MAGIC
from stackproof.knowledge.evidence import Evidence, merged
from stackproof.linking.effects.view import RootView, this_machine
from stackproof.linking.loader import Closure, FileView, LoaderSettings, load_program
from stackproof.mount.effects.mount_exec import MARKER
from stackproof.mpi.effects import fabric
from stackproof.share.effects import naming

_UNREADABLE = {Reason.NOT_ELF, Reason.ELF_DAMAGED, Reason.FILE_MISSING, Reason.TOO_LARGE}
_LIBRARY = re.compile(r"libmpi(?:_cray|_gnu\w*|_nvidia\w*|_amd\w*)?\.so\.\d+")
_PLUGIN_FOLDERS = ("lib/openmpi", "lib/openmpi/ucx", "lib/openmpi/libfabric", "lib/mpich/libfabric",
                   "lib/mpich/ucx", "lib/libfabric/prov", "lib64/openmpi")  # fmt: skip

Mounted = Sequence[tuple[str, str]]
"""Images of a job with their mount points, the one in question first."""


class StackEvidence(Value):
    """Evidence of an image by its own words, and of the files that it or a program loads."""

    described: Evidence
    loaded: Evidence


def examine(
    options: DoctorOptions, variables: Mapping[str, str], mounted: Mounted, *, known: bool
) -> StackEvidence | None:
    """Return the evidence of an image, or of that of a job with the MPI, and of a program.

    None where there is neither. `mounted` are the images of the job that are here. What a program
    lacks tells nothing where the job's environment is not `known`. Raises `StackproofError` for
    what cannot be read, and where the image has not the view.
    """
    path = _named(options.image) if options.image is not None else _with_mpi(mounted)
    image, described = None, Evidence()
    if path is not None:
        image = _viewed(path, options.view)
        bill = read_member(path, fabric.BILL).decode(errors="replace")
        described = merged(
            places.of_bill(bill, f"bill of materials of {image.name}"),
            places.of_image(image, options.view),
        )
    elif options.program is None:
        return None
    loaded = _loaded(options, (path, image), variables, mounted, known=known)
    return StackEvidence(described=described, loaded=loaded)


def _named(label: str) -> str:
    """Return the file of an image; raises `StackproofError` for a text: a log, most likely."""
    path = naming.image_file(label)
    with contextlib.suppress(OSError), open(path, "rb") as stream:
        head = stream.read(limits.KIND.bytes)
        if head and not logs.is_binary(head) and not head.startswith(MAGIC):
            documents.refuse_other_kind(path, "image", Reason.IMAGE_NOT_SQUASHFS)
            raise fail(
                Reason.IMAGE_NOT_SQUASHFS,
                f"`{path}` is a text, and not an image of stackproof",
                where=Location(file=path),
                hint=f"what a job printed is given by --log {shlex.quote(path)}, its environment "
                "by --env",
            )
    return path


def _with_mpi(mounted: Sequence[tuple[str, str]]) -> str | None:
    """Return the image of a job that has the MPI, None where none has."""
    for image, _ in mounted:
        try:
            if load_image(image).mpi is not None:
                return image
        except StackproofError:
            continue  # an image of others, which says nothing of itself
    return None


def _viewed(path: str, view: str | None) -> Image:
    image = load_image(path)
    if view is not None and view not in image.views:
        raise fail(
            Reason.UNKNOWN_VIEW,
            f"the image has no view `{view}`",
            hint=f"it has: {', '.join(image.views) or 'none'}",
        )
    return image


def _loaded(
    options: DoctorOptions,
    chosen: tuple[str | None, Image | None],
    variables: Mapping[str, str],
    mounted: Mounted,
    *,
    known: bool,
) -> Evidence:
    """Return what the image's MPI, or the program, would load here, with all that was mounted."""
    path, image = chosen
    view = image.views.get(options.view or image.default_view or "") if image is not None else None
    # The environment of a job that had the image mounted has the view's variables already.
    apply = view is not None and path not in {other for other, _ in mounted}
    environment = view.env.apply(variables) if view is not None and apply else dict(variables)
    folders = [word for word in environment.get("LD_LIBRARY_PATH", "").split(":") if word]
    found = Evidence()
    if options.program is not None:
        bound = () if path is None or image is None else ((path, image.mount),)
        rest = tuple(one for one in mounted if one not in bound)
        found = of_program(options.program, folders, environment, (*bound, *rest))
    elif image is not None and path is not None:
        beside = tuple(one for one in mounted if one[0] != path)
        found = of_image(path, image, folders, beside)
    # An image says itself which MPI it has; this machine's libraries tell nothing of another's.
    out = {"mpi"} if image is not None else set()
    out |= {"libraries-missing"} if options.site is not None else set()
    gone = MARKER in variables and not mounted  # the job's images are not here
    out |= {"libraries-missing"} if gone else set()
    if options.program is not None and not known:
        out |= {"libraries-missing", "fabric-symbols-missing"}
        out |= {name for name, value in found.facts.items() if value is False}
    facts = {name: one for name, one in found.facts.items() if name not in out}
    origins = {name: one for name, one in found.origins.items() if name[5:] not in out}
    return replace(found, facts=facts, origins=origins)


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
