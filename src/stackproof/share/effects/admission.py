"""Whether an image may be mounted here: the one place in Python that holds to a site's policy.

An administrator's record of the file is enough, as it is for the mount helper and the plug-in for
Slurm. Without one the signatures beside the image are looked at, which reads it once.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from stackproof.core.effects.libc import MountFailure
from stackproof.core.errors import Location, Problem, Reason, StackproofError, fail
from stackproof.share.effects import attachments, signing, trusted
from stackproof.share.trust.policy import TrustDecision


def judge(
    image: str, descriptor: int, *, label: str = ""
) -> tuple[TrustDecision, tuple[Problem, ...]] | None:
    """Return the policy's decision on an open image, and why signatures beside it do not count.

    `label` is what it was asked for, empty for none. None where the site asks for nothing. Raises
    what reading the policy and the image raises.
    """
    if trusted.rules() is None:
        return None
    signed, changed = trusted.recorded(descriptor)
    decision = trusted.decide(signed, label)
    problems = (changed,) if changed is not None else ()
    if decision is None:
        return None
    if decision.reason is None or not attachments.signatures(image):
        return decision, problems
    try:
        found = signing.verify(image, trusted.signers(), descriptor=descriptor)
    except StackproofError as error:
        return decision, (*problems, *error.problems)
    good = tuple(one.signed for one in found.good)
    return trusted.decide((*good, *signed), label) or decision, (*problems, *found.problems)


def admit(image: str, descriptor: int, say: Callable[[str], None], *, label: str = "") -> None:
    """Refuse an open image that may not be mounted here; `say` hears a warning of the policy.

    `label` is what it was asked for, empty for none. Raises `MountFailure` with the reason why not.
    """
    try:
        found = judge(image, descriptor, label=label)
    except StackproofError as error:
        first = error.problems[0]
        raise MountFailure(error.reason.value, first.message, first.hint or "") from None
    if found is None:
        return
    decision, problems = found
    why = problems[0] if problems and decision.reason is Reason.UNSIGNED else None
    if refused := trusted.refusal(decision, why, image, say):
        raise MountFailure(
            refused[0].value,
            f"this site does not let `{image}` be mounted: {refused[1]}",
            (why.hint if why else None) or "`stackproof image verify IMAGE` says more",
        )


def require(image: str, label: str) -> None:
    """Raise `StackproofError` where the policy does not let an image be mounted under a label.

    This is for who hands only the file on to what mounts; that tells of warnings then.
    """
    if not label:
        return
    descriptor = os.open(image, os.O_RDONLY | os.O_CLOEXEC)
    try:
        admit(image, descriptor, lambda _: None, label=label)
    except MountFailure as failure:
        where = Location(file=image)
        raise fail(
            Reason(failure.reason), failure.message, hint=failure.hint or None, where=where
        ) from None
    finally:
        os.close(descriptor)
