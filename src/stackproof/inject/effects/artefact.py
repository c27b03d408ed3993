"""Network-stack artefacts on disk: made of copies that are read again, read back, and ranked."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence

from msgspec import field

from stackproof.core import limits, noun
from stackproof.core.command import Command
from stackproof.core.effects import files, run
from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.core.value import Value, replace
from stackproof.image import superblock
from stackproof.image.effects import image_file
from stackproof.inject import hook_manifest
from stackproof.inject.artefact import ArtefactRequest, is_machines, plan_artefact
from stackproof.inject.attempt import Question
from stackproof.inject.delivery import InjectionDelivery
from stackproof.inject.effects import named, versions
from stackproof.inject.effects import staging as inject_staging
from stackproof.inject.effects.check import machine_of
from stackproof.inject.effects.named import NamedPath
from stackproof.inject.effects.staging import real_path
from stackproof.inject.hook_manifest import Compact
from stackproof.inject.levels import (
    LEVELS,
    ArtefactMetadata,
    Level,
    Variant,
    check_name,
    check_release,
    choose_variant,
    newest_node,
    rank,
)
from stackproof.inject.options import ArtefactOptions, ProgramOptions
from stackproof.inject.replacement import Replacement, find_replacement
from stackproof.linking.effects.view import RootView
from stackproof.linking.loader import LoaderSettings, load_program
from stackproof.mpi.effects import fabric

_PACK_TIMEOUT_S = 3600.0
_TAG_LETTERS = 8
_SYSTEM_FOLDERS = ("/usr/lib64", "/lib64", "/usr/lib", "/lib")
_AGAIN = "make it again with `stackproof inject artefact`"


class ReadArtefact(Value):
    """An artefact that was read: where it lies in a view, and what it says."""

    place: NamedPath
    artefact: ArtefactMetadata
    compacts: Mapping[str, Compact] = field(default_factory=dict)

    def folder(self, variant: Variant) -> str:
        """Return the folder of a variant in the view."""
        return os.path.join(self.place.path, variant.folder)


class Made(Value):
    """A variant that was made: its description, and what was left out of it and why."""

    variant: Variant
    compact: Compact
    files: tuple[str, ...]
    without: tuple[str, ...]
    left: tuple[str, ...]


def make_variant(place: NamedPath, wish: ArtefactRequest, folder: str) -> Made:
    """Make a variant of what a place offers, in an empty folder, and check it.

    Every copy is read again, its closure is computed, and the loader is asked. Raises
    `StackproofError`: what planning raises, BUILD_FAILED when patchelf damaged a copy,
    INJECTION_FAILS when a copy does not find what it needs, TOOL_MISSING, and what files raise.
    """
    view = place.view("/")
    replacement = _found(view, place)
    delivery, compact = _plan(view, replacement, wish)
    inject_staging.fill(delivery, folder, view)
    _copy_bill(view, (replacement.prefix, os.path.dirname(replacement.prefix), place.path), folder)
    variant = Variant(
        folder=os.path.basename(folder),
        shs=wish.shs,
        libcxi=_libcxi(view, delivery),
        levels=tuple(name for name in LEVELS if os.path.isdir(os.path.join(folder, name))),
    )
    files.write(os.path.join(folder, hook_manifest.NAME), hook_manifest.render(compact))
    _verify(folder, wish, delivery)
    return Made(
        variant=variant,
        compact=compact,
        files=tuple(part.target for part in delivery.copies),
        without=delivery.without,
        left=delivery.left,
    )


def _found(view: RootView, place: NamedPath) -> Replacement:
    """Return what a place offers; where an image has views, what is in the first one with any."""
    top = place.prefix or place.path
    views = [name for name in view.listing(f"{place.path}/env") if not name.startswith(".")]
    views.sort(key=lambda name: name != "default")
    for path in (top, *(f"{place.path}/env/{name}" for name in views)):
        try:
            return find_replacement(view, path)
        except StackproofError as error:
            if error.reason is not Reason.NO_MPI:
                raise
    return find_replacement(view, top)


def _plan(
    view: RootView, replacement: Replacement, wish: ArtefactRequest
) -> tuple[InjectionDelivery, Compact]:
    """Return the plan; private names hold a hash of all that is copied."""
    delivery, _ = plan_artefact(view, replacement, wish)
    total = hashlib.sha256()
    for source in sorted({part.source for part in delivery.copies}):
        total.update(files.sha256(real_path(view, source)).encode())
    return plan_artefact(view, replacement, replace(wish, tag=total.hexdigest()[:_TAG_LETTERS]))


def _copy_bill(view: RootView, places: Sequence[str], folder: str) -> None:
    """Carry over the bill of materials of the image or tree that the libraries are of."""
    for place in dict.fromkeys(places):
        path = os.path.join(place, fabric.BILL)
        if view.look(path) is not None:
            bill = files.read_bounded(real_path(view, path), limits.IMAGE_MEMBER)
            files.write(os.path.join(folder, fabric.BILL), bill)
            return


def _libcxi(view: RootView, delivery: InjectionDelivery) -> str:
    """Return the newest node of the libcxi that a variant is made with."""
    for part in delivery.copies:
        if os.path.basename(part.source).startswith("libcxi.so"):
            file = view.look(part.source)
            return newest_node(view.elf(file), "LIBCXI") if file else ""
    return ""


def _verify(folder: str, wish: ArtefactRequest, delivery: InjectionDelivery) -> None:
    """Raise `StackproofError` unless everything is found, and in the artefact."""
    view = RootView()
    for part in delivery.copies:
        path = os.path.join(folder, part.target)
        # A plug-in is opened by a libfabric that is loaded already: here by the one it came with.
        opener = os.path.join(folder, "libfabric") if part.target.startswith("provider/") else ""
        setting = LoaderSettings(library_path=(opener,) if opener else ())
        closure = load_program(view, path, machine=wish.machine, setting=setting)
        lost = [edge.name for edge in closure.missing]
        for name in lost:
            if not is_machines(name):
                raise _lacks(path, f"the loader's model does not find `{name}`")
        for name, found in closure.taken.items():
            mine = f"-sp{_tag(delivery)}" in name
            if mine and not os.path.realpath(found).startswith(os.path.realpath(folder) + "/"):
                raise _lacks(path, f"the loader takes `{found}` for `{name}`")


def _tag(delivery: InjectionDelivery) -> str:
    """Return the tag of the private names; a text that no name has where there is none."""
    for part in delivery.copies:
        head, found, tail = os.path.basename(part.target).rpartition("-sp")
        if found and head and part.target.startswith("private/"):
            return tail.partition(".")[0]
    return "none"


def _lacks(path: str, message: str) -> StackproofError:
    return fail(
        Reason.INJECTION_FAILS,
        message,
        where=Location(file=path),
        hint="see what it finds now: `ldd` of the library in the prefix",
    )


def publish(artefact: ArtefactMetadata, folder: str, output: str) -> None:
    """Write what an artefact says of itself, and give it its name: a folder, or an image.

    Raises `StackproofError`: USAGE when the name is taken, TOOL_MISSING, and what files raise.
    """
    files.write(os.path.join(folder, named.ARTEFACT), noun.to_json(artefact))
    versions.normalise(folder)
    whole = folder
    if output.endswith(".squashfs"):
        whole = f"{folder}.squashfs"
        run.check(Command(argv=superblock.pack_argv(folder, whole), timeout_s=_PACK_TIMEOUT_S))
    try:
        os.rename(whole, output)
    except OSError as error:
        raise files.translate(error, output) from error


@contextlib.contextmanager
def staging(output: str) -> Iterator[str]:
    """Give an empty folder for an output, which nobody else can enter; it is gone afterwards.

    Raises `StackproofError`: USAGE when the output exists, and what files raise.
    """
    if os.path.lexists(output):
        raise fail(
            Reason.USAGE,
            f"`{output}` exists",
            where=Location(file=output),
            hint="name one that is not there yet: what is in use must not change",
        )
    with versions.beside(output, "artefact") as folder:
        path = os.path.join(folder, "tree")
        os.mkdir(path, 0o700)
        yield path


def load(text: str) -> ReadArtefact:
    """Return an artefact; an image is unpacked into the cache, and seen at its own place.

    Raises `StackproofError` for a damaged one, and what reading images raises.
    """
    if os.path.isdir(text):
        place, folder = NamedPath(path=os.path.abspath(text)), os.path.abspath(text)
        path = os.path.join(text, named.ARTEFACT)
        content = files.read_bounded(path, limits.ARTEFACT, hint=_AGAIN)
        artefact = noun.from_json(ArtefactMetadata, content, file=path)
    else:
        content = image_file.read_member(text, named.ARTEFACT)
        artefact = noun.from_json(ArtefactMetadata, content, file=f"{text}:{named.ARTEFACT}")
        place = named.load_place(f"{text}:{artefact.place}")
        folder = place.binds[artefact.place]
    return ReadArtefact(place=place, artefact=artefact, compacts=dict(_compacts(artefact, folder)))


def _compacts(artefact: ArtefactMetadata, folder: str) -> Iterator[tuple[str, Compact]]:
    for variant in artefact.variants:
        path = os.path.join(folder, variant.folder, hook_manifest.NAME)
        content = files.read_bounded(path, limits.ARTEFACT, hint=_AGAIN)
        yield variant.folder, hook_manifest.parse(content.decode(errors="replace"), file=path)


def own_libcxi() -> str:
    """Return the newest node of the libcxi that came with this machine's driver, empty if none."""
    view = RootView()
    for folder in _SYSTEM_FOLDERS:
        file = view.look(os.path.join(folder, "libcxi.so.1"))
        if file is not None:
            return newest_node(view.elf(file), "LIBCXI")
    return ""


# ------------------------- Artefacts made of what is installed, and levels at which programs work

ARTEFACT_FOLDER = "/opt/stackproof"


class Chosen(Value):
    """A variant of an artefact, and the level that it is injected at, empty for any."""

    held: ReadArtefact
    variant: Variant
    level: str = ""

    @property
    def folder(self) -> str:
        """Return the folder of the variant, where its artefact was read."""
        return self.held.folder(self.variant)

    @property
    def compact(self) -> Compact:
        """Return what hooks are told of the variant."""
        return self.held.compacts[self.variant.folder]

    @property
    def environment(self) -> Mapping[str, str]:
        """Return what must be set at the level."""
        return self.compact.environment.get(self.level, {})

    @property
    def replaces(self) -> Mapping[str, str]:
        """Return the files that are put in place at the level, by the names that they replace."""
        return {one.name: one.file for one in self.compact.replaces if one.level == self.level}


class Ranked(Value):
    """A variant of an artefact, and each program's levels with it, the safest first."""

    artefact: ArtefactMetadata
    variant: Variant
    programs: dict[str, tuple[Level, ...]]


def make(options: ArtefactOptions) -> tuple[ArtefactMetadata, tuple[Made, ...]]:
    """Make an artefact and return it, with what is in each variant; raises `StackproofError`."""
    output = os.path.abspath(options.output.rstrip("/"))
    stem = os.path.basename(output).removesuffix(".squashfs")
    name = check_name(options.name or stem)
    releases = [check_release(text) for text in options.shs]
    if len(set(releases)) != len(releases) or len(releases) not in {0, len(options.prefixes)}:
        raise fail(Reason.USAGE, "name one `--shs` for every prefix, and each of them once")
    if not releases and len(options.prefixes) > 1:
        raise fail(Reason.USAGE, "several prefixes are variants: name a `--shs` for each")
    place = _place(options.place or f"{ARTEFACT_FOLDER}/{name}")
    machine = machine_of(options.isa)
    made: list[Made] = []
    with staging(output) as folder:
        for number, text in enumerate(options.prefixes):
            shs = releases[number] if releases else ""
            below = f"shs-{shs}" if shs else "default"
            wish = ArtefactRequest(
                name=name, place=f"{place}/{below}", tag="0" * 8, machine=machine, shs=shs
            )
            source = named.load_place(text)
            made.append(make_variant(source, wish, os.path.join(folder, below)))
        artefact = ArtefactMetadata(
            name=name, place=place, variants=tuple(one.variant for one in made)
        )
        publish(artefact, folder, output)
    return artefact, tuple(made)


def _place(text: str) -> str:
    normal = os.path.normpath(text)
    if not normal.startswith("/") or normal == "/" or set(normal) & set(" \t:,"):
        raise fail(
            Reason.USAGE,
            f"`{text}` cannot be the place of an artefact",
            hint="an absolute path without spaces, `:` and `,`, for example /opt/stackproof/net",
        )
    return normal


def choose(held: ReadArtefact, shs: str, level: str = "", *, any_level: bool = False) -> Chosen:
    """Return the variant for a release, or for this machine, and the level to inject at.

    That is the wanted one, or the highest that there is. Raises `StackproofError` (USAGE) for one
    that the artefact has not.
    """
    found = Chosen(held=held, variant=choose_variant(held.artefact, shs, own_libcxi()), level=level)
    have = tuple(dict.fromkeys(one.level for one in found.compact.replaces))
    if any_level or level in have:
        return found
    if level:
        raise fail(
            Reason.USAGE,
            f"`{found.compact.name}` has no level `{level}`",
            hint=f"it has: {', '.join(have)}",
        )
    return replace(found, level=next(n for n in ("mpi", "libfabric", "libcxi") if n in have))


def ranked(replacement: str, shs: str, of: ProgramOptions, question: Question) -> Ranked:
    """Return at which levels programs work with an artefact; raises as reading them does."""
    held = load(replacement)
    found = choose(held, shs, any_level=True)
    programs = {}
    for text in of.programs:
        place = named.load_place(text, of.root)
        more = dict(held.place.binds) or ({held.place.path: held.place.path})
        view = place.view(of.root, more if of.root != "/" or held.place.binds else None)
        for path in named.programs_of(place, view):
            levels = rank(view, path, found.folder, found.variant, found.compact, question)
            programs[path] = tuple(levels)
    return Ranked(artefact=held.artefact, variant=found.variant, programs=programs)
