"""Records of images that were verified: what the mount helper and the plug-in look at.

    stackproof-trust 1
    image SHA256
    path /apps/images/…/store.squashfs
    file INODE SIZE MTIME CTIME
    signed UNTIL SIGNER LABEL

One stands under the name `verity-MEASURE`, without `file`, for whatever file the kernel measures
so, whosever it is. The other stands under `file-INODE-SIZE` for a file of root's that nobody else
may write to: `file` tells it from what it was changed to or replaced by. Times are in nanoseconds,
`UNTIL` is in seconds since 1970, 0 for ever. Programs with rights read this: it has lines of words.
"""

from __future__ import annotations

import os

from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.core.value import Value
from stackproof.share.trust.policy import SignedLabel

FOLDER = "trust"
"""Where records are, in the folder of the policy."""
MOST_BYTES = 16 * 1024
MOST_SIGNED = 32
_FIRST = "stackproof-trust 1"


class FileIdentity(Value):
    """What tells a file, as it is now, from any other of its file system; times in nanoseconds."""

    inode: int
    size: int
    modified: int
    changed: int

    @classmethod
    def of(cls, state: os.stat_result) -> FileIdentity:
        """Return the identity of a file by what the kernel says of it."""
        return cls(
            inode=state.st_ino,
            size=state.st_size,
            modified=state.st_mtime_ns,
            changed=state.st_ctime_ns,
        )

    @property
    def name(self) -> str:
        """The name of the record of this file."""
        return f"file-{self.inode}-{self.size}"


class TrustRecord(Value):
    """An image that was verified; `file` is None in a record for whatever file is measured so."""

    image: str
    path: str
    signed: tuple[SignedLabel, ...]
    file: FileIdentity | None = None


def verity_name(measure: str) -> str:
    """Return the name of the record of a measure of fs-verity."""
    return f"verity-{measure}"


def render(record: TrustRecord) -> bytes:
    """Return the text of a record; raises `StackproofError` for words that would not be words."""
    lines = [_FIRST, f"image {record.image}", f"path {record.path}"]
    if record.file is not None:
        one = record.file
        lines.append(f"file {one.inode} {one.size} {one.modified} {one.changed}")
    lines += [f"signed {one.until} {one.signer} {one.label}" for one in record.signed[:MOST_SIGNED]]
    words = [word for one in record.signed for word in (one.signer, one.label)]
    if (
        any(not word.isprintable() or " " in word or not word for word in words)
        or "\n" in record.path
    ):
        raise fail(
            Reason.INVALID_VALUE,
            "this signer or path cannot stand in a record: it has blanks or line ends",
            where=Location(file=record.path),
            hint="give the signer in `allowed_signers` a name of one word",
        )
    return "".join(f"{line}\n" for line in lines).encode(errors="surrogateescape")


def parse(content: bytes, *, file: str) -> TrustRecord:
    """Return a record; raises `StackproofError` (INVALID_VALUE) for what is none."""
    lines = content.decode(errors="surrogateescape").split("\n")
    rows = [line.partition(" ")[::2] for line in lines[1:-1]]
    values = dict(rows)
    known = values.keys() <= {"image", "path", "file", "signed"}
    if lines[0] != _FIRST or lines[-1] or len(content) > MOST_BYTES or not known:
        raise _damaged(file)
    try:
        return TrustRecord(
            image=values["image"],
            path=values["path"],
            signed=tuple(_signed(rest) for key, rest in rows if key == "signed"),
            file=_identity(values["file"]) if "file" in values else None,
        )
    except (ValueError, KeyError):
        raise _damaged(file) from None


def _signed(text: str) -> SignedLabel:
    until, signer, label = text.split(" ")
    return SignedLabel(label=label, signer=signer, until=int(until))


def _identity(text: str) -> FileIdentity:
    inode, size, modified, changed = map(int, text.split(" "))
    return FileIdentity(inode=inode, size=size, modified=modified, changed=changed)


def _damaged(file: str) -> StackproofError:
    return fail(
        Reason.INVALID_VALUE,
        "a record of a verified image is damaged",
        where=Location(file=file),
        hint="write it again, as root: `stackproof image verify --record IMAGE`",
    )
