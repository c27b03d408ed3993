"""Programs of a job judged with what is to be injected, on the files as the job will see them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence

from stackproof.core.command import EnvPatch
from stackproof.core.errors import Location, Problem, Reason, StackproofError, fail
from stackproof.core.value import Value, replace
from stackproof.image import activate, metadata
from stackproof.image.effects.tree import relocated
from stackproof.inject import job as inject_job
from stackproof.inject.attempt import Question
from stackproof.inject.effects import job_key, known_releases
from stackproof.inject.effects import named as inject_named
from stackproof.inject.effects.job_key import JobCase, MountedImage
from stackproof.inject.effects.named import NamedPath
from stackproof.inject.job import PLUG_IN_FOLDERS, JobInjection
from stackproof.inject.judge import judge
from stackproof.inject.model import InjectionVerdict, Judgement
from stackproof.inject.program import calls_mpi
from stackproof.inject.replacement import Replacement, find_replacement, require_use
from stackproof.linking.effects.view import RootView
from stackproof.linking.loader import File

_LAUNCHERS = re.compile(r"(?:mpi(?:exec|run)|orterun|prterun)\b")
JUDGED = ("LD_LIBRARY_PATH", "LD_PRELOAD")
"""The variables that the loader reads, and that are judged."""


class Examined(Value):
    """What a job sets, and what that was decided from."""

    job: JobInjection
    judgements: tuple[Judgement, ...]
    replacement: Replacement
    view: WatchedView


class WatchedView(RootView):
    """The files as a job sees them; `searched` keeps where anything was looked for, and its state.

    What was looked for and is not there counts as well: it may come. The state is taken before
    anything is read. Images are left out, as `job_key.key_of` has them.
    """

    def __init__(self, binds: Mapping[str, str], points: Sequence[str]) -> None:
        super().__init__("/", binds)
        self.searched: dict[str, list[object]] = {}
        self._points = points

    def look(self, path: str) -> File | None:
        """See `RootView`."""
        self._watch(path)
        return super().look(path)

    def listing(self, folder: str) -> tuple[str, ...]:
        """See `RootView`."""
        self._watch(folder, "/")
        return super().listing(folder)

    def _watch(self, path: str, end: str = "") -> None:
        place = path.rstrip("/") + end
        if job_key.is_below(path, self._points):  # a link of an image may lead out of it
            inside, _ = self.resolve(path) or (path, "")
            if job_key.is_below(inside, self._points):
                return
            place = inside + end
        above = place.rpartition("/")[0]
        while above and not os.path.isdir(above):
            place, above = above, above.rpartition("/")[0]
        if place not in self.searched:
            self.searched[place] = job_key.found_at(place, self._points, {})


def examine(case: JobCase, links: str) -> Examined:
    """Judge every program on the files, and return what the job sets, and why.

    `links` is the folder that links will be in. Raises `StackproofError` as reading images and
    programs does.
    """
    binds = {} if case.mounted else _binds_of((*case.parts, case.injected))
    view = WatchedView(binds, job_key.points_of(case))
    replacement = require_use(find_replacement(view, _target(case, view)))
    own = _own_view(case.injected)
    if replacement.mains and not case.injected.described:
        folder = f"{replacement.home}/bin"
        if any(view.look(f"{folder}/{name}") for name in ("mpiexec", "mpiexec.hydra")):
            own = EnvPatch(prepend={"PATH": (folder,)})
    environment = own.apply(case.environment)
    launcher, kind = _launcher(case.words, environment, view)
    question = Question(
        machine=inject_named.this_machine(),
        setting=inject_named.setting_of(case.environment),
        with_plugins=False,
        releases=known_releases.load_releases,
        launcher=kind,
        launcher_file=launcher,
    )
    words = dict(_named(case, view))
    named = list(dict.fromkeys(words.values()))
    programs = [*case.programs] or named or _programs(case, view, replacement)
    judged = [judge(view, program, replacement, question) for program in programs]
    if not (case.programs or named):
        # Nobody asked for what does not start without the injection either.
        judged = [one for one in judged if not inject_job.broken_before(one)]
    plug_ins = next(_plug_ins(view, replacement), "")
    job = inject_job.plan_job(judged, replacement, environment, links=links, plug_ins=plug_ins)
    if launcher:
        job = inject_job.kept_apart(job, judged, launcher, [*words])
    if not judged:
        problem = Problem(
            reason=Reason.INJECTION_UNKNOWN,
            message="there is no program to judge: the images have none that calls MPI, and the "
            "command names none",
            hint="name the program in the command",
        )
        path = {"LD_LIBRARY_PATH": replacement.folders}
        env = EnvPatch(set=job.env.set, unset=job.env.unset, prepend=path)
        job = replace(job, verdict=InjectionVerdict.UNKNOWN, problems=(problem,), env=env)
    return Examined(
        job=replace(job, env=own.then(job.env)),
        judgements=tuple(judged),
        replacement=replacement,
        view=view,
    )


def _own_view(injected: MountedImage) -> EnvPatch:
    """Return the variables that an injected image sets by itself, where it has an MPI.

    Its paths are judged here, its variables by the verb that mounts it.
    """
    described = injected.described
    if described is None or described.mpi is None or described.default_view is None:
        return EnvPatch()
    image = relocated(metadata.image_of(described), injected.point)
    env = activate.environment_patch(image, permitted=None)

    def without(lists: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        return {name: words for name, words in lists.items() if name not in JUDGED}

    return EnvPatch(
        set={name: value for name, value in env.set.items() if name not in JUDGED},
        unset=env.unset,
        prepend=without(env.prepend),
        append=without(env.append),
    )


def view_of(parts: Sequence[MountedImage]) -> RootView:
    """Return the view that has images, unpacked, at their mount points."""
    return RootView("/", _binds_of(parts))


def _binds_of(parts: Sequence[MountedImage]) -> dict[str, str]:
    binds: dict[str, str] = {}
    for part in parts:
        if part.described:
            binds |= inject_named.load_place(f"{part.path}:{part.point}").binds
    return binds


def _target(case: JobCase, view: RootView) -> str:
    """Return where in an injected image or folder its libraries are."""
    injected, point = case.injected, case.injected.point
    described = injected.described
    if described is None:
        path = os.path.abspath(injected.path)
        if os.path.isfile(f"{path}/{inject_named.ARTEFACT}"):
            raise fail(
                Reason.USAGE,
                f"`{injected.path}` is an artefact, with a folder for each level",
                where=Location(file=injected.path),
                hint=f"name one, such as {injected.path}/default/libfabric: `stackproof inject "
                "check PROGRAM --with ARTEFACT` ranks them",
            )
        return path
    if described.mpi:
        return point + described.mpi["prefix"][len(described.mount) :]
    inside = [one.root[len(described.mount) :] for one in described.views.values()]
    return inject_named.network_prefix(view, point, inside) or point


def _programs(case: JobCase, view: RootView, replacement: Replacement) -> list[str]:
    """Return all programs of the images that call MPI, their MPI's own libraries left out."""
    found: list[str] = []
    mains: list[str] = []
    for part in case.parts:
        home = ""
        if part.described and part.described.mpi:
            home = part.point + part.described.mpi["prefix"][len(part.described.mount) :]
            mains += [main.path for main in find_replacement(view, home).mains]
        try:
            callers = inject_named.programs_of(NamedPath(path=part.point), view)
        except StackproofError as error:
            if error.reason is not Reason.NO_MPI:
                raise
            continue
        found += [path for path in callers if not (home and path.startswith(f"{home}/lib"))]
    # Without programs what is replaced below the MPI must be borne by the MPI itself.
    return found if found or replacement.mains else mains


def _named(case: JobCase, view: RootView) -> Iterator[tuple[str, str]]:
    """Yield the words of a command that are programs which call MPI, with their paths."""
    for word in case.words:
        _, file = _place_of(word, case.environment, view)
        try:
            if file and view.glance(file).mentions_mpi and calls_mpi(view.elf(file)):
                yield word, file.path
        except StackproofError:  # a script, for example
            continue


def _launcher(
    words: Sequence[str], environment: Mapping[str, str], view: RootView
) -> tuple[str, str]:
    """Return the first word of a command that is a launcher of MPIs, as a path, and its kind."""
    for word in words:
        if _LAUNCHERS.match(os.path.basename(word)):
            place, file = _place_of(word, environment, view)
            found = view.resolve(file.path) if file else None
            kind = inject_named.kind_of_file(found[1]) if found else ""
            if kind:
                return place, kind
    return "", ""


def _place_of(word: str, environment: Mapping[str, str], view: RootView) -> tuple[str, File | None]:
    """Return where a shell finds a word of a command, and the file; None where it is none."""
    if word.startswith("-"):
        return "", None
    folders = environment.get("PATH", "").split(":")
    places = [os.path.abspath(word)] if "/" in word else [f"{f}/{word}" for f in folders if f]
    found = ((place, view.look(place)) for place in places)
    return next(((place, file) for place, file in found if file), ("", None))


def _plug_ins(view: RootView, replacement: Replacement) -> Iterator[str]:
    """Yield the folders beside a replacement that hold plug-ins of libfabric."""
    for folder in replacement.folders:
        for name in PLUG_IN_FOLDERS:
            if any(entry.endswith("-fi.so") for entry in view.listing(f"{folder}/{name}")):
                yield f"{folder}/{name}"
