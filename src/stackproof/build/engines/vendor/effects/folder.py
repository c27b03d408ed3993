"""A folder of RPMs on disk: headers read, digests checked, archives unpacked once for all builds.

Nothing here asks rpm, and no script of an RPM is run. What is unpacked lies in the cache under the
RPM's digest: each file under its own, so that no name of an archive is ever followed.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from stackproof.build.engines.vendor import rpm as rpms
from stackproof.build.engines.vendor.rpm import Rpm
from stackproof.build.engines.vendor.selection import Product
from stackproof.core import limits, noun
from stackproof.core.effects import cache_folder, cache_kinds, files
from stackproof.core.errors import Location, Problem, Reason, StackproofError, fail
from stackproof.core.value import Value
from stackproof.image.container import cpio, tar
from stackproof.image.container.effects import layers
from stackproof.image.container.effects.layers import Blob
from stackproof.linking.effects.view import FileSource

_LIST = "files.json"
_MAX_CACHED_BYTES = 16 << 30
_CHUNK = 1 << 20


class Unpacked(Value):
    """The files of an RPM by path, as the SHA-256 under which each lies beside this."""

    SCHEMA: ClassVar[str] = "stackproof/unpacked-rpm/1"

    files: Mapping[str, str]


def read(folder: Path) -> tuple[tuple[Rpm, ...], tuple[Problem, ...]]:
    """Return what each RPM of a folder, or below it, says of itself, and why others cannot be read.

    Raises `StackproofError`: FILE_MISSING without the folder or any RPM in it, TOO_LARGE.
    """
    if not folder.is_dir():
        raise fail(
            Reason.FILE_MISSING,
            f"there is no folder `{folder}`",
            hint="name the folder with HPE's RPMs: --from DIR",
        )
    found: list[Rpm] = []
    problems: list[Problem] = []
    paths = sorted(_below(folder))
    for path in paths:
        try:
            with opened(path) as source:
                found.append(rpms.parse(source))
        except StackproofError as error:
            problems += error.problems
    if not paths:
        raise fail(
            Reason.FILE_MISSING,
            f"`{folder}` holds no RPM",
            hint="name the folder with HPE's RPMs, cray-mpich-*.rpm among them: --from DIR",
        )
    return tuple(found), tuple(problems)


def _below(folder: Path) -> Iterator[Path]:
    count = 0
    for place, folders, names in os.walk(folder):
        folders.sort()
        count += len(names)
        if count > limits.RPM_FOLDER.count:
            raise fail(
                Reason.TOO_LARGE,
                f"`{folder}` holds more than {limits.RPM_FOLDER.count} files",
                hint="name the folder with the RPMs alone",
            )
        yield from (Path(place, name) for name in names if name.endswith(".rpm"))


@contextmanager
def opened(path: Path) -> Iterator[FileSource]:
    """Open a regular file to be read in pieces; raises `StackproofError` for another kind."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise files.translate(error, path) from error
    try:
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode):
            raise rpms.damaged(str(path), "it is no regular file")
        yield FileSource(str(path), descriptor, state.st_size)
    finally:
        os.close(descriptor)


def find(folder: Path, name: str) -> Path:
    """Return the path of an RPM in a folder; raises `StackproofError` (FILE_MISSING)."""
    for path in sorted(_below(folder)) if folder.is_dir() else ():
        if path.name == name:
            return path
    raise fail(
        Reason.FILE_MISSING,
        f"`{folder}` has no `{name}`, which the lock names",
        hint="name the folder that has it: --from DIR; or make a new lock with --update",
    )


def unpacked(path: Path, product: Product, sha256: str) -> tuple[Path, Unpacked]:
    """Return the files of a product's RPM in the cache, and the folder that they lie in.

    Its payload must have the digest that its header states, and every file its own. Raises
    `StackproofError`: INVALID_VALUE, DIGEST_MISMATCH, TOO_LARGE, DISK_FULL.
    """
    cache_kinds.in_use()
    place = cache_kinds.home("archives") / f"rpm-{sha256}"
    found = _cached(place)
    if found is None:
        with cache_folder.alone(place):
            found = _cached(place) or _made(path, product, place)
    return place, found


def in_cache(sha256: str) -> Path | None:
    """Return the folder of an RPM's files in the cache, None where it is not there."""
    place = cache_kinds.home("archives") / f"rpm-{sha256}"
    return place if _cached(place) else None


def _cached(place: Path) -> Unpacked | None:
    try:
        found = noun.from_json(Unpacked, (place / _LIST).read_bytes())
    except (OSError, StackproofError):
        return None
    cache_folder.used(place)
    return found


def _made(path: Path, product: Product, place: Path) -> Unpacked:
    rpm = product.rpm
    blob = layers.whole(str(path))
    payload = Blob(path=str(path), offset=rpm.payload, size=blob.size - rpm.payload)
    _check_payload(rpm, payload)
    with cache_folder.making(place) as folder:
        found = _Unpacking(product, folder, str(path)).run(payload)
        files.write(folder / _LIST, noun.to_json(found, indent=None))
    cache_folder.prune("archives", _MAX_CACHED_BYTES, keep=place)
    return found


def _check_payload(rpm: Rpm, payload: Blob) -> None:
    if rpm.payload_sha256 and layers.digest_of(payload) != rpm.payload_sha256:
        raise fail(
            Reason.DIGEST_MISMATCH,
            f"`{rpm.file}` is damaged or cut off: its files have another digest than its header "
            "states",
            where=Location(file=payload.path),
            hint="copy it again; `rpm -K FILE` must find its digests OK",
        )


class _Unpacking:
    """One RPM that is unpacked: files of its header, and no others."""

    def __init__(self, product: Product, folder: Path, name: str) -> None:
        self.folder = folder
        self.name = name
        root = f"{product.root}/"
        self.expected = {
            file.path: file
            for file in product.rpm.files
            if file.regular and file.path.startswith(root)
        }
        self.found: dict[str, str] = {}

    def run(self, payload: Blob) -> Unpacked:
        """Unpack the payload; every file that the header states must be there as it states it."""
        waiting: dict[int, list[str]] = {}
        with (
            tempfile.TemporaryDirectory(dir=self.folder) as aside,
            layers.open_plain(payload, hashlib.sha256(), aside) as stream,
        ):
            for entry in cpio.entries(stream):
                path = "/" + entry.name.removeprefix("./").removeprefix("/")
                file = self.expected.get(path)
                if entry.kind != "file" or file is None:
                    continue
                if entry.names > 1 and not entry.size and file.size:
                    waiting.setdefault(entry.inode, []).append(path)
                    continue
                digest = self._keep(stream, entry.size)
                for one in (path, *waiting.pop(entry.inode, ())):
                    self._accept(one, digest, entry.size)
        lost = sorted(set(self.expected) - set(self.found))
        if lost:
            raise rpms.damaged(self.name, f"`{lost[0]}` of its header is not among its files")
        return Unpacked(files=self.found)

    def _keep(self, stream: tar.Stream, size: int) -> str:
        digest = hashlib.sha256()
        temporary = self.folder / "incoming"
        with temporary.open("wb") as output:
            left = size
            while left > 0:
                part = stream.read(min(left, _CHUNK))
                if not part:
                    raise rpms.damaged(self.name, "it ends within a file")
                digest.update(part)
                output.write(part)
                left -= len(part)
        temporary.replace(self.folder / digest.hexdigest())
        return digest.hexdigest()

    def _accept(self, path: str, digest: str, size: int) -> None:
        file = self.expected[path]
        if size != file.size or (file.sha256 and file.sha256 != digest):
            raise rpms.damaged(self.name, f"`{path}` is another file than its header states")
        self.found[path] = digest
