"""What is injected into a job, and all that an answer about it depends on, as one name.

This runs before commands of users: whatever is slow to import is imported where it is used.
"""

from __future__ import annotations

import json
import os
import stat

from stackproof.core import mountlist
from stackproof.mpi import requirement

TYPE_CHECKING = False  # `typing`, msgspec and errors take longer to import than to mount
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stackproof.core.errors import StackproofError
    from stackproof.core.mountlist import MountRequest
    from stackproof.image.described import Described

SCHEMA = "stackproof/job-injection/3"
_MAGIC = b"hsqs"
# What the answer depends on besides files: where the loader looks, and what is put right.
_DEPENDS = ("LD_LIBRARY_PATH", "LD_PRELOAD", "FI_PROVIDER_PATH", *requirement.OPEN_MPI)
_JUDGING = ("inject", "linking", "mpi")
_LOADER_CACHE = "/etc/ld.so.cache"
_DEEPEST = 2
_COMPILED = "__pycache__"
"""The folder that Python writes into while an answer is made."""


class MountedImage:
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
        self, parts: Sequence[MountedImage], injected: MountedImage,
        environment: Mapping[str, str], *,
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

    Raises `StackproofError`: USAGE for none or several, FILE_MISSING, NOT_PERMITTED.
    """
    if os.path.isdir(text):
        return None
    if not text:
        raise _wrong("usage", "nothing is named to be injected", "name an image or a folder")
    requests = mountlist.parse(text)
    if not os.path.exists(requests[0].image):
        from stackproof.share.effects import naming  # noqa: PLC0415 - see above

        requests = naming.images(requests)
    path = requests[0].image
    if len(requests) != 1:
        raise _wrong("usage", "one thing can be injected", "name one image or one folder")
    if not os.path.isfile(path):
        from stackproof.core.effects import files  # noqa: PLC0415 - see above

        files.refuse_closed(path)
        message = "is neither a file nor a folder" if os.path.exists(path) else "does not exist"
        raise _wrong("file-missing", f"`{path}` {message}", "name an image or a folder")
    try:
        with open(path, "rb") as stream:
            return requests[0] if stream.read(len(_MAGIC)) == _MAGIC else None
    except OSError as error:
        from stackproof.core.effects import files  # noqa: PLC0415 - see above

        raise files.translate(error, path) from error


def digest(injected: MountedImage) -> str:
    """Return the SHA-256 of an injected image, or of what tells that a folder has changed."""
    import hashlib  # noqa: PLC0415 - only for benchmarks

    from stackproof.core.effects import files  # noqa: PLC0415

    if os.path.isfile(injected.path):
        return files.sha256(injected.path)
    return hashlib.sha256(json.dumps(identity(injected.path)).encode()).hexdigest()


def key_of(case: JobCase) -> str:
    """Return the path in the cache for all that an answer depends on, without an ending."""
    import hashlib  # noqa: PLC0415 - only with an injection

    import stackproof  # noqa: PLC0415
    from stackproof.core.effects import cache_kinds  # noqa: PLC0415

    programs = [*case.programs, *(word for word in case.words if "/" in word)]
    whole = [
        SCHEMA, _code(stackproof.__file__), _processor(), state_of(_LOADER_CACHE),
        [(part.point, identity(part.path)) for part in (*case.parts, case.injected)],
        [(path, state_of(path)) for path in programs], [*case.words],
        [case.environment.get(name) for name in _DEPENDS],
        # Where a command's words are looked for.
        case.environment.get("PATH") if case.words else None,
    ]  # fmt: skip
    digest = hashlib.sha256(json.dumps(whole).encode(errors="surrogateescape")).hexdigest()
    return str(cache_kinds.home("injections") / digest)


def _code(package: str) -> list[object]:
    """Return the state of our own files that judge: another release may judge otherwise."""
    here = os.path.dirname(package)
    return [identity(f"{here}/{name}") for name in _JUDGING]


def state_of(path: str) -> list[int]:
    """Return what changes whenever the content of a file does: no clock can be set back for it."""
    try:
        state = os.stat(path)
    except OSError:
        return []
    return [state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns]


def identity(path: str) -> list[object]:
    """Return the state of a file, or of all files in a folder and in two levels of folders."""
    path = os.path.abspath(path)
    found: list[object] = [path, state_of(path)]
    if os.path.isdir(path):
        for folder, folders, names in os.walk(path):
            if folder[len(path) :].count("/") >= _DEEPEST:
                folders.clear()
            folders[:] = sorted(set(folders) - {_COMPILED})
            found += [(name, state_of(f"{folder}/{name}")) for name in sorted(names)]
    return found


def points_of(case: JobCase) -> tuple[str, ...]:
    """Return the mount points of images: the state of an image is that of all in it."""
    points = [part.point for part in (*case.parts, case.injected) if part.described]
    return (*points, *map(os.path.realpath, points))


def is_below(path: str, points: Sequence[str]) -> bool:
    """Return True for a path at one of these places or below."""
    return any(path == point or path.startswith(f"{point}/") for point in points)


def found_at(path: str, points: Sequence[str], folders: dict[str, str]) -> list[object]:
    """Return the real place of a path, and the state of a file there; a folder has no state.

    A path that ends with `/` stands for the names in a folder. `folders` keeps the real paths of
    folders between calls.
    """
    above, _, name = path.rpartition("/")
    if above not in folders:
        folders[above] = os.path.realpath(above or "/")
    real = os.path.join(folders[above], name)
    if is_below(real, points):
        return [real]
    try:
        mode = os.lstat(real).st_mode
        if stat.S_ISLNK(mode):
            real = os.path.realpath(real)
            mode = os.stat(real).st_mode
        if not stat.S_ISDIR(mode):
            return [real] if is_below(real, points) else [real, *state_of(real)]
        return [real, "folder", *([] if name else sorted({*os.listdir(real)} - {_COMPILED}))]
    except OSError:
        return [real]


def _processor() -> str:
    """Return what tells one kind of processor from another."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as stream:
            return next((line for line in stream if line.startswith(("flags", "Features"))), "")
    except OSError:
        return os.uname().machine


def _wrong(reason: str, message: str, hint: str) -> StackproofError:
    from stackproof.core.errors import Reason, fail  # noqa: PLC0415 - see above

    return fail(Reason(reason), message, hint=hint)
