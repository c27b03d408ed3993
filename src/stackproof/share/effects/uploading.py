"""Blobs into a registry: mounted from a repository that has them, else sent in pieces.

Where an upload is, the server says itself (`Range`); which upload it is, a small file of the cache.
So what a killed command has sent is not sent again, where the server keeps unfinished uploads.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

from stackproof.core.effects import cache_kinds, files
from stackproof.core.effects.downloads import Transfer
from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.core.value import Value
from stackproof.share import answers, manifests, origins
from stackproof.share.effects.http_client import HttpRequest
from stackproof.share.effects.oci import PUSH, OciRegistry

PIECE = 16 << 20
"""What is sent at once, in bytes, and kept in memory meanwhile."""
_ATTEMPTS = 5
_PATIENCE_S = 6 * 3600.0
_TRANSIENT = frozenset({Reason.NO_NETWORK, Reason.ANSWER_TRUNCATED, Reason.REGISTRY_FAILED})
KIND = "uploads"


class FileBlob(Value):
    """A file that is a blob: `digest` as registries write it, `size` in bytes."""

    path: str
    digest: str
    size: int


def upload_bytes(registry: OciRegistry, repository: str, content: bytes) -> bool:
    """Put a small blob; return whether it had to be sent."""
    digest = manifests.digest_of(content)
    if registry.has_blob(repository, digest):
        return False
    location, _ = _begin(registry, repository)
    _finish(registry, repository, location, digest, content)
    return True


def mount(registry: OciRegistry, repository: str, digest: str, source: str) -> str:
    """Have a blob of another repository in this one, without a byte sent (end-11).

    Returns an empty text where that is done, else where the blob is to be sent to.
    """
    query = urllib.parse.urlencode({"mount": digest, "from": source})
    location, mounted = _begin(registry, repository, f"?{query}")
    return "" if mounted else location


def upload_file(registry: OciRegistry, repository: str, blob: FileBlob, transfer: Transfer) -> int:
    """Put a file; return how many bytes were sent. Of several at once on this machine one sends.

    Raises `StackproofError`: IMAGE_DAMAGED for a file that changed meanwhile, DISK_FULL for a full
    server, BUSY, and what `OciRegistry` does.
    """
    with _alone(registry, repository, blob.digest) as note:
        if registry.has_blob(repository, blob.digest):
            return 0
        sent = 0
        for attempt in range(1, _ATTEMPTS + 1):
            location, done = _resumed(registry, repository, note, blob.size)
            transfer.at(done, blob.size)
            try:
                for place, reached in _pieces(registry, repository, blob, location, done):
                    _remember(note, place)
                    sent += reached - done
                    location, done = place, reached
                    transfer.at(done, blob.size)
                _finish(registry, repository, location, blob.digest, b"")
            except StackproofError as error:
                if attempt == _ATTEMPTS or error.reason not in _TRANSIENT:
                    raise
            else:
                files.remove(note)
                return sent
        raise AssertionError  # the last attempt returns or raises


def _pieces(
    registry: OciRegistry, repository: str, blob: FileBlob, location: str, done: int
) -> Iterator[tuple[str, int]]:
    """Send what is left, and give after each piece where to go on, and how much is there."""
    try:
        with open(blob.path, "rb") as stream:
            stream.seek(done)
            while done < blob.size:
                content = stream.read(min(PIECE, blob.size - done))
                if not content:
                    raise fail(
                        Reason.IMAGE_DAMAGED,
                        f"`{blob.path}` changes while it is sent",
                        where=Location(file=blob.path),
                        hint="push it when the program that writes it has ended",
                    )
                location, done = _send(registry, repository, location, done, content)
                stream.seek(done)
                yield location, done
    except OSError as error:
        raise files.translate(error, blob.path) from error


def _send(
    registry: OciRegistry, repository: str, location: str, done: int, content: bytes
) -> tuple[str, int]:
    """Send a piece (end-5); one that the server has otherwise is told by its answer (416)."""
    headers = {
        "Content-Range": f"{done}-{done + len(content) - 1}",
        "Content-Type": "application/octet-stream",
    }
    request = HttpRequest(method="PATCH", url=location, headers=headers, body=content, again=False)
    with registry.send(request, PUSH, repository) as answer:
        if answer.status == 416:
            raise fail(Reason.ANSWER_TRUNCATED, "the upload is elsewhere than it was thought to be")
        registry.expect(answer, f"{repository}/blobs/uploads", 202)
        there = _reached(answer.headers.get("Range", ""), done + len(content))
        if there != done + len(content):
            raise fail(Reason.ANSWER_TRUNCATED, "the server has taken another part than was sent")
        return answer.location() or location, there


def _reached(text: str, otherwise: int) -> int:
    """Return the number of bytes that a server says it has: `0-99` is a hundred."""
    match = re.fullmatch(r"(?:bytes=)?0-([0-9]{1,18})", text)
    return int(match[1]) + 1 if match else otherwise


def _begin(registry: OciRegistry, repository: str, query: str = "") -> tuple[str, bool]:
    """Begin an upload (end-4a, end-11): where to send it to, and whether it is there already."""
    place = f"{repository}/blobs/uploads/{query}"
    request = HttpRequest(method="POST", url=place, headers={"Content-Length": "0"})
    with registry.send(request, PUSH, repository) as answer:
        registry.expect(answer, place.partition("?")[0], 202, 201)
        location = answer.location()
        if answer.status == 202 and not location:
            raise fail(
                Reason.REGISTRY_ANSWER,
                f"`{registry.address.host}` takes an upload, and does not say where",
                where=Location(file=f"{registry.address.host}/{repository}"),
            )
        return location, answer.status == 201


def _finish(
    registry: OciRegistry, repository: str, location: str, digest: str, content: bytes
) -> None:
    """End an upload with its digest, which the server checks (end-6)."""
    url = str(origins.parse(location).with_query({"digest": digest}))
    headers = {"Content-Type": "application/octet-stream", "Content-Length": str(len(content))}
    request = HttpRequest(method="PUT", url=url, headers=headers, body=content, again=False)
    with registry.send(request, PUSH, repository) as answer:
        if answer.status == 400:
            raise fail(
                Reason.IMAGE_DAMAGED,
                f"`{registry.address.host}` received other bytes than `{digest}`",
                where=Location(file=f"{registry.address.host}/{repository}"),
                hint="the file changed while it was sent, or the network changed it: try again",
            )
        registry.expect(answer, f"{repository}/blobs/uploads", 201)


def _resumed(registry: OciRegistry, repository: str, note: Path, size: int) -> tuple[str, int]:
    """Return the address to go on at and the bytes there (end-13); else a new upload."""
    location = _remembered(note)
    if location:
        try:
            request = HttpRequest(method="GET", url=location)
            with registry.send(request, PUSH, repository) as answer:
                done = _reached(answer.headers.get("Range", ""), 0)
                if answer.status == 204 and done <= size:
                    # Servers of an empty upload say 0-0 of it, as they do of one byte.
                    done = 0 if done == 1 else done
                    return answer.location() or location, done
        except StackproofError as error:
            if error.reason is Reason.NO_NETWORK:
                raise
        _remember(note, "")
    location, _ = _begin(registry, repository)
    _remember(note, location)
    return location, 0


@contextlib.contextmanager
def _alone(registry: OciRegistry, repository: str, digest: str) -> Iterator[Path]:
    """Be the only one on this machine that sends a blob; give the file that remembers where."""
    name = hashlib.sha256(f"{registry.address}|{repository}|{digest}".encode()).hexdigest()
    folder = cache_kinds.home(KIND)
    busy = fail(Reason.BUSY, f"`{digest}` is being sent by somebody", hint="try again later")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        locks = cache_kinds.locks_of("locks")
        locks.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise files.translate(error, folder) from error
    with files.locked(locks / f"{KIND}-{name}", seconds=_PATIENCE_S, mode=0o600, busy=busy):
        yield folder / name


def _remembered(note: Path) -> str:
    try:
        location = answers.parse_object(note.read_bytes())["location"]
    except (OSError, ValueError, KeyError):
        return ""
    return location if isinstance(location, str) else ""


def _remember(note: Path, location: str) -> None:
    with contextlib.suppress(StackproofError):  # a full disk only costs that it goes on
        if location:
            files.write(note, json.dumps({"location": location}))
            os.chmod(note, 0o600)
        else:
            files.remove(note)
