"""The verdict of `bench` on an image, as one JSON file beside it.

It names the image by its SHA-256, so that it is no verdict on another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from msgspec import field

from stackproof.core import limits, noun
from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.core.value import Value

_WORDS = ("PASS", "FAIL", "INCONCLUSIVE")


class AttestedVerdict(Value):
    """What was measured: `verdict` is PASS, FAIL or INCONCLUSIVE.

    `image` is the SHA-256 of the image. `arms` are those that ran it, `baseline` what they were
    held against, in words, with the SHA-256 of its image, if it was one. `machine` are facts of
    where it ran, `trust` says whether the launches are as they were made. `passed`, `open` and
    `failed` name the points. `specification` is the digest of `bench.json`.
    """

    SCHEMA: ClassVar[str] = "stackproof/verdict/1"

    image: str
    verdict: str
    specification: str
    arms: tuple[str, ...] = ()
    baseline: str = ""
    baseline_image: str = ""
    date: str = ""
    stackproof: str = ""
    trust: str = ""
    machine: Mapping[str, str] = field(default_factory=dict)
    margins: Mapping[str, float] = field(default_factory=dict)
    passed: tuple[str, ...] = ()
    open: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


def name_of(specification: str) -> str:
    """Return the name of the file: one for each comparison."""
    return f"verdict-{specification[:8]}.json"


def parse(content: bytes, image_sha256: str, *, file: str) -> AttestedVerdict:
    """Return the verdict on an image in a text.

    Raises `StackproofError`: DOCUMENT_OF_ANOTHER, TOO_LARGE, WRONG_TYPE, and as `noun.from_json`.
    """
    if len(content) > limits.VERDICT_FILE.bytes:
        raise too_large(file)
    verdict = noun.from_json(AttestedVerdict, content, file=file)
    if verdict.verdict not in _WORDS:
        raise fail(
            Reason.WRONG_TYPE,
            f"`{file}` is no verdict that can be read: it is none of {', '.join(_WORDS)}",
            where=Location(file=file),
            hint="`stackproof image attach IMAGE RESULTS` makes one of results",
        )
    if verdict.image != image_sha256:
        raise fail(
            Reason.DOCUMENT_OF_ANOTHER,
            f"`{file}` is about another image, with another SHA-256",
            detail=f"is about   {verdict.image[:16] or 'nothing'}\nthis image {image_sha256[:16]}",
            where=Location(file=file),
            hint="attach it to the image that it is about",
        )
    return verdict


def too_large(file: str) -> StackproofError:
    """Return the error for a file that is larger than any verdict."""
    return fail(
        Reason.TOO_LARGE,
        f"`{file}` has more than {limits.VERDICT_FILE.bytes} bytes",
        where=Location(file=file),
        hint="`stackproof image attach IMAGE RESULTS` makes one of results",
    )
