"""Verdicts made of results for an image, and put beside it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from stackproof.compare.compare import compare
from stackproof.compare.effects.results import load_results
from stackproof.core import noun
from stackproof.core.effects import files
from stackproof.core.errors import Location, Problem, Reason, StackproofError
from stackproof.core.ids import digest
from stackproof.core.value import Value
from stackproof.report.attested import verdict_of
from stackproof.results.model import SPECIFICATION
from stackproof.share import verdict as share_verdict
from stackproof.share.effects import attachments


class NewVerdict(Value):
    """A verdict that is to be attached: `source` is the folder of results, as the user named it."""

    name: str
    content: bytes
    source: str


def of_results(image: str, sha256: str, folder: str) -> NewVerdict:
    """Return the verdict of results on an image.

    Raises `StackproofError` as `load_results`, `compare` and `verdict_of` do; INVALID_VALUE where
    launches cannot be read.
    """
    results = load_results(folder)
    if results.problems:
        raise StackproofError(*results.problems)
    specification = files.sha256(Path(folder, SPECIFICATION))
    verdict = verdict_of(
        compare(results), image=image, sha256=sha256, specification=specification, folder=folder
    )
    return NewVerdict(
        name=share_verdict.name_of(specification),
        content=noun.to_json(verdict).encode(),
        source=folder,
    )


def put(image: str, new: Sequence[NewVerdict], *, force: bool) -> tuple[Path, ...]:
    """Put verdicts beside an image, all or, where one may not be there, none.

    Raises `StackproofError`: USAGE for two of one name, NOT_REPLACED for one that is there with
    another content, unless forced, and what writing raises.
    """
    problems = list(_refused(image, new, force=force))
    if problems:
        raise StackproofError(*problems)
    return tuple(attachments.put_verdict(image, each.name, each.content) for each in new)


def _refused(image: str, new: Sequence[NewVerdict], *, force: bool) -> Iterable[Problem]:
    there = attachments.digests(image)
    seen: dict[str, str] = {}
    for each in new:
        known = there.get(each.name)
        if each.name in seen:
            yield Problem(
                reason=Reason.USAGE,
                message=f"`{seen[each.name]}` and `{each.source}` would both be `{each.name}`",
                hint="name one of them: they are of one `bench.json`",
            )
        elif known is not None and not force and known != digest(each.content):
            yield Problem(
                reason=Reason.NOT_REPLACED,
                message=f"the image has another verdict `{each.name}` already",
                where=Location(file=str(attachments.folder_of(image) / each.name)),
                hint="give --force to replace it",
            )
        seen[each.name] = each.source
