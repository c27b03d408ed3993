"""What is signed of an image: its digests, label and date, as a statement of in-toto.

    {"_type": "https://in-toto.io/Statement/v1", "subject": [IMAGE, "meta", VERDICT…],
     "predicateType": "urn:stackproof:signed-image:1", "predicate": {…}}

Subjects are the image, the folder `meta` beside it (uenv takes variables from there), and the
verdicts that were attached when it was signed. The same values give the same bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from msgspec import field

from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.core.value import Value

IN_TOTO = "https://in-toto.io/Statement/v1"
PREDICATE = "urn:stackproof:signed-image:1"
META = "meta"
_DIGEST = re.compile(r"[0-9a-f]{64}")
_WORD = re.compile(r"[!-~]{1,512}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_DATE = "%Y-%m-%dT%H:%M:%SZ"


class ImageStatement(Value):
    """What somebody says of an image: `image`, `verity` and `meta` are digests.

    `label` has the namespace of a registry before it, with `::`, where it is for one. `meta` is
    empty where there is none; `attached` are the digests of verdicts by name. `size` is in bytes,
    `date` in seconds since 1970.
    """

    label: str
    image: str
    verity: str
    size: int
    date: int
    meta: str = ""
    attached: Mapping[str, str] = field(default_factory=dict)


def render(said: ImageStatement) -> bytes:
    """Return the text that is signed."""
    subjects = [(said.label, said.image), *([(META, said.meta)] if said.meta else [])]
    subjects += sorted(said.attached.items())
    data = {
        "_type": IN_TOTO,
        "subject": [{"name": name, "digest": {"sha256": digest}} for name, digest in subjects],
        "predicateType": PREDICATE,
        "predicate": {
            "label": said.label,
            "size": said.size,
            "fs-verity": said.verity,
            "date": datetime.fromtimestamp(said.date, UTC).strftime(_DATE),
        },
    }
    return (json.dumps(data, indent=1) + "\n").encode()


def parse(content: bytes, *, file: str) -> ImageStatement:
    """Return the statement in a text; raises `StackproofError` (SIGNATURE_INVALID) for another."""
    try:
        data: Any = json.loads(content)
        predicate = data["predicate"]
        subjects = {one["name"]: one["digest"]["sha256"] for one in data["subject"]}
        first = data["subject"][0]["name"]
        date = datetime.strptime(predicate["date"], _DATE).replace(tzinfo=UTC)
        said = ImageStatement(
            label=predicate["label"],
            image=subjects.pop(first),
            verity=predicate["fs-verity"],
            size=predicate["size"],
            date=int(date.timestamp()),
            meta=subjects.pop(META, ""),
            attached=subjects,
        )
        sound = (
            (data["_type"], data["predicateType"], first) == (IN_TOTO, PREDICATE, said.label)
            and len(data["subject"]) == 1 + bool(said.meta) + len(said.attached)
            and _WORD.fullmatch(said.label)
            and type(said.size) is int
            and all(_NAME.fullmatch(name) for name in said.attached)
            and all(
                _DIGEST.fullmatch(one)
                for one in (said.image, said.verity, said.meta or said.image, *subjects.values())
            )
        )
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError, OverflowError):
        sound = False
    if not sound:
        raise unreadable(file)
    return said


def unreadable(file: str) -> StackproofError:
    """Return the error for a text that is none of ours."""
    return fail(
        Reason.SIGNATURE_INVALID,
        "a signed statement cannot be read: it is not one of an image",
        where=Location(file=file),
        hint="sign the image again: `stackproof image sign`",
    )
