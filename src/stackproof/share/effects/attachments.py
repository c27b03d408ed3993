"""What stands beside an image: signatures and verdicts, in a folder that uenv leaves alone.

Of an image in a repository that is the folder `attached` beside it; of any other file IMAGE it is
`IMAGE.attached`. A signature is a statement, `signature-ID.json`, and what ssh-keygen made of it,
`signature-ID.json.sig`; ID is the beginning of the digest of both. A verdict is
`verdict-ID.json`; other files are left alone.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
from pathlib import Path

from stackproof.core import limits
from stackproof.core.effects.foreign.folder import OpenFolder, is_shared, open_folder
from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.core.ids import digest
from stackproof.core.limits import Limit
from stackproof.core.value import Value
from stackproof.share.effects.repository import is_digest
from stackproof.share.labels import IMAGE
from stackproof.share.verdict import too_large

FOLDER = "attached"
_SEALED = ".sig"
_ID = 16
_STATEMENT = re.compile(r"signature-[0-9a-f]{16}\.json")
_VERDICT = re.compile(r"verdict-[0-9a-f]{8}\.json")


class FoundSignature(Value):
    """A signature as it lies beside an image: the statement, and the seal of ssh-keygen."""

    file: str
    statement: bytes
    seal: bytes


def folder_of(image: str) -> Path:
    """Return the folder of what is attached to an image; it need not be there."""
    path = Path(os.path.abspath(image))
    if path.name == IMAGE and is_digest(path.parent.name):
        return path.parent / FOLDER
    return path.with_name(f"{path.name}.{FOLDER}")


def digest_in_path(image: str) -> str:
    """Return the digest by which a repository calls an image; empty outside of one."""
    path = Path(os.path.abspath(image))
    return path.parent.name if path.name == IMAGE and is_digest(path.parent.name) else ""


def signatures(image: str) -> tuple[FoundSignature, ...]:
    """Return the signatures beside an image, as far as they can be read."""
    folder = folder_of(image)
    found: list[FoundSignature] = []
    names = _plain_files(folder)
    for name in names:
        if not _STATEMENT.fullmatch(name) or f"{name}{_SEALED}" not in names:
            continue
        with contextlib.suppress(StackproofError):  # too large, say: none of ours
            found.append(
                FoundSignature(
                    file=str(folder / name),
                    statement=read(folder / name, limits.STATEMENT_FILE),
                    seal=read(folder / f"{name}{_SEALED}", limits.SEAL),
                )
            )
    return tuple(found[: limits.STATEMENT_FILE.count])


def verdicts(image: str) -> dict[str, Path]:
    """Return the verdicts beside an image by their name; links are none.

    Raises `StackproofError` (TOO_LARGE) for more of them than anybody made.
    """
    folder, most = folder_of(image), limits.VERDICTS
    sizes = {name: size for name, size in _plain_files(folder).items() if can_be_named(name)}
    total = sum(size for size in sizes.values() if size <= limits.VERDICT_FILE.bytes)
    if len(sizes) > most.count or total > most.bytes:
        raise fail(
            Reason.TOO_LARGE,
            f"`{folder}` has more than {most.count} verdicts, or more than {most.bytes} bytes",
            where=Location(file=str(folder)),
            hint="remove those that nobody needs",
        )
    return {name: folder / name for name in sizes}


def read(path: Path, limit: Limit) -> bytes:
    """Return the bytes of what is attached: a plain file of one name, in a folder that is no link.

    Another one could be anything of the user's, which would be shown, or sent to a registry.
    """
    with _looked_into(path.parent) as folder:
        return folder.read(path.name, limit)


def _looked_into(folder: Path) -> OpenFolder:
    with open_folder(folder.parent, any_owner=True) as above:
        return above.open_folder(folder.name)


def can_be_named(name: str) -> bool:
    """Return True for a name that a verdict may have."""
    return _VERDICT.fullmatch(name) is not None


def digests(image: str) -> dict[str, str]:
    """Return the SHA-256 of each verdict beside an image, empty for one that cannot be read."""
    sums = dict.fromkeys(verdicts(image), "")
    for name in sums:
        with contextlib.suppress(StackproofError):  # too large, say
            sums[name] = digest(read(folder_of(image) / name, limits.VERDICT_FILE))
    return sums


def put_signature(image: str, statement: bytes, seal: bytes) -> Path:
    """Put a signature beside an image, whole or not at all; raises what writing raises."""
    name = f"signature-{hashlib.sha256(statement + seal).hexdigest()[:_ID]}.json"
    with _opened(folder_of(image)) as folder:
        folder.write(f"{name}{_SEALED}", seal)
        folder.write(name, statement)
    return folder_of(image) / name


def _opened(folder: Path) -> OpenFolder:
    """Open the folder to write to it, made where it is not there; what it lies in is as it is."""
    shared = is_shared(folder.parent)
    mode = 0o777 if shared else 0o755
    with open_folder(folder.parent, make=mode, any_owner=True) as above:
        judging = OpenFolder(path=above.path, descriptor=above.descriptor, shared=shared)
        return judging.open_folder(folder.name, make=mode)


def put_verdict(image: str, name: str, content: bytes) -> Path:
    """Put a verdict beside an image, in the place of an older one of that name."""
    if not can_be_named(name):
        raise fail(
            Reason.USAGE,
            f"`{name}` cannot be the name of a verdict",
            hint="verdicts are called `verdict-ID.json`, ID the first eight digits of a digest",
        )
    if len(content) > limits.VERDICT_FILE.bytes:
        raise too_large(name)
    path = folder_of(image) / name
    if digests(image).get(name) != digest(content):
        with _opened(path.parent) as folder:
            folder.write(name, content)
    return path


def _plain_files(folder: Path) -> dict[str, int]:
    """Return the plain files in a folder with their sizes; it need not be there, and is no link."""
    if not folder.is_dir():
        return {}
    with contextlib.suppress(StackproofError), _looked_into(folder) as opened:
        states = {name: opened.state(name) for name in opened.names()}
        return {
            name: state.st_size
            for name, state in states.items()
            if state and stat.S_ISREG(state.st_mode)
        }
    return {}
