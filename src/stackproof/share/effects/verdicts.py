"""What is beside an image: verdicts and signatures, what they say, and whose word it is."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from stackproof.core import limits
from stackproof.core.errors import Problem, StackproofError
from stackproof.core.ids import digest
from stackproof.core.value import Value
from stackproof.share import verdict as share_verdict
from stackproof.share.effects import attachments, measuring, signing, trusted
from stackproof.share.effects.signing import VerifiedSignature
from stackproof.share.trust.policy import TrustDecision
from stackproof.share.verdict import AttestedVerdict


class VerdictFile(Value):
    """A verdict beside an image: `signers` are those who signed the image with it.

    `problems` say why it does not count; `verdict` is None then. `size` is in bytes.
    """

    name: str
    file: str
    size: int
    sha256: str
    signers: tuple[str, ...] = ()
    verdict: AttestedVerdict | None = None
    problems: tuple[Problem, ...] = ()


class AttachedFacts(Value):
    """What is beside an image: verdicts, signatures that hold, and why others do not.

    `decision` is what the policy of this site says, None where there is none.
    """

    verdicts: tuple[VerdictFile, ...]
    signatures: tuple[VerifiedSignature, ...]
    problems: tuple[Problem, ...]
    decision: TrustDecision | None = None


def look(image: str, signers: str, *, label: str = "") -> AttachedFacts | None:
    """Return what is beside an image, by a file of allowed signers; None where nothing is.

    `label` is what the image was asked for, empty for none: the policy is asked with it. The image
    is read for its digest, unless that is remembered. Raises what reading raises.
    """
    named, signatures = attachments.verdicts(image), attachments.signatures(image)
    if not named and not signatures:
        return None
    sha256 = measuring.measure(image).sha256
    good: tuple[VerifiedSignature, ...] = ()
    problems: tuple[Problem, ...] = ()
    if signatures:
        try:
            verified = signing.verify(image, signers)
            good, problems = verified.good, verified.problems
        except StackproofError as error:
            problems = error.problems
    decision = None
    try:
        decision = trusted.decide([each.signed for each in good], label)
    except StackproofError as error:
        problems = (*problems, *error.problems)
    return AttachedFacts(
        verdicts=tuple(_looked_at(path, sha256, good) for path in named.values()),
        signatures=good,
        problems=problems,
        decision=decision,
    )


def _looked_at(path: Path, image_sha256: str, good: Sequence[VerifiedSignature]) -> VerdictFile:
    """Return a verdict with all that can be said of it."""
    verdict: AttestedVerdict | None = None
    problems: tuple[Problem, ...] = ()
    content = b""
    try:
        content = attachments.read(path, limits.VERDICT_FILE)
        verdict = share_verdict.parse(content, image_sha256, file=path.name)
    except StackproofError as error:
        problems = error.problems
    sha256 = digest(content) if content else ""
    signers = [each.signed.signer for each in good if each.said.attached.get(path.name) == sha256]
    return VerdictFile(
        name=path.name,
        file=str(path),
        size=os.lstat(path).st_size,
        sha256=sha256,
        signers=tuple(dict.fromkeys(signers)),
        verdict=verdict,
        problems=problems,
    )
