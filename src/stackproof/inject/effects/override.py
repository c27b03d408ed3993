"""An override folder of EESSI filled with an MPI or libfabric: judged, switched, traced, told."""

from __future__ import annotations

import os
import posixpath
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from stackproof.core import limits
from stackproof.core.effects import files
from stackproof.core.effects.foreign import folder as foreign_folder
from stackproof.core.effects.foreign.folder import OpenFolder
from stackproof.core.errors import Location, Reason, fail
from stackproof.core.value import Value, replace
from stackproof.inject import eessi, levels, site_hook
from stackproof.inject.attempt import Question
from stackproof.inject.delivery import InjectionDelivery
from stackproof.inject.eessi import (
    HOME,
    PRIVATE,
    aliases,
    family_folder,
    plan_filling,
    variant_name,
)
from stackproof.inject.effects import artefact as artefacts
from stackproof.inject.effects import known_releases, named, staging, versions
from stackproof.inject.effects.artefact import Chosen
from stackproof.inject.effects.check import machine_of
from stackproof.inject.effects.staging import Injection
from stackproof.inject.effects.wanted import Done, ProgramNow, load_programs, refuse
from stackproof.inject.judge import judge
from stackproof.inject.options import ApplyOptions
from stackproof.inject.replacement import Main, Replacement, find_replacement
from stackproof.inject.site_hook import Settings
from stackproof.linking.effects.view import RootView
from stackproof.linking.loader import Machine, load_program
from stackproof.mpi import abi

_LOCK_S = 10.0


class _Offered(Value):
    """What is put there: the libraries of a prefix in a view; `stays` where jobs see it there too.

    `source` is recorded; `alone` for libfabric without an MPI. `chosen` is of an artefact.
    """

    view: RootView
    replacement: Replacement
    source: str
    stays: bool
    alone: bool
    chosen: Chosen | None = None


class _Target(Value):
    """An override folder: `place` on disk, `shown` by EESSI's name, and in programs' DT_RPATH.

    `software` is EESSI's folder of the site, `name` what tells it apart there.
    """

    software: str
    name: str
    family: str
    place: str
    shown: str
    seen: Mapping[str, str]


def fill_override(options: ApplyOptions) -> Done:
    """Fill an override folder, or say what it would hold; raises as `apply.apply` does."""
    variant = variant_name(options.compiler, options.accelerator)
    told = site_hook.parse_settings(options.settings)
    software = _software(options)
    programs, offered = load_programs(options), _offered(options)
    if offered.alone:
        family = options.family or _family_of(programs)
    else:
        main = offered.replacement.main_for(programs[0].demand.abi)
        family = options.family or (family_folder(main) if main else "")
    target = _target(software, family, variant, programs)
    filling = _planned(options, offered, programs, target)
    part = ""
    if options.site:
        filling = replace(filling, environment={**filling.environment, **told})
        part = site_hook.render_part(_settings(options, offered, filling, target))
    hook = os.path.join(os.path.realpath(software), site_hook.FILE)
    done = Done(
        place=target.place,
        files=(*_listed(filling), *([f"{hook} sets what the MPI is told"] if part else [])),
        environment={} if part else filling.environment,
        notes=_notes(filling, offered, options),
    )
    check = _judged(options, offered, programs, target)
    if options.dry_run:
        with tempfile.TemporaryDirectory(prefix="stackproof-inject-") as folder:
            staging.fill(filling, folder, offered.view)
            check(folder)
        return done
    record = Injection(
        place=target.place, prefix=offered.source, hook=hook, name=target.name, part=part
    )
    names = tuple(dict.fromkeys(name for one in programs for name in one.demand.names))
    with versions.locked(target.place) as keep:
        with versions.staging(keep) as folder:
            sources = staging.fill(filling, folder, offered.view)
            check(folder)
            now = staging.recorded(keep)
            has = set(os.listdir(os.path.join(folder, "lib")))
            record = replace(record, sources=sources)
            if now is not None and _alike(now, record):
                write_part(hook, target.name, part)
                return replace(done, notes=(*done.notes, "it was so already: nothing was changed"))
            staged = staging.commit(keep, folder, record)
        taken = tuple(name for name in names if name in has)  # others stay, and were accepted
        taken = (*taken, eessi.FABRIC) if offered.alone else taken

        def confirm() -> None:
            _verify(programs, taken, target.place, machine_of(options.isa))
            write_part(hook, target.name, part)

        staging.with_rollback(keep, staged, confirm)
    return done


def _alike(now: Injection, new: Injection) -> bool:
    words = ("prefix", "sources", "hook", "part")
    return all(getattr(now, word) == getattr(new, word) for word in words)


def _software(options: ApplyOptions) -> str:
    """Return EESSI's folder of the site for a version and a processor."""
    if options.eessi:
        if os.path.isdir(options.eessi):
            return os.path.abspath(options.eessi)
        raise fail(
            Reason.FILE_MISSING,
            f"there is no folder `{options.eessi}`",
            where=Location(file=options.eessi),
            hint="make it: …/host_injections/VERSION/software/linux/CPU, as $EESSI_SOFTWARE_PATH",
        )
    folder = site_hook.folder_of(os.environ)
    top = folder[: folder.index("/host_injections/") + len("/host_injections")]
    if not os.path.isdir(top):
        real = os.path.realpath(top)
        raise fail(
            Reason.FILE_MISSING,
            f"`{top}` leads to `{real}`, which is not there",
            where=Location(file=top),
            hint=f"make it, readable for everybody: mkdir -p {real}",
        )
    return folder


def _offered(options: ApplyOptions) -> _Offered:
    """Return what is named by `--with`: a prefix, an image of ours, or an artefact."""
    text = options.replacement
    if named.is_artefact(text):
        chosen = artefacts.choose(artefacts.load(text), options.shs, options.level)
        if chosen.level == "libcxi":
            raise fail(
                Reason.UNSUPPORTED,
                f"`{text}` has libcxi alone, which no program of EESSI asks for",
                hint="make an artefact with libfabric",
            )
        view = _root_view(chosen.held.place)
        return _Offered(
            view=view,
            replacement=find_replacement(view, os.path.join(chosen.folder, chosen.level)),
            source=os.path.join(os.path.abspath(text), chosen.variant.folder),
            stays=False,
            alone=chosen.level == "libfabric",
            chosen=chosen,
        )
    if options.shs:
        raise fail(Reason.USAGE, "`--shs` chooses a variant of an artefact", hint="leave it out")
    place = named.load_replacement(text)
    view = _root_view(place)
    found = find_replacement(view, place.home)
    return _Offered(
        view=view,
        replacement=found,
        source=os.path.abspath(text) if place.binds else found.prefix,
        stays=not place.binds,
        alone=options.level == "libfabric" or not (found.mains or options.level),
    )


def _root_view(place: named.NamedPath) -> RootView:
    return RootView("/", dict(place.binds))


def _family_of(programs: Sequence[ProgramNow]) -> str:
    """Return the folder's name for the MPI that programs load today."""
    for one in programs:
        for loaded in one.closure.objects[1:]:
            found = abi.family_of(loaded.elf)
            if found is not None:
                own = Main(
                    path=loaded.path,
                    file=loaded.file,
                    elf=loaded.elf,
                    family=found[0],
                    shown=found[1],
                )
                return family_folder(own)
    raise fail(
        Reason.NO_MPI,
        "it loads no MPI",
        where=Location(file=programs[0].path),
        hint="name programs that load one: libfabric is what their MPI uses",
    )


def _target(software: str, family: str, variant: str, programs: Sequence[ProgramNow]) -> _Target:
    shown = os.path.join(software, "rpath_overrides", family, variant)
    # What is named is the site's own word, also where it is a link of CernVM-FS.
    real = os.path.join(os.path.realpath(software), "rpath_overrides", family, variant)
    place = versions.real_place(real)
    return _Target(
        software=software,
        name=f"{family}/{variant}",
        family=family,
        place=place,
        shown=shown,
        seen={one.path: _seen(one, place) for one in programs},
    )


def _planned(
    options: ApplyOptions, offered: _Offered, programs: Sequence[ProgramNow], target: _Target
) -> InjectionDelivery:
    """Return what the folder is filled with."""
    machine, view = machine_of(options.isa), offered.view
    names = tuple(dict.fromkeys(name for one in programs for name in one.demand.names))
    if offered.alone:
        path = eessi.find_fabric(view, offered.replacement, machine)
        with _without(target.place) as bare:
            closures = {one.path: load_program(bare, one.path, machine=machine) for one in programs}
        main = eessi.main_of(closures)
        return eessi.plan_fabric(view, path, main, machine, target.shown)
    chosen = offered.chosen
    if chosen is None:
        carried = "" if offered.stays else target.shown
        filling = plan_filling(view, offered.replacement, names, machine, carried)
        told = {**_providers(filling, target.shown), **filling.environment}
        return replace(filling, environment=told)
    parts = {"lib": "mpi", "private": "private", HOME: HOME}
    trees = {below: os.path.join(chosen.folder, name) for below, name in parts.items()}
    return InjectionDelivery(
        trees={below: folder for below, folder in trees.items() if view.listing(folder)},
        links={"lib64": "lib", **aliases(view, offered.replacement, names)},
        environment=levels.environment_in(chosen.compact, target.shown),
    )


def _providers(filling: InjectionDelivery, shown: str) -> dict[str, str]:
    """Return where a libfabric that was moved finds its plug-ins: it looks nowhere beside itself.

    EESSI's module may name the folder of its own libfabric, whose plug-ins are of another release.
    """
    folder = f"lib/{PRIVATE}/libfabric"
    moved = any(one.target.startswith(f"{folder}/") for one in filling.copies)
    return {"FI_PROVIDER_PATH": os.path.join(shown, folder)} if moved else {}


@contextmanager
def _without(place: str) -> Iterator[RootView]:
    """Give a view in which an override folder is empty, as without any injection."""
    with tempfile.TemporaryDirectory(prefix="stackproof-empty-") as empty:
        yield RootView("/", {place: empty})


def _settings(
    options: ApplyOptions, offered: _Offered, filling: InjectionDelivery, target: _Target
) -> Settings:
    """Return what the site's hook sets when the MPI's module is loaded."""
    paths: tuple[str, ...] = ()
    if any(one.target.startswith(f"{HOME}/bin/") for one in filling.copies):
        paths = (os.path.join(target.shown, HOME, "bin"),)
    elif filling.environment and offered.stays and not offered.alone:
        paths = (os.path.join(offered.replacement.home, "bin"),)
    return Settings(
        name=f"stackproof {target.name}",
        family=target.family,
        compiler=options.compiler,
        variables=filling.environment,
        paths=paths,
    )


def write_part(path: str, name: str, part: str) -> None:
    """Put a part into a site's file of hooks, or take it out; a file with nothing left goes too."""
    folder = Path(path).parent
    if not part and not os.path.lexists(path):
        return
    busy = fail(Reason.BUSY, f"another stackproof changes `{path}`", hint="try again")
    file = os.path.basename(path)
    with (
        foreign_folder.open_folder(folder, make=0o755, any_owner=True, exact=True) as opened,
        opened.locked(".stackproof.lock", seconds=_LOCK_S, mode=0o600, busy=busy),
    ):
        old, mode = _read_hook(opened, file)
        new = site_hook.with_part(old, f"stackproof {name}", part)
        if new and new != old:
            opened.write(file, new.encode(errors="surrogateescape"), mode)
        elif new != old:
            opened.remove(file)


def _read_hook(folder: OpenFolder, name: str) -> tuple[str, int]:
    """Return text and mode of a file of hooks; an empty one where it is not there."""
    if folder.state(name) is None:
        return "", 0o644
    with open(folder.open_file(name), "rb") as stream:
        content = files.read_bounded(folder.path / name, limits.DOCUMENT, stream=stream)
        mode = os.fstat(stream.fileno()).st_mode & 0o777
    return content.decode(errors="surrogateescape"), mode


def _listed(filling: InjectionDelivery) -> tuple[str, ...]:
    copies = {one.target: one.source for one in filling.copies} | dict(filling.trees)
    return tuple(f"{target} <- {source}" for target, source in sorted(copies.items()))


def _notes(filling: InjectionDelivery, offered: _Offered, options: ApplyOptions) -> tuple[str, ...]:
    notes = []
    if offered.alone:
        notes.append(
            "programs keep their MPI: its main library is copied, to ask for libfabric first; "
            "programs built with another release of it would get this one"
        )
    elif offered.stays:
        notes.append(f"keep {offered.source}: its launcher is used, and what it opens by that name")
    elif offered.chosen is not None and filling.environment:
        notes.append("an artefact has no launcher: start ranks by srun")
    if options.accelerator and options.site and filling.environment:
        notes.append("modules of the MPI are the same with and without GPU: so are its settings")
    notes += [f"plug-in left behind: {text}" for text in filling.without]
    if filling.left:
        notes.append(f"not copied, as they are the machine's: {', '.join(filling.left)}")
    return tuple(notes)


def _seen(program: ProgramNow, place: str) -> str:
    """Return the place by the name that the program's DT_RPATH has for it."""
    view = RootView("/", {place: "/"})  # only for links above it: the place need not be there yet
    main = program.closure.program
    text = main.elf.rpath or main.elf.runpath or ""
    folders = program.closure.searcher.folders_of(text, main)
    for folder in folders:
        above, name = posixpath.split(folder)
        found = view.resolve(above)
        if found is not None and found[0] == place and name in {"lib", "lib64"}:
            return above
    known = [folder for folder in folders if "/rpath_overrides/" in folder]
    raise fail(
        Reason.INVALID_VALUE,
        f"it does not look into `{place}/lib`",
        where=Location(file=program.path),
        hint=f"it looks into {', '.join(known)}" if known else "its DT_RPATH has no override",
    )


def _judged(
    options: ApplyOptions, offered: _Offered, programs: Sequence[ProgramNow], target: _Target
) -> Callable[[str], None]:
    """Return what raises `StackproofError` unless programs would work with a folder there."""

    def check(folder: str) -> None:
        view = RootView("/", {target.place: folder})
        found = []
        with _without(target.place) as bare:  # without any injection, an earlier one too
            question = Question(
                machine=machine_of(options.isa),
                releases=known_releases.load_releases,
                with_plugins=False,
                before=bare,
            )
            for one in programs:
                below = eessi.FABRIC_FOLDER if offered.alone else ""
                replacement = find_replacement(view, posixpath.join(target.seen[one.path], below))
                found.append(judge(view, one.path, replacement, question))
        refuse(found, accept_unknown=options.accept_unknown)

    return check


def _verify(
    programs: Sequence[ProgramNow], names: tuple[str, ...], place: str, machine: Machine
) -> None:
    """Raise `StackproofError` unless the programs take the new files."""
    for one in programs:
        closure = staging.load_again(one.path, machine)
        asked = tuple(name for name in names if name in one.demand.names or name == eessi.FABRIC)
        staging.verify_taken(closure, asked, place)
