"""Documents made for an image: of what it holds, of results, and of files; put beside it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from stackproof.build.effects import build_record
from stackproof.compare.compare import compare
from stackproof.compare.effects.results import load_results
from stackproof.core import limits
from stackproof.core.effects import files
from stackproof.core.errors import Location, Problem, Reason, StackproofError
from stackproof.core.value import Value, replace
from stackproof.image.effects.load import load_image
from stackproof.knowledge.effects.load import load_curves
from stackproof.report.attested import verdict_of
from stackproof.report.render import render_html
from stackproof.results.model import SPECIFICATION
from stackproof.share.attested import attestation
from stackproof.share.attested import verdict as verdicts
from stackproof.share.effects import attachments, documents


class NewDocument(Value):
    """A document that is to be attached: `source` is what it is made of, as the user named it.

    `seal` is empty where nobody signs it.
    """

    name: str
    content: bytes
    source: str
    seal: bytes = b""


def of_image(image: str) -> tuple[NewDocument, ...]:
    """Return the bill of materials that an image holds.

    Raises `StackproofError`: IMAGE_NO_META where it has none, and what reading images raises.
    """
    bill = build_record.load_bill(image)
    return (NewDocument(name=build_record.BILL, content=bill, source=image),)


def of_results(image: str, sha256: str, folder: str) -> tuple[NewDocument, ...]:
    """Return the verdict of results on an image, and their report.

    Raises `StackproofError` as `load_results`, `compare` and `verdict_of` do; INVALID_VALUE where
    launches cannot be read.
    """
    results = load_results(folder)
    if results.problems:
        raise StackproofError(*results.problems)
    comparison = compare(results)
    specification = files.sha256(Path(folder, SPECIFICATION))
    said = verdict_of(
        comparison, image=image, sha256=sha256, specification=specification, folder=folder
    )
    text = attestation.render(verdicts.attest(said, ((load_image(image).name, sha256),)))
    page = render_html(comparison, curves=load_curves())
    names = (verdicts.name_of(specification), verdicts.report_of(specification))
    return tuple(
        NewDocument(name=name, content=content, source=folder)
        for name, content in zip(names, (text, page.encode()), strict=True)
    )


def of_file(sha256: str, file: str) -> NewDocument:
    """Return a file as a document; an attestation must be one of the image.

    Raises `StackproofError`: DOCUMENT_OF_ANOTHER, WRONG_TYPE for an attestation that cannot be
    read, TOO_LARGE, FILE_MISSING.
    """
    content = files.read_bounded(file, limits.DOCUMENT_FILE)
    documents.attested(file, content, sha256)
    return NewDocument(name=os.path.basename(file), content=content, source=file)


def sealed(
    image: str, new: Sequence[NewDocument], sha256: str, key: str, *, force: bool
) -> tuple[NewDocument, ...]:
    """Return documents with their seals; raises as `put` does, before a key is asked for."""
    _refuse(image, new, force=force)
    return tuple(
        replace(one, seal=documents.seal(one.name, one.content, sha256, key)) for one in new
    )


def put(image: str, new: Sequence[NewDocument], *, force: bool) -> tuple[Path, ...]:
    """Put documents beside an image, all or, where one may not be there, none.

    Raises `StackproofError`: USAGE for two of one name, NOT_REPLACED for one that is there with
    another content, unless forced, and what writing raises.
    """
    _refuse(image, new, force=force)
    return tuple(attachments.put_document(image, one.name, one.content, one.seal) for one in new)


def _refuse(image: str, new: Sequence[NewDocument], *, force: bool) -> None:
    problems = list(_refused(image, new, force=force))
    if problems:
        raise StackproofError(*problems)


def _refused(image: str, new: Sequence[NewDocument], *, force: bool) -> Iterable[Problem]:
    there = attachments.documents(image)
    seen: dict[str, str] = {}
    for one in new:
        if not attachments.can_be_named(one.name):
            yield attachments.bad_name(one.name)
        known = there.get(one.name)
        if one.name in seen:
            yield Problem(
                reason=Reason.USAGE,
                message=f"`{seen[one.name]}` and `{one.source}` would both be `{one.name}`",
                hint="give one of the files another name",
            )
        elif known is not None and not force and known.read_bytes() != one.content:
            yield Problem(
                reason=Reason.NOT_REPLACED,
                message=f"the image has another document `{one.name}` already",
                where=Location(file=str(known)),
                hint="give --force to replace it, or the new one another name",
            )
        seen[one.name] = one.source
