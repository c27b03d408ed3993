"""A bundle: the archive that goes with a request for support, written and read as values.

It is a gzip-compressed tar archive, the same bytes for the same contents: members in the order of
their names, no times, no owners. Its first member, `bundle.json`, names the others.

Reading takes nothing on trust: how much an archive may expand to and how many members it may have
is counted while it is read, and a member is a plain file of a plain name or the archive is refused.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import tarfile
import zlib
from collections.abc import Iterator, Mapping

from stackproof.core import limits
from stackproof.core.errors import Location, Problem, Reason, StackproofError, fail
from stackproof.image.container import tar

SCHEMA = "stackproof/bundle/1"
INDEX = "bundle.json"

_GZIP, _ZSTD, _BZIP2, _XZ = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"BZh", b"\xfd7zXZ\x00"
_CHUNK = 1 << 20
_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]*(?:/[a-z0-9][a-z0-9_.-]*)?")
_HINT = "ask for the bundle again: `stackproof doctor --bundle FILE` writes one"


def is_archive(data: bytes) -> bool:
    """Return whether a file is an archive, by its first bytes; older bundles are JSON texts."""
    return data.startswith((_GZIP, _ZSTD, _BZIP2, _XZ)) or data[257:262] == b"ustar"


def pack(members: Mapping[str, str], about: Mapping[str, str]) -> bytes:
    """Return the archive of texts by their names; `about` goes into its first member."""
    index = {"schema": SCHEMA, **about, "members": sorted(members)}
    texts = {INDEX: json.dumps(index, indent=1, ensure_ascii=False) + "\n"}
    texts |= {name: members[name] for name in sorted(members)}
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, text in texts.items():
            content = text.encode(errors="replace")
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return gzip.compress(buffer.getvalue(), compresslevel=9, mtime=0)


def unpack(data: bytes, *, file: str) -> dict[str, str]:
    """Return the texts of an archive by their names, without its index.

    Raises `StackproofError` with every problem: UNSUPPORTED (another compression or version),
    TOO_LARGE, INVALID_VALUE (links, devices, paths that lead out, names that stand twice,
    truncated or damaged archives, members that are missing).
    """
    where = Location(file=file)
    problems: list[Problem] = []
    texts: dict[str, str] = {}
    for name, content, refused in _members(_expanded(data, where), where):
        fault = refused
        if refused is None and name in texts:
            fault = Problem(reason=Reason.INVALID_VALUE, message=f"`{name}` stands there twice")
        if fault is not None:
            problems.append(
                Problem(reason=fault.reason, message=fault.message, hint=_HINT, where=where)
            )
        else:
            texts[name] = content.decode(errors="replace")
    if problems:
        raise StackproofError(*problems)
    _check_index(texts, where)
    return texts


def _expanded(data: bytes, where: Location) -> bytes:
    """Return the tar archive; no more than `limits.BUNDLE_EXPANDED.bytes` are ever expanded."""
    if data.startswith((_ZSTD, _BZIP2, _XZ)):
        raise fail(
            Reason.UNSUPPORTED,
            "this bundle was recompressed, by zstd, bzip2 or xz",
            where=where,
            hint="expand it first, for example with `zstd -d FILE`; a plain .tar is read",
        )
    if not data.startswith(_GZIP):
        return data
    found = bytearray()
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
            while chunk := stream.read(_CHUNK):
                found += chunk
                if len(found) > limits.BUNDLE_EXPANDED.bytes:
                    raise _too_large(
                        f"expands to more than {limits.BUNDLE_EXPANDED.bytes >> 20} MiB", where
                    )
    except (EOFError, OSError, zlib.error) as error:
        raise _damaged(str(error), where) from None
    return bytes(found)


def _members(data: bytes, where: Location) -> Iterator[tuple[str, bytes, Problem | None]]:
    """Yield name, content and fault of every member, at most one more than there may be."""
    if len(data) > limits.BUNDLE_EXPANDED.bytes:
        raise _too_large(f"has more than {limits.BUNDLE_EXPANDED.bytes >> 20} MiB", where)
    stream = tar.MemoryStream(data, where.file or "")
    for number, entry in enumerate(_entries(stream)):
        if number >= limits.BUNDLE_EXPANDED.count:
            raise _too_large(f"has more than {limits.BUNDLE_EXPANDED.count} members", where)
        fault = _fault(entry)
        content = stream.read(entry.size) if fault is None else b""
        if fault is None and len(content) != entry.size:
            raise _damaged(f"`{entry.name}` stops before its end", where)
        yield entry.name, content, fault


def _entries(stream: tar.MemoryStream) -> Iterator[tar.ArchiveMember]:
    """Yield the entries of the archive; what is wrong with it is wrong with the bundle."""
    try:
        yield from tar.entries(stream)
    except StackproofError as error:
        (problem,) = error.problems
        too_large = problem.reason is Reason.TOO_LARGE
        reason = problem.reason if too_large else Reason.INVALID_VALUE
        raise fail(reason, problem.message, where=problem.where, hint=_HINT) from None


def _fault(entry: tar.ArchiveMember) -> Problem | None:
    """Return why a member is refused, None for a plain file of a plain name."""
    shown = ascii(entry.name[:100])
    if entry.kind != "file":
        return Problem(reason=Reason.INVALID_VALUE, message=f"{shown} is not a plain file")
    if not _NAME.fullmatch(entry.name):
        return Problem(
            reason=Reason.INVALID_VALUE, message=f"{shown} is not a name that a bundle has"
        )
    if entry.size > limits.BUNDLE_MEMBER.bytes:
        return Problem(
            reason=Reason.TOO_LARGE,
            message=f"{shown} has more than {limits.BUNDLE_MEMBER.bytes >> 20} MiB",
        )
    return None


def _check_index(texts: dict[str, str], where: Location) -> None:
    """Take the index out of the texts; raises for what it names and the archive lacks."""
    if INDEX not in texts:
        raise fail(Reason.INVALID_VALUE, f"the archive has no `{INDEX}`", where=where, hint=_HINT)
    try:
        index = json.loads(texts.pop(INDEX))
        schema, named = index["schema"], index["members"]
        known = isinstance(named, list) and all(isinstance(name, str) for name in named)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _damaged(f"`{INDEX}` cannot be read: {error}", where) from None
    if schema != SCHEMA:
        raise fail(
            Reason.UNSUPPORTED,
            f"the bundle is of the kind {ascii(schema)[:100]}, not `{SCHEMA}`",
            where=where,
            hint="read it with the stackproof that wrote it, or a newer one",
        )
    if not known:
        raise _damaged(f"`{INDEX}` does not name the members", where)
    missing = sorted(set(named) - texts.keys())
    if missing:
        raise _damaged(f"members are missing: {', '.join(missing)}"[:500], where)


def _too_large(what: str, where: Location) -> StackproofError:
    return fail(Reason.TOO_LARGE, f"the bundle {what}", where=where, hint=_HINT)


def _damaged(what: str, where: Location) -> StackproofError:
    return fail(
        Reason.INVALID_VALUE, f"the bundle is damaged or cut off: {what}", where=where, hint=_HINT
    )
