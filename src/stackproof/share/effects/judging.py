"""What an image's signatures are worth on this machine, and an administrator's record of that."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from stackproof.core import limits
from stackproof.core.effects import files
from stackproof.core.errors import Location, Problem, Reason, StackproofError, fail
from stackproof.core.value import Value
from stackproof.share.effects import attachments, measuring, places, signing, trusted
from stackproof.share.effects.signing import VerifiedSignature
from stackproof.share.labels import LabelRecord
from stackproof.share.trust import policy, sshsig, statement
from stackproof.share.trust.policy import SignedLabel, TrustAction, TrustDecision, TrustRule


class ImageJudgement(Value):
    """Who signed an image, why other signatures do not count, and what the policy says.

    `label` is what it was asked for, empty for none. `decision` is None where the site has no
    policy. `notes` are warnings, `records` the names of what was written for programs with rights.
    """

    image: str
    label: str
    good: tuple[VerifiedSignature, ...]
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]
    decision: TrustDecision | None
    records: tuple[str, ...] = ()


def default_signers() -> str:
    """Return the file of allowed signers of this machine, or that of this user."""
    own = str(Path("~/.ssh/allowed_signers").expanduser())
    return (
        own if not os.path.isfile(trusted.signers()) and os.path.isfile(own) else trusted.signers()
    )


def judge(image: str, signers: str, *, label: str = "") -> ImageJudgement:
    """Return the worth of an image's signatures for a label, or for their own where it is empty.

    Raises `StackproofError` where none counts, with the reasons of all, and what reading and
    ssh-keygen raise.
    """
    found = signing.verify(image, signers)
    good = tuple(one for one in found.good if policy.counts(label, one.said.label))
    others = tuple(_of_another_label(one, label) for one in found.good if one not in good)
    problems = (*others, *found.problems)
    if not good:
        raise StackproofError(*problems)
    rules = trusted.rules()
    return ImageJudgement(
        image=image,
        label=label,
        good=good,
        problems=problems,
        notes=(
            *_older(image, good),
            *_verdicts(image, good),
            *_without_key(rules or (), signers),
        ),
        decision=trusted.decide([one.signed for one in found.good], label),
    )


def _of_another_label(one: VerifiedSignature, label: str) -> Problem:
    return Problem(
        reason=Reason.ANOTHER_LABEL,
        message=f"`{one.signed.signer}` signed it as `{one.said.label}`, not as `{label}`",
        where=Location(file=one.file),
        hint=f"whoever answers for `{label}` signs it as that: `stackproof image sign {label}`",
    )


def _without_key(rules: Sequence[TrustRule], signers: str) -> tuple[str, ...]:
    """Return a note for each signer of the policy whom nobody can be: its name may be misspelt."""
    allowed = files.read_bounded(signers, limits.DOCUMENT).decode(errors="replace")
    return tuple(
        f"the policy asks for `{one}`, of whom `{signers}` has no key"
        for one in policy.without_key(rules, sshsig.names(allowed))
    )


def refusal(found: ImageJudgement) -> StackproofError | None:
    """Return the error for an image that the policy refuses; None for any other."""
    decision = found.decision
    if decision is None or decision.reason is None or decision.action is not TrustAction.REFUSE:
        return None
    return fail(
        decision.reason,
        f"this site does not let `{found.image}` be mounted: {decision.text}",
        where=Location(file=found.image),
        detail="\n".join(found.notes) or None,
        hint=f"its policy is `{trusted.home() / policy.POLICY}`",
    )


def _older(image: str, good: Sequence[VerifiedSignature]) -> tuple[str, ...]:
    """Return a warning for each label that a newer image here is signed as: a downgrade."""
    dates = {one.said.label: one.said.date for one in good}
    notes: dict[str, str] = {}
    for path in {one.file for one in _records()} - {os.path.abspath(image)}:
        for other in attachments.signatures(path):
            try:
                said = statement.parse(other.statement, file=other.file)
            except StackproofError:
                continue
            own = dates.get(said.label)
            if own is not None and said.date > own and said.image != good[0].said.image:
                notes[said.label] = (
                    f"`{said.label}` is signed for a newer image here, of "
                    f"{date_text(said.date)}: this one is of {date_text(own)}"
                )
    return tuple(notes.values())


def _records() -> tuple[LabelRecord, ...]:
    try:
        return places.records()
    except StackproofError:
        return ()


def _verdicts(image: str, good: Sequence[VerifiedSignature]) -> tuple[str, ...]:
    """Return a note for each verdict that is not as it was signed; of several signatures the last.

    A verdict that was attached later is signed by nobody.
    """
    said = max(good, key=lambda one: one.said.date).said
    newest = {key: sha256 for key, sha256 in said.attached.items() if attachments.can_be_named(key)}
    now = attachments.digests(image)
    other = [name for name, digest in now.items() if newest.get(name) != digest]
    changed = [name for name in other if name in newest]
    later = [name for name in other if name not in newest]
    gone = [name for name in newest if name not in now]
    texts = (("was changed since it was signed", changed), ("is signed by nobody", later))
    return tuple(
        f"the verdict `{name}` {text}"
        for text, names in (*texts, ("was signed and is not there", gone))
        for name in names
    )


def date_text(seconds: int) -> str:
    """Return a time as people read it, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


def signatures_data(good: Iterable[VerifiedSignature]) -> list[dict[str, object]]:
    """Return signatures that hold as JSON has them."""
    return [
        {
            "label": one.said.label, "signer": one.signed.signer, "key": one.key,
            "date": date_text(one.said.date), "until": one.signed.until or None,
        }
        for one in good
    ]  # fmt: skip


def policy_data(decision: TrustDecision | None) -> dict[str, object] | None:
    """Return a decision of the policy as JSON has it; None for none."""
    if decision is None:
        return None
    return {
        "action": decision.action.value, "reason": decision.reason, "text": decision.text,
    }  # fmt: skip


def policy_text(decision: TrustDecision) -> str:
    """Return a decision of the policy in words."""
    if decision.reason is None:
        return "as this site asks"
    return f"{decision.action.value}: {decision.text}"


def record(found: ImageJudgement) -> tuple[str, ...]:
    """Write down, as root, who signed an image as what it was asked for; return the records' names.

    What was recorded of it under other labels stays. Raises `StackproofError`: NOT_PERMITTED for
    anybody else, and what `trusted.record` raises.
    """
    kept = (
        row
        for one in trusted.all_records().values()
        if one.image == found.good[0].said.image
        for row in one.signed
        if not policy.counts(found.label, row.label)
    )
    return _write(found.image, found.good, kept)


def _write(
    image: str, good: Sequence[VerifiedSignature], earlier: Iterable[SignedLabel] = ()
) -> tuple[str, ...]:
    if os.geteuid() != 0:
        raise fail(
            Reason.NOT_PERMITTED,
            "only root may record which images are trusted",
            where=Location(file=str(trusted.home())),
            hint="let the administrator do it: `stackproof image verify --record IMAGE`",
        )
    measured = measuring.measure(image)
    if any(one.said.image != measured.sha256 for one in good):
        raise fail(
            Reason.IMAGE_DAMAGED,
            f"`{image}` changes while stackproof reads it",
            where=Location(file=image),
            hint="try again when the program that writes it has ended",
        )
    rows = dict.fromkeys((*(one.signed for one in good), *earlier))
    return trusted.record(image, measured, tuple(rows))


def renew(signers: str) -> tuple[tuple[str, str], ...]:
    """Look again at every recorded image, as what it was recorded; forget what holds no more.

    Returns pairs of the image's path and why its record went, empty where it stays.
    """
    rows: dict[str, str] = {}
    kept: set[str] = set()
    every = trusted.all_records()
    labels: dict[str, dict[str, None]] = {}
    for one in every.values():
        labels.setdefault(one.image, {}).update(dict.fromkeys(row.label for row in one.signed))
    for path, image in dict.fromkeys((one.path, one.image) for one in every.values()):
        good: list[VerifiedSignature] = []
        for label in labels[image]:
            try:
                found = judge(path, signers, label=label)
                refused = refusal(found)
                if refused is not None:
                    raise refused
                good += found.good
            except StackproofError as error:
                rows.setdefault(path, error.problems[0].message)
        if good:
            kept.update(_write(path, good))
            rows[path] = ""
    for name in every.keys() - kept:
        trusted.forget(name)
    return tuple(rows.items())
