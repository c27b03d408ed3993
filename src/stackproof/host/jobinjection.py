"""Another MPI, or a libfabric, under the programs of one job: judged first, then mounted and set.

What was judged is kept in the cache under all that the answer depends on, so that the second job
with the same files reads one small file. This runs before commands of users: whatever only the
first time needs is imported then.
"""

from __future__ import annotations

import json
import os

from stackproof import mountlist
from stackproof.environment import Change

TYPE_CHECKING = False  # `typing`, dataclasses and errors take longer to import than to mount
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from stackproof.command import EnvPatch
    from stackproof.errors import StackproofError
    from stackproof.host.elfview import HostView
    from stackproof.images.described import Described
    from stackproof.inject.forjob import JobInjection
    from stackproof.inject.replacement import Replacement
    from stackproof.mountlist import MountRequest
    from stackproof.transports import Libfabric

_MAGIC = b"hsqs"
# What the answer depends on besides files: where the loader looks, and what is put right.
_DEPENDS = (
    "LD_LIBRARY_PATH", "LD_PRELOAD", "FI_PROVIDER_PATH", "OPAL_PREFIX", "PMIX_PREFIX",
    "PRTE_PREFIX",
)  # fmt: skip
_JUDGED = ("LD_LIBRARY_PATH", "LD_PRELOAD")
_LOADER_CACHE = "/etc/ld.so.cache"
_DEEPEST = 2
_NETWORK = ("libfabric.so.1", "libcxi.so.1", "libucp.so.0")
_SCHEMA = "stackproof/job-injection/1"


class Part:
    """An image of the job and where it is mounted, or a folder that is used where it lies."""

    __slots__ = ("described", "path", "point")

    def __init__(self, path: str, point: str, described: Described | None = None) -> None:
        self.path = path
        self.point = point
        self.described = described


class JobCase:
    """What is judged: images of the job, what is injected, programs, and the environment.

    `environment` has the views of the job's images in it. `programs` are paths with everything
    mounted; `words` are those of a command, of which some may be programs. With neither, all
    programs of the images that call MPI are meant. `mounted` says that everything is mounted for
    this process; else images are unpacked to be looked at.
    """

    __slots__ = ("environment", "injected", "mounted", "parts", "programs", "words")

    def __init__(
        self, parts: Sequence[Part], injected: Part, environment: Mapping[str, str], *,
        programs: Sequence[str] = (), words: Sequence[str] = (), mounted: bool = False,
    ) -> None:  # fmt: skip
        self.parts = parts
        self.injected = injected
        self.environment = environment
        self.programs = programs
        self.words = words
        self.mounted = mounted


def image_in(text: str) -> MountRequest | None:
    """Return the image that was named to be injected, None for a folder or a library.

    Raises `StackproofError`: USAGE for several, UNSUPPORTED for a manifest, FILE_MISSING.
    """
    if os.path.isdir(text):
        return None
    requests = mountlist.parse(text)
    path = requests[0].image
    if len(requests) != 1:
        raise _wrong("usage", "one thing can be injected", "name one image or one folder")
    if text.endswith(".json"):
        raise _wrong(
            "unsupported", f"`{text}` is not on this machine: a manifest cannot be injected",
            "name an image or a folder; `stackproof inject check` takes manifests",
        )  # fmt: skip
    if not os.path.isfile(path):
        raise _wrong("file-missing", f"`{path}` does not exist", "name an image or a folder")
    with open(path, "rb") as stream:
        return requests[0] if stream.read(len(_MAGIC)) == _MAGIC else None


def change(case: JobCase, *, accept_unknown: bool = False) -> Change:
    """Return what must be set for an injection, after it was judged.

    Raises `StackproofError` with all reasons: INJECTION_FAILS, INJECTION_UNKNOWN unless that is
    accepted, and what reading images and programs raises.
    """
    target = _key(case)
    found = _load(target)
    if found is None:
        decided = _decide(case, _links_of(target))
        _keep(target, decided)
        found = _load(target) or _data(decided)
    _refuse(found["problems"], accept_unknown=accept_unknown)
    fields = found["env"]
    return Change(
        set=fields["set"],
        unset=tuple(fields["unset"]),
        prepend={name: tuple(words) for name, words in fields["prepend"].items()},
    )


def links_folder(case: JobCase) -> str:
    """Return the folder that holds the links of a case which was judged, empty without any."""
    folder = _links_of(_key(case))
    return folder if os.path.isdir(folder) else ""


def digest(injected: Part) -> str:
    """Return the SHA-256 of an injected image, or of what tells that a folder has changed."""
    import hashlib  # noqa: PLC0415 - only for benchmarks

    from stackproof.host import files  # noqa: PLC0415

    if os.path.isfile(injected.path):
        return files.sha256(injected.path)
    return hashlib.sha256(json.dumps(_identity(injected.path)).encode()).hexdigest()


def libfabric_of(injected: Part) -> Libfabric:
    """Return the libfabric that is injected, as bill of materials or pkg-config say; else none."""
    from stackproof.host import fabric  # noqa: PLC0415 - only with a transport
    from stackproof.transports import Libfabric  # noqa: PLC0415

    if injected.described or os.path.exists(f"{injected.path}/meta/bom.cdx.json"):
        return fabric.libfabric_of_image(injected.path)
    home = injected.path if os.path.isdir(injected.path) else os.path.dirname(injected.path)
    for folder in ("lib", "lib64", "."):
        try:
            with open(f"{home}/{folder}/pkgconfig/libfabric.pc", encoding="utf-8") as stream:
                words = [line.partition(":") for line in stream]
        except (OSError, UnicodeError):
            continue
        version = next((value.strip() for name, _, value in words if name == "Version"), "")
        return Libfabric(version=version)
    return Libfabric()


def _decide(case: JobCase, links: str) -> JobInjection:
    """Judge every program on the files, and return what the job sets."""
    from dataclasses import replace  # noqa: PLC0415 - see above

    from stackproof.command import EnvPatch  # noqa: PLC0415
    from stackproof.errors import Problem, Reason  # noqa: PLC0415
    from stackproof.host import injectplace  # noqa: PLC0415
    from stackproof.inject import Question, Verdict, find_replacement, forjob, judge  # noqa: PLC0415
    from stackproof.loader import Setting  # noqa: PLC0415

    view = _view(case)
    replacement = find_replacement(view, _target(case, view))
    own = _own_view(case.injected)
    environment = own.apply(case.environment)
    # The loader takes blanks and semicolons too, in one list or the other.
    paths, preload = (case.environment.get(name, "") for name in _JUDGED)
    question = Question(
        machine=injectplace.this_machine(),
        setting=Setting(
            library_path=tuple(paths.replace(";", ":").split(":")) if paths else (),
            preload=tuple(preload.replace(":", " ").split()),
        ),
        with_plugins=False,
        releases=injectplace.load_releases,
    )
    named = list(dict.fromkeys(_named(case, view)))
    programs = [*case.programs] or named or _programs(case, view, replacement)
    judged = [judge(view, program, replacement, question) for program in programs]
    if not (case.programs or named):
        # Nobody asked for what does not start without the injection either.
        judged = [one for one in judged if not forjob.broken_before(one)]
    plug_ins = next(_plug_ins(view, replacement), "")
    job = forjob.plan_job(judged, replacement, environment, links=links, plug_ins=plug_ins)
    if not judged:
        problem = Problem(
            reason=Reason.INJECTION_UNKNOWN,
            message="there is no program to judge: the images have none that calls MPI, and the "
            "command names none",
            hint="name the program in the command, or try it: --accept-unknown",
        )
        path = {"LD_LIBRARY_PATH": replacement.folders}
        env = EnvPatch(set=job.env.set, unset=job.env.unset, prepend=path)
        job = replace(job, verdict=Verdict.UNKNOWN, problems=(problem,), env=env)
    if replacement.mains and not case.injected.described:
        folder = f"{replacement.home}/bin"
        if any(view.look(f"{folder}/{name}") for name in ("mpiexec", "mpiexec.hydra")):
            own = EnvPatch(prepend={"PATH": (folder,)})
    return replace(job, env=own.then(job.env))


def _own_view(injected: Part) -> EnvPatch:
    """Return what an injected image sets by itself, where it has an MPI; its paths are judged."""
    from stackproof.command import EnvPatch  # noqa: PLC0415 - see above
    from stackproof.host.imagetree import relocated  # noqa: PLC0415
    from stackproof.images import metadata  # noqa: PLC0415

    described = injected.described
    if described is None or described.mpi is None or described.default_view is None:
        return EnvPatch()
    image = relocated(metadata.image_of(described), injected.point)
    env = image.views[described.default_view].env

    def without(lists: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        return {name: words for name, words in lists.items() if name not in _JUDGED}

    return EnvPatch(
        set={name: value for name, value in env.set.items() if name not in _JUDGED},
        unset=env.unset,
        prepend=without(env.prepend),
        append=without(env.append),
    )


def _view(case: JobCase) -> HostView:
    """Return the view that has every image in its place."""
    from stackproof.host import injectplace  # noqa: PLC0415 - see above
    from stackproof.host.elfview import HostView  # noqa: PLC0415

    binds: dict[str, str] = {}
    if not case.mounted:
        for part in (*case.parts, case.injected):
            if part.described:
                binds |= injectplace.load_place(f"{part.path}:{part.point}").binds
    return HostView("/", binds)


def _target(case: JobCase, view: HostView) -> str:
    """Return where in an injected image or folder its libraries are."""
    injected, point = case.injected, case.injected.point
    described = injected.described
    if described is None:
        return os.path.abspath(injected.path)
    if described.mpi:
        return point + described.mpi["prefix"][len(described.mount) :]
    roots = [point, *(point + v.root[len(described.mount) :] for v in described.views.values())]
    for root in roots:
        for folder in ("lib", "lib64"):
            if any(view.look(f"{root}/{folder}/{name}") for name in _NETWORK):
                return root
    return _searched(view, point) or point


def _searched(view: HostView, point: str) -> str:
    """Return the prefix of the first network library below a folder, empty without one."""
    found = view.resolve(point)
    if found is None:
        return ""
    for folder, folders, names in os.walk(found[1]):
        folders.sort()
        inside = point + folder[len(found[1]) :]
        if any(name in names and view.look(f"{inside}/{name}") for name in _NETWORK):
            return os.path.dirname(inside)
    return ""


def _programs(case: JobCase, view: HostView, replacement: Replacement) -> list[str]:
    """Return all programs of the images that call MPI, their MPI's own libraries left out."""
    from stackproof.errors import Reason, StackproofError  # noqa: PLC0415 - see above
    from stackproof.host import injectplace  # noqa: PLC0415
    from stackproof.host.injectplace import Place  # noqa: PLC0415
    from stackproof.inject import find_replacement  # noqa: PLC0415

    found: list[str] = []
    mains: list[str] = []
    for part in case.parts:
        home = ""
        if part.described and part.described.mpi:
            home = part.point + part.described.mpi["prefix"][len(part.described.mount) :]
            mains += [main.path for main in find_replacement(view, home).mains]
        try:
            callers = injectplace.programs_of(Place(path=part.point), view)
        except StackproofError as error:
            if error.reason is not Reason.NO_MPI:
                raise
            continue
        found += [path for path in callers if not (home and path.startswith(f"{home}/lib"))]
    # Without programs what is replaced below the MPI must be borne by the MPI itself.
    return found if found or replacement.mains else mains


def _named(case: JobCase, view: HostView) -> Iterator[str]:
    """Yield the words of a command that are programs which call MPI."""
    from stackproof.errors import StackproofError  # noqa: PLC0415 - see above
    from stackproof.inject.program import calls_mpi  # noqa: PLC0415

    folders = case.environment.get("PATH", "").split(":")
    for word in case.words:
        if word.startswith("-"):
            continue
        places = [os.path.abspath(word)] if "/" in word else [f"{f}/{word}" for f in folders if f]
        file = next((file for place in places if (file := view.look(place))), None)
        try:
            if file and view.glance(file).mentions_mpi and calls_mpi(view.elf(file)):
                yield file.path
        except StackproofError:  # a script, for example
            continue


def _plug_ins(view: HostView, replacement: Replacement) -> Iterator[str]:
    from stackproof.inject.forjob import PLUG_IN_FOLDERS  # noqa: PLC0415 - see above

    for folder in replacement.folders:
        for name in PLUG_IN_FOLDERS:
            if any(entry.endswith("-fi.so") for entry in view.listing(f"{folder}/{name}")):
                yield f"{folder}/{name}"


def _key(case: JobCase) -> str:
    """Return the path in the cache for all that an answer depends on, without an ending."""
    import hashlib  # noqa: PLC0415 - only with an injection

    from stackproof import __version__  # noqa: PLC0415
    from stackproof.host import files  # noqa: PLC0415

    programs = [*case.programs, *(word for word in case.words if "/" in word)]
    whole = [
        _SCHEMA, __version__, _processor(), _state(_LOADER_CACHE),
        [(part.point, _identity(part.path)) for part in (*case.parts, case.injected)],
        [(path, _state(path)) for path in programs], [*case.words],
        [case.environment.get(name) for name in _DEPENDS],
        # Where a command's words are looked for.
        case.environment.get("PATH") if case.words else None,
    ]  # fmt: skip
    digest = hashlib.sha256(json.dumps(whole).encode(errors="surrogateescape")).hexdigest()
    return str(files.cache_home() / "injections" / digest)


def _state(path: str) -> list[int]:
    """Return what changes whenever the content of a file does: no clock can be set back for it."""
    try:
        state = os.stat(path)
    except OSError:
        return []
    return [state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns]


def _identity(path: str) -> list[object]:
    """Return the state of a file, or of all files in a folder and in two levels of folders."""
    path = os.path.abspath(path)
    found: list[object] = [path, _state(path)]
    if os.path.isdir(path):
        for folder, folders, names in os.walk(path):
            if folder[len(path) :].count("/") >= _DEEPEST:
                folders.clear()
            folders.sort()
            found += [(name, _state(f"{folder}/{name}")) for name in sorted(names)]
    return found


def _processor() -> str:
    """Return what tells one kind of processor from another."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as stream:
            return next((line for line in stream if line.startswith(("flags", "Features"))), "")
    except OSError:
        return os.uname().machine


def _links_of(target: str) -> str:
    return f"{target}.links"


def _load(target: str) -> dict[str, Any] | None:
    """Return what was kept, None when there is nothing or its links are gone."""
    try:
        with open(f"{target}.json", encoding="utf-8") as stream:
            data: dict[str, Any] = json.load(stream)
    except (OSError, ValueError):
        return None
    if data.get("schema") != _SCHEMA or (data["links"] and not os.path.isdir(_links_of(target))):
        return None
    return data


def _data(decided: JobInjection) -> dict[str, Any]:
    from stackproof import noun  # noqa: PLC0415 - see above

    return {**noun.to_data(decided), "schema": _SCHEMA}


def _keep(target: str, decided: JobInjection) -> None:
    """Make the links, and write what was decided; a cache that cannot be written is none."""
    from stackproof.errors import StackproofError  # noqa: PLC0415 - see above
    from stackproof.host import files  # noqa: PLC0415

    if decided.links:
        folder = _links_of(target)
        temporary = f"{folder}.{os.getpid()}"
        try:
            os.makedirs(temporary)
            for name, place in decided.links.items():
                os.symlink(place, f"{temporary}/{name}")
            os.rename(temporary, folder)
        except OSError as error:
            if not os.path.isdir(folder):
                raise files.translate(error, folder) from error
        finally:
            files.remove(temporary)
    try:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        files.write(f"{target}.json", json.dumps(_data(decided)))
    except (OSError, StackproofError):
        return


def _refuse(problems: Sequence[Mapping[str, str]], *, accept_unknown: bool) -> None:
    """Raise every reason against an injection; with `accept_unknown` only why it fails."""
    against = [one for one in problems if not (accept_unknown and one["reason"] == _UNKNOWN)]
    if not against:
        return
    from stackproof import noun  # noqa: PLC0415 - see above
    from stackproof.errors import Problem, StackproofError  # noqa: PLC0415

    found = [noun.from_data(Problem, one) for one in against]
    if all(one["reason"] == _UNKNOWN for one in against):
        import dataclasses  # noqa: PLC0415

        last = found[-1]
        hint = f"{last.hint}; or try it: --accept-unknown" if last.hint else None
        found[-1] = dataclasses.replace(last, hint=hint or "try it: --accept-unknown")
    raise StackproofError(*found)


_UNKNOWN = "injection-unknown"


def _wrong(reason: str, message: str, hint: str) -> StackproofError:
    from stackproof.errors import Reason, fail  # noqa: PLC0415 - see above

    return fail(Reason(reason), message, hint=hint)
