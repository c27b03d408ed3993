"""What a user names for an injection: files, folders and images, as places in a view."""

from __future__ import annotations

import contextlib
import os
import posixpath
import shutil
from collections.abc import Iterator, Mapping, Sequence

from msgspec import field

from stackproof.core import mountlist
from stackproof.core.effects import files
from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.core.value import Value
from stackproof.image.container.effects import layers, roots
from stackproof.image.container.effects.roots import Root
from stackproof.image.effects import image_file
from stackproof.inject.program import calls_mpi
from stackproof.linking.effects import view as linking_view
from stackproof.linking.effects.view import FileSource, RootView
from stackproof.linking.elf import read
from stackproof.linking.loader import settings_of
from stackproof.mpi import abi
from stackproof.share.effects import naming

ARTEFACT = "meta/artefact.json"
"""What an artefact says of itself, in its folder or image."""

_LABEL = "stackproof.mpi.prefix"  # as `image containerfile` writes it
_NETWORK = ("libfabric.so.1", "libcxi.so.1", "libucp.so.0")


class NamedPath(Value):
    """Something that was named: a path in a view.

    `binds` are folders of this machine by the place that they are mounted at; `prefix` is there
    where it is known where an image's MPI is, or its libfabric. `image` names a container's image
    that the path is in, whatever root is asked for.
    """

    path: str
    image: str = ""
    binds: Mapping[str, str] = field(default_factory=dict)
    prefix: str = ""

    @property
    def home(self) -> str:
        """Return the prefix that it offers for injection."""
        return self.prefix or self.path

    def view(self, root: str, more: Mapping[str, str] | None = None) -> RootView:
        """Return the view that the place lies in; `more` are further folders to bind."""
        return self.root(root).view({**self.binds, **(more or {})})

    def root(self, root: str) -> Root:
        """Return the root file system that the place lies in."""
        return roots.load_root(self.image or root)


def load_place(text: str, root: str = "/") -> NamedPath:
    """Return the place that a user named: a file, a folder, or an image `IMAGE[:MOUNT]`.

    IMAGE may be a label. With another root, files and folders are named by their path in it, or by
    the one here. An image is unpacked into the cache, once for its content. A container's image
    (`image.container.effects.roots`) may be followed by `#` and a path in it. Raises
    `StackproofError`: FILE_MISSING, NOT_PERMITTED, and what reading images raises.
    """
    if root == "/":
        text = naming.text_of(text)
    image, mount = mountlist.split(text)
    if roots.is_squashfs(image):
        return _load_image(image, mount or "")
    name, mark, inside = text.partition("#")
    if roots.is_image(name):
        return NamedPath(
            path=posixpath.join("/", inside), image=name, prefix=inside if mark else ""
        )
    if root != "/":
        return NamedPath(path=_inside(text, root))
    if not os.path.exists(text):
        files.refuse_closed(text)
        raise fail(
            Reason.FILE_MISSING,
            f"`{text}` does not exist"
            + ("" if naming.looks_like_a_file(text) else f": {naming.describe_missing()}"),
            where=Location(file=text),
            hint="name a program, a folder, or an image or its label",
        )
    return NamedPath(path=os.path.abspath(text))


def load_program(text: str, root: str = "/") -> NamedPath:
    """Return the place of programs: what `load_place` does, or a name as a shell finds it."""
    if root == "/" and "/" not in text and not os.path.lexists(text):
        found = shutil.which(text)
        if found is not None:
            return NamedPath(path=os.path.abspath(found))
    return load_place(text, root)


def _inside(text: str, root: str) -> str:
    """Return the path inside of a root; raises `StackproofError` (FILE_MISSING)."""
    found = roots.load_root(root)
    here, top = os.path.abspath(text), os.path.abspath(found.folder or root)
    if here.startswith(f"{top}/") and os.path.lexists(here):
        return here[len(top) :]
    view = found.view()
    if "/" not in text and not view.exists(f"/{text}"):
        return found.program(text)
    if not view.exists(os.path.join("/", text)):
        raise fail(
            Reason.FILE_MISSING,
            f"`{text}` does not exist in `{root}`",
            where=Location(file=text),
            hint="name it by its path in that root",
        )
    return os.path.join("/", text)


def load_replacement(text: str) -> NamedPath:
    """Return what is to be injected, as `load_place` does.

    Raises `StackproofError` (UNSUPPORTED) for a container's image: nothing puts its MPI elsewhere.
    """
    place = load_place(text)
    if place.image:
        raise fail(
            Reason.UNSUPPORTED,
            f"`{text}` is neither a prefix, nor an image of `stackproof build`, nor an artefact",
            where=Location(file=text),
            hint="name a folder, or make an artefact: `stackproof inject artefact`",
        )
    return place


def load_prefix(text: str) -> NamedPath:
    """Return a replacement as `load_place` does, which must lie on this machine to be put in place.

    Raises `StackproofError` (UNSUPPORTED) for an image, and what `load_place` raises.
    """
    place = load_replacement(text)
    if place.binds:
        image = mountlist.split(text)[0]
        raise fail(
            Reason.UNSUPPORTED,
            f"`{text}` is not a prefix on this machine",
            where=Location(file=text),
            hint=f"make a folder of it, `stackproof install {image} --to DIR`, and name DIR; or "
            f"mount it, `stackproof start {image}`, and there name {place.prefix}"
            if place.prefix
            else "name a folder: `stackproof install IMAGE --to DIR` makes one of an image; or "
            "mount it, `stackproof start IMAGE`, and work in there",
        )
    return place


def _load_image(path: str, mount: str) -> NamedPath:
    """Return the place of an image's content at its mount point, or at the one that is named."""
    prefix = ""
    inside: tuple[str, ...] = ()
    try:
        image = image_file.load_image(path)
    except StackproofError as error:
        if error.reason is not Reason.IMAGE_NO_META:
            raise
        if not mount:
            raise fail(
                Reason.IMAGE_NO_META,
                f"image `{path}` does not say where it is mounted",
                where=Location(file=path),
                hint=f"say so: `{path}:/where/it/is/mounted`",
            ) from None
    else:
        own = image.mount
        mount = mount or own
        if image.mpi is not None and image.mpi.prefix.startswith(own):
            prefix = mount + image.mpi.prefix[len(own) :]
        inside = tuple(view.root[len(own) :] for view in image.views.values())
    if why := mountlist.bad_mount_point(mount):
        raise fail(
            Reason.BAD_MOUNT_POINT,
            f"`{mount}` cannot be a mount point: {why}",
            where=Location(file=path),
            hint="use a path of its own, for example /user-environment",
        )
    binds = {mount: roots.unsquashed(layers.whole(path))}
    prefix = prefix or network_prefix(RootView("/", binds), mount, inside)
    return NamedPath(path=mount, binds=binds, prefix=prefix)


def network_prefix(view: RootView, point: str, inside: Sequence[str]) -> str:
    """Return the prefix of the network libraries of an image without an MPI, empty if none.

    `point` is where the image is in the view, `inside` are roots of its views, below that. They
    come first; then the first folder that holds one, as trees of EasyBuild and Spack have a prefix
    for each component.
    """
    for root in (point, *(point + folder for folder in inside)):
        for folder in ("lib", "lib64"):
            if any(view.look(f"{root}/{folder}/{name}") for name in _NETWORK):
                return root
    found = view.resolve(point)
    if found is None:
        return ""
    for folder, folders, names in os.walk(found[1]):
        folders.sort()
        place = point + folder[len(found[1]) :]
        if any(name in names and view.look(f"{place}/{name}") for name in _NETWORK):
            return os.path.dirname(place)
    return ""


def mpi_of(place: NamedPath, view: RootView) -> str:
    """Return the prefix of the MPI in a container's image, which its label says, or where one lies.

    Behind a `#` it is said as well. Raises `StackproofError`: NO_MPI when it has none,
    INVALID_VALUE when it has several.
    """
    labelled = place.prefix or place.root("/").config.labels.get(_LABEL)
    if labelled:
        return labelled
    found = {}
    for path, file, seen in view.glances(place.path):
        if seen.mentions_mpi and abi.abi_of_name(seen.soname) and abi.family_of(view.elf(file)):
            found[posixpath.dirname(posixpath.dirname(path))] = path
    if len(found) == 1:
        return next(iter(found.values()))
    several = ", ".join(f"`{path}`" for path in sorted(found.values()))
    raise fail(
        Reason.INVALID_VALUE if found else Reason.NO_MPI,
        f"`{place.image}` has several MPIs: {several}" if found else f"`{place.image}` has no MPI",
        where=Location(file=place.image),
        hint=f"say which: {place.image}#/its/prefix",
    )


def programs_of(place: NamedPath, view: RootView) -> tuple[str, ...]:
    """Return the programs of a place that call MPI, by themselves or by their own libraries.

    A file stands for itself. In a folder all ELF files are looked at; libraries that call MPI and
    that no program names (a Python module, a plug-in) count as well. Raises `StackproofError`
    (NO_MPI) when there is none.
    """
    if view.look(place.path) is not None:
        return (place.path,)
    found = tuple(_callers(place.path, view))
    if not found:
        raise fail(
            Reason.NO_MPI,
            f"nothing in `{place.path}` calls MPI",
            where=Location(file=place.path),
            hint="name a program, or the folder that holds some",
        )
    return found


def _callers(folder: str, view: RootView) -> Iterator[str]:
    libraries: dict[str, str] = {}
    programs: dict[str, frozenset[str]] = {}
    callers = set()
    for path, file, seen in view.glances(folder):
        program = bool(seen.interpreter) and not seen.soname
        if program:
            programs[path] = frozenset(seen.needed)
        if not seen.mentions_mpi or not calls_mpi(view.elf(file), posixpath.basename(path)):
            continue
        if program:
            callers.add(path)
        else:
            libraries[seen.soname or posixpath.basename(path)] = path
    named = {name for needed in programs.values() for name in needed}
    yield from (p for p, needed in programs.items() if p in callers or needed & libraries.keys())
    yield from (path for name, path in libraries.items() if name not in named)


def launcher_kind(name: str, known: Mapping[str, str]) -> str:
    """Return the kind of a launcher: a name that is known, or what a program on disk shows.

    Raises `StackproofError` (UNSUPPORTED) for what is neither.
    """
    if name in known:
        return name
    if os.path.isfile(name):
        kind = kind_of_file(os.path.realpath(name))
        if kind:
            return kind
    elif "/" in name:
        raise fail(
            Reason.FILE_MISSING,
            f"there is no launcher `{name}`",
            where=Location(file=name),
            hint=f"name an mpiexec file, or one of: {', '.join(known)}",
        )
    raise fail(
        Reason.UNSUPPORTED,
        f"the launcher `{name}` is not known",
        hint=f"known launchers are: {', '.join(known)}, and mpiexec files of MPICH and Open MPI",
    )


def kind_of_file(path: str) -> str:
    """Return which launcher a program is, a key of `starting.OFFERS`; empty for none.

    An entry point of a pack is the launcher that it starts, which lies beside its folder.
    """
    folder, name = os.path.split(path)
    entered = os.path.join(os.path.dirname(folder), f".{os.path.basename(folder)}", name)
    path = entered if os.path.isfile(entered) else path
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise files.translate(error, path) from error
    try:
        source = FileSource(path, descriptor, os.fstat(descriptor).st_size)
        needed = read(source).needed
        content = source.read(0, min(source.size, 64 << 20))
    except StackproofError:
        return ""
    finally:
        os.close(descriptor)
    beside = _libraries_beside(path)
    if any(name.startswith("libprrte.") for name in (*needed, *beside)):
        return "prte"
    if any(name.startswith("libopen-rte.") for name in (*needed, *beside)):
        return "orterun"
    if b"I_MPI_" in content:
        return "intel-hydra"
    return "hydra" if b"hydra_pmi_proxy" in content else ""


def _libraries_beside(path: str) -> tuple[str, ...]:
    """Return the names of libraries in the prefix of a program: its mpiexec may need none."""
    prefix = os.path.dirname(os.path.dirname(path))
    found: list[str] = []
    for folder in ("lib", "lib/openmpi", "lib64"):
        with contextlib.suppress(OSError):
            found += os.listdir(os.path.join(prefix, folder))
    return tuple(found)


setting_of = settings_of
this_machine = linking_view.this_machine
"""Return the processor of this machine."""


def is_artefact(text: str) -> bool:
    """Return whether a path names an artefact: a folder or an image with `ARTEFACT` in it."""
    if os.path.isdir(text):
        return os.path.isfile(os.path.join(text, ARTEFACT))
    try:
        return (
            text.endswith(".squashfs")
            and os.path.isfile(text)
            and bool(image_file.read_member(text, ARTEFACT))
        )
    except StackproofError:
        return False  # whatever it is: who reads it next says what is wrong with it
