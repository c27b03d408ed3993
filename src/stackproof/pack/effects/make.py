"""An image and programs to a pack: unpacked, looked at, made to run anywhere, and checked."""

from __future__ import annotations

import contextlib
import os
import posixpath
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field

from stackproof import __version__
from stackproof.core import limits, noun
from stackproof.core.command import EnvPatch
from stackproof.core.effects import files
from stackproof.core.errors import Location, Problem, Reason, StackproofError, fail
from stackproof.core.value import Value, replace
from stackproof.image.effects import tree
from stackproof.image.effects.image_file import load_image
from stackproof.image.effects.tree import relocated
from stackproof.image.effects.view import ImageFiles
from stackproof.image.model import Image, MpiFacts, View
from stackproof.inject.artefact import is_machines
from stackproof.inject.effects import versions
from stackproof.linking.effects.view import RootView
from stackproof.linking.loader import LoaderSettings, load_program
from stackproof.mpi import families
from stackproof.pack import prefixes
from stackproof.pack.effects import (
    entry_files,
    fitting,
    interpreters,
    links,
    relocate,
    survey,
)
from stackproof.pack.effects.survey import Survey
from stackproof.pack.model import (
    C_LIBRARY,
    LIBRARIES,
    LOADER,
    OF_ITSELF,
    PROGRAMS,
    ROOT,
    SPARE,
    STACK,
    EntryPoint,
    Mounting,
    Moved,
    Origin,
    Pack,
    is_inside,
    program_place,
)

OTHERS = "programs"
"""The folder of the tree for programs that are no part of the image."""
_DOCUMENTS = ("lock.json", "bom.cdx.json", "stack.json", "configure.json")
_PATHS = "LD_LIBRARY_PATH"
_MOUNTED = "left: the stack is mounted there for the program (tier 1)"


class PackWishes(Value):
    """What a pack is to hold.

    `programs` are names or paths, in the image or on this machine; `entries` give programs other
    names, `symlinks` are links in the pack and their targets in it; `view` None is the default one.
    `tier` None is 0 where everything can be moved, else 1.
    """

    programs: tuple[str, ...] = ()
    entries: Mapping[str, str] = field(default_factory=dict)
    symlinks: Mapping[str, str] = field(default_factory=dict)
    view: str | None = None
    tier: int | None = None


class _Work(Struct, kw_only=True):
    """One pack in the making; paths of the tree are those at the image's mount point.

    `outside` maps the programs of this machine to their paths in the tree.
    """

    pack: Path
    image: Image
    env: EnvPatch
    library_path: tuple[str, ...]
    view: RootView
    named: dict[str, str] = field(default_factory=dict)
    outside: dict[str, str] = field(default_factory=dict)

    def place(self, path: str) -> str:
        """Return the path in the pack of a path at the mount point.

        Raises `StackproofError` (UNSUPPORTED) for one that is not below it.
        """
        if not is_inside(path, self.image.mount):
            raise StackproofError(_not_inside(self.image, path))
        return STACK + posixpath.normpath(path)[len(self.image.mount) :]

    def mpi(self) -> MpiFacts | None:
        """Return the image's MPI with its prefix as a path in the pack, None without one."""
        mpi = self.image.mpi
        return replace(mpi, prefix=self.place(mpi.prefix)) if mpi else None

    def here(self, path: str) -> Path:
        """Return where a path at the mount point lies now."""
        return self.pack / self.place(path)


def make(image_file: str, wishes: PackWishes, pack: Path) -> Pack:
    """Fill an empty folder with a pack, and return what it says of itself.

    Raises `StackproofError`: what images and ELF files raise; UNKNOWN_VIEW, COMMAND_NOT_FOUND for a
    program that is not there; UNSUPPORTED where tier 0 is asked for, something names the place that
    it was built for, and nothing says why that does not matter; NO_MPI, INJECTION_FAILS for a
    program of this machine that the image's MPI is no MPI for; TOOL_MISSING, BUILD_FAILED,
    DISK_FULL.
    """
    work = _begin(load_image(image_file), wishes, pack)
    recorded = tree.recorded(image_file)
    tree.unpack(image_file, pack / STACK, work.image.mount).close()
    links.close(os.fspath(pack / STACK), work.image.mount, STACK)
    documents = _take_documents(pack / STACK)
    _name_programs(work, wishes)
    doubts = _fit_in(work)
    found = survey.look_around(
        work.view, work.image.mount, work.library_path,
        has_mpi=work.image.mpi is not None, architecture=work.image.architecture,
    )  # fmt: skip
    survey.check(found, tuple(work.named.values()))
    env = _told(work, found)
    programs = _programs(work, found)
    loading = relocate.loading_of(found, programs)
    carried = {LIBRARIES: found.libraries, SPARE: found.spare, LOADER: found.c_library}
    libraries = dict(pair for one in carried.items() for pair in relocate.carry(pack, *one))
    moved = [*_relocate(work, found, programs, env)]
    mounting = _mounting(work, moved, wishes.tier)
    moved = [one if one.done else replace(one, done=_MOUNTED) for one in moved]
    entries = tuple(replace(_entry(work, path, env), mounting=mounting) for path in programs)
    entry_files.write_entries(pack, entries, loading, found.machine.architecture)
    shown = _link_programs(work, wishes, programs)
    versions.normalise(pack)
    _verify(work, found, programs)
    return Pack(
        name=work.image.name,
        tier=1 if mounting else 0,
        origin=Origin(
            image=work.image.name,
            image_sha256=files.sha256(image_file),
            stack=work.image.stack_id,
            lock=work.image.lock_digest,
            tree=recorded.sha256 if recorded else "",
            glibc=f"2.{relocate.own_floor(found)}",
            stackproof=__version__,
        ),
        floor=loading.floor,
        programs=shown,
        main=next(iter(work.named)) if len(work.named) == 1 else "",
        mounting=mounting,
        libraries=libraries,
        tree=tree.of_folder(pack, (OF_ITSELF,)).sha256,
        redistribute=work.image.redistribute,
        missing=dict(sorted(found.missing.items())),
        notes=(*doubts, *map(_without_rights, ImageFiles(image_file).set_id())),
        moved=tuple(sorted(moved, key=lambda one: (one.file, one.offset))),
        documents=documents,
        mpi=work.mpi(),
        architecture=found.machine.architecture,
    )


def _begin(image: Image, wishes: PackWishes, pack: Path) -> _Work:
    """Return the work with the environment of the view, the MPI's own needs first."""
    name = wishes.view if wishes.view is not None else image.default_view
    if name is not None and name not in image.views:
        raise fail(
            Reason.UNKNOWN_VIEW,
            f"image `{image.path}` has no view `{name}`",
            hint=f"views are: {', '.join(sorted(image.views)) or 'none'}",
        )
    _check_places(image)
    env = EnvPatch()
    if image.mpi is not None and image.mpi.family in families.REGISTRY:
        env = families.get(image.mpi.family).environment(image.mpi.prefix)
    env = env.then(image.views[name].env) if name is not None else env
    if "${@" in noun.to_json(env):
        raise fail(
            Reason.UNSUPPORTED,
            f"view `{name}` of image `{image.path}` takes values from the user's environment",
            hint="choose a view that does not, by --view",
        )
    words = (env.set.get(_PATHS, ""), *env.prepend.get(_PATHS, ()), *env.append.get(_PATHS, ()))
    paths = tuple(word for text in words for word in text.split(":") if word)
    return _Work(
        pack=pack,
        image=image,
        env=env,
        library_path=paths,
        view=RootView("/", {image.mount: str(pack / STACK)}),
    )


def _check_places(image: Image) -> None:
    """Raise `StackproofError` (UNSUPPORTED) for what an image has elsewhere by its own words."""
    mount = image.mount
    if mount != posixpath.normpath(mount) or not re.match("/[^/]", mount):
        raise fail(
            Reason.UNSUPPORTED,
            f"image `{image.path}` is for `{mount}`, which is no plain path of a folder",
            where=Location(file=image.path),
            hint="make images with `stackproof build`",
        )
    named = [one.path for one in image.benchmarks]
    named += [image.mpi.prefix] if image.mpi else []
    problems = [_not_inside(image, path) for path in named if not is_inside(path, mount)]
    if problems:
        raise StackproofError(*problems)


def _not_inside(image: Image, path: str) -> Problem:
    return Problem(
        reason=Reason.UNSUPPORTED,
        message=f"image `{image.path}` names `{path}`, which is not in it",
        where=Location(file=image.path),
        hint=f"what a pack is made of lies below `{image.mount}`",
    )


def _take_documents(tree: Path) -> dict[str, str]:
    """Take what the image says of itself out of its tree: it is about the image, not the pack."""
    found = {}
    for name in _DOCUMENTS:
        path = tree / "meta" / name
        if path.is_file() and not path.is_symlink():
            content = files.read_bounded(path, limits.IMAGE_MEMBER)
            found[name] = content.decode(errors="replace")
    files.remove(tree / "meta")
    env = tree / "env"
    for view in sorted(env.iterdir()) if env.is_dir() and not env.is_symlink() else ():
        if view.is_symlink():
            continue
        for name in ("env.json", "activate.sh"):
            files.remove(view / name)
        for folder in (view, view.parent):
            with contextlib.suppress(OSError):  # other views, or what a view merges
                folder.rmdir()
    return found


def _name_programs(work: _Work, wishes: PackWishes) -> None:
    """Find the programs that were asked for; those of this machine are copied to the tree."""
    problems: list[Problem] = []
    asked = {posixpath.basename(word): word for word in wishes.programs} | dict(wishes.entries)
    for name, word in asked.items():
        try:
            work.named[name] = _find(work, word)
        except StackproofError as error:
            problems += error.problems
    if problems:
        raise StackproofError(*problems)


def _find(work: _Work, word: str) -> str:
    mount = work.image.mount
    inside = [f"{mount}/{word.lstrip('/')}"] if "/" in word else []
    inside += [word] if word.startswith(f"{mount}/") else []
    if "/" not in word:
        inside += [one.path for one in work.image.benchmarks if one.name == word]
        inside += [f"{folder}/{word}" for folder in _path_folders(work)]
    for path in inside:
        if is_inside(path, mount) and work.view.look(path) is not None:
            return path
    outside = word if "/" in word else shutil.which(word) or ""
    if not outside or not os.path.isfile(outside):
        raise fail(
            Reason.COMMAND_NOT_FOUND,
            f"there is no program `{word}` in `{work.image.path}`, nor on this machine",
            hint="name one by its path in the image or here",
        )
    if not work.outside and os.path.lexists(work.here(f"{mount}/{OTHERS}")):
        raise StackproofError(
            relocate.taken_already(f"{STACK}/{OTHERS}", "programs of this machine are copied")
        )
    path = f"{mount}/{OTHERS}/{PROGRAMS}/{os.path.basename(outside)}"
    interpreters.carry(outside, work.here(path))
    work.outside[os.path.abspath(outside)] = path
    return path


def _fit_in(work: _Work) -> tuple[str, ...]:
    """Let programs of this machine find the image's MPI; return what files do not tell of that."""
    fit = fitting.judged(work.view, work.image, tuple(work.outside))
    folder = f"{work.image.mount}/{OTHERS}/{LIBRARIES}"
    for name, target in fit.links.items():
        link = work.here(f"{folder}/{name}")
        link.parent.mkdir(exist_ok=True)
        os.symlink(os.path.relpath(work.here(target), link.parent), link)
    more = (*((folder,) if fit.links else ()), *fit.folders)
    work.library_path = tuple(dict.fromkeys((*more, *work.library_path)))
    return fit.doubts


def _path_folders(work: _Work) -> tuple[str, ...]:
    """Return the folders of programs without links on the way, as views of Spack have them."""
    words = (*work.env.prepend.get("PATH", ()), *work.env.append.get("PATH", ()))
    mount = work.image.mount
    named = [word for text in words for word in text.split(":") if is_inside(word, mount)]
    if work.image.mpi is not None:
        named.append(f"{work.image.mpi.prefix}/bin")
    found = (work.view.resolve(posixpath.normpath(path)) for path in named)
    return tuple(dict.fromkeys(one[0] for one in found if one is not None))


def _programs(work: _Work, found: Survey) -> tuple[str, ...]:
    """Return all programs of the tree that get an entry point: dynamic ones, scripts on PATH."""
    chosen = dict.fromkeys(work.named.values())
    for path, elf in found.elves.items():
        if elf.interpreter and not elf.soname and os.access(work.here(path), os.X_OK):
            chosen[path] = None
    for folder in _path_folders(work):
        for name in work.view.listing(folder):
            path = f"{folder}/{name}"
            here = work.here(path)
            if here.is_file() and not here.is_symlink() and os.access(here, os.X_OK):
                chosen[path] = None
    real_paths = {path: work.view.resolve(path) for path in chosen}
    plain = {path: None for path, real in real_paths.items() if real and real[0] == path}
    plain |= {real[0]: None for real in real_paths.values() if real}
    return tuple(
        path for path in plain if path in found.elves or interpreters.shebang(work.here(path))
    )


def _told(work: _Work, found: Survey) -> EnvPatch:
    """Return what entry points tell programs, with the pack's folder in the place of the mount.

    Variables that name what is not in the tree are left out. LD_LIBRARY_PATH is not set: run paths
    lead to libraries, and what a rank starts is not touched.
    """
    env, mount = work.env, work.image.mount
    more = fitting.mpi_by_name(work.view, work.image, tuple(found.elves))
    for path in found.elves:
        for finder in prefixes.FINDERS:
            known = finder.variable in env.set or finder.variable in more
            if known or not finder.library.fullmatch(posixpath.basename(path)):
                continue
            value = finder.value(path)
            with relocate.content_of(work.here(path)) as content:
                names_it = content.find(mount.encode()) >= 0
            if names_it and work.view.exists(value):
                more[finder.variable] = value

    def is_there(value: str) -> bool:
        return not is_inside(value, mount) or work.here(value).exists()

    def other(lists: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        return {name: words for name, words in lists.items() if name != _PATHS}

    kept = {name: value for name, value in {**more, **env.set}.items() if is_there(value)}
    kept.pop(_PATHS, None)
    patch = EnvPatch(
        set=kept, unset=env.unset, prepend=other(env.prepend), append=other(env.append)
    )
    view = View(name="", root=mount, env=patch)
    moved = relocated(replace(work.image, views={"": view}), f"{ROOT}/{STACK}")
    return moved.views[""].env


def _relocate(
    work: _Work, found: Survey, programs: Sequence[str], env: EnvPatch
) -> Iterator[Moved]:
    mount = work.image.mount
    relocate.move_programs(work.pack, map(work.place, programs))
    always = [work.place(path) for path in work.library_path if is_inside(path, mount)]
    folders = {
        work.place(path): [work.place(folder) for folder in some]
        for path, some in found.folders.items()
    }
    elves = {work.place(path): elf for path, elf in found.elves.items()}
    places = {work.place(path): program_place(work.place(path)) for path in programs}
    yield from relocate.seal_tree(work.pack, elves, folders, always, places)
    yield from relocate.rewrite_texts(work.pack, mount)
    scripts = frozenset(places.values())
    yield from relocate.left(work.pack, mount, env.set, scripts)


def _entry(work: _Work, path: str, env: EnvPatch) -> EntryPoint:
    place = work.place(path)
    program = program_place(place)
    launcher = work.image.mpi is not None and path.startswith(f"{work.image.mpi.prefix}/bin/")
    entry = EntryPoint(place=place, program=program, env=env, launcher=launcher)
    script = interpreters.shebang(work.pack / program)
    if script is None:
        return entry
    interpreter, argument = script
    name, rest = interpreters.named_by(interpreter, argument)
    if name in work.named:
        interpreter, argument = work.named[name], rest
    if not interpreter.startswith(f"{work.image.mount}/"):
        return replace(entry, script=True)
    return replace(
        entry,
        program=program_place(work.place(interpreter)),
        launcher=False,
        name=f"{ROOT}/{work.place(interpreter)}",
        arguments=(*filter(None, [argument]), f"{ROOT}/{program}"),
    )


def _mounting(work: _Work, moved: Sequence[Moved], tier: int | None) -> Mounting | None:
    """Return what tier 1 mounts, None where tier 0 will do.

    Raises `StackproofError` (UNSUPPORTED) for every text that keeps a pack from the tier 0 that was
    asked for.
    """
    faults = [one for one in moved if not one.done]
    if tier == 0 and faults:
        raise StackproofError(
            *(
                Problem(
                    reason=Reason.UNSUPPORTED,
                    message=f"`{one.file}` at byte {one.offset} names the place that it was built "
                    f"for, and nothing says that this does not matter: {one.text}",
                    where=Location(file=work.image.path),
                    hint="leave `--tier 0` out, so that the stack is mounted there (tier 1); or "
                    "deploy the image itself (`stackproof run`), or build the stack without it",
                )
                for one in faults
            )
        )
    if tier == 1 and not faults:
        return Mounting(place=work.image.mount, because="it was asked for (--tier 1)")
    if not faults:
        return None
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return Mounting(place=work.image.mount, because=f"{faults[0].file} names that place{more}")


def _link_programs(work: _Work, wishes: PackWishes, programs: Sequence[str]) -> dict[str, str]:
    """Link entry points into `bin/` by their names, and make the links that were asked for."""
    shown = {name: work.place(path) for name, path in work.named.items()}
    prefix = f"{work.image.mpi.prefix}/bin/" if work.image.mpi else "/"
    folders = {f"{folder}/" for folder in _path_folders(work)}
    benchmarks = {one.path for one in work.image.benchmarks}
    for path in programs:
        folder, name = f"{posixpath.dirname(path)}/", posixpath.basename(path)
        wanted = folder in folders or path in benchmarks
        if folder == prefix or (wanted and not work.named):
            shown.setdefault(name, work.place(path))
    (work.pack / PROGRAMS).mkdir()
    for name, place in shown.items():
        os.symlink(posixpath.join("..", place), work.pack / PROGRAMS / name)
    mpi = work.mpi()
    links.add_links(work.pack, wishes.symlinks, mpi.prefix if mpi else "")
    return dict(sorted(shown.items()))


def _without_rights(path: str) -> str:
    return f"`{path[1:]}` is set-uid or set-gid no longer: no program of a pack gets more rights"


def _verify(work: _Work, found: Survey, programs: Sequence[str]) -> None:
    """Raise `StackproofError` where the model of the loader finds something outside of the pack.

    The loader itself is not asked: of what somebody else made it may run code (`DT_AUDIT`).
    """
    top = os.path.realpath(work.pack) + "/"
    view, setting = RootView(), LoaderSettings(library_path=(str(work.pack / SPARE),))
    asks = set(found.missing.values())
    for path in programs:
        elf = found.elves.get(path)
        if elf is None or not elf.interpreter or path in asks:
            continue
        real = os.path.realpath(work.pack / program_place(work.place(path)))
        closure = load_program(view, real, machine=found.machine, setting=setting)
        for name, file in {**closure.taken, **{edge.name: "" for edge in closure.missing}}.items():
            base = posixpath.basename(name)
            left = is_machines(base) and base not in found.spare
            if left or C_LIBRARY.fullmatch(base):
                continue
            if not os.path.realpath(file).startswith(top):
                raise fail(
                    Reason.BUILD_FAILED,
                    f"the loader takes `{file or 'nothing'}` for `{name}`, not a file of the pack",
                    where=Location(file=path),
                    hint="report this, with the recipe of the image",
                )
