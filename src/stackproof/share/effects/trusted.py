"""What an administrator trusts on this machine: the policy, records of verified images, admission.

It is the one place in Python that holds to a site's policy. All of it is below `/etc/stackproof`,
root's and writable for nobody else; what is not is refused, as the mount helper does. Only root
writes records. A record of the file is enough, as it is for the mount helper and the plug-in for
Slurm; without one the signatures beside the image are looked at, which reads it once.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from stackproof.core import limits
from stackproof.core.effects import files, libc
from stackproof.core.effects.foreign.folder import real_path
from stackproof.core.effects.libc import MountFailure
from stackproof.core.errors import Location, Problem, Reason, StackproofError, fail
from stackproof.share.effects import attachments, signing
from stackproof.share.effects.measuring import Measured
from stackproof.share.trust import policy, records
from stackproof.share.trust.policy import SignedLabel, TrustAction, TrustDecision, TrustRule
from stackproof.share.trust.records import FileIdentity, TrustRecord

_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH
_UNKNOWN_USER = 65534


def home() -> Path:
    """Return the folder of what is trusted here."""
    return Path(policy.FOLDER)


def signers() -> str:
    """Return the path of the file of allowed signers of this machine."""
    return str(home() / policy.SIGNERS)


def rules() -> tuple[TrustRule, ...] | None:
    """Return the policy; None where there is none.

    Raises `StackproofError`: NOT_PERMITTED for one that others may write to, INVALID_VALUE.
    """
    path = home() / policy.POLICY
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise files.translate(error, path) from error
    check(home(), folder=True)
    check(path)
    content = files.read_bounded(path, limits.SMALL_RECORD)
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise fail(
            Reason.INVALID_VALUE,
            "the policy of this site is not UTF-8",
            where=Location(file=str(path)),
            hint="until it is right, no image is mounted",
        ) from None
    return policy.parse(text, file=str(path))


def decide(signed: Sequence[SignedLabel], asked: str) -> TrustDecision | None:
    """Return what the policy says of an image asked for as a label; None where there is none.

    Raises as `rules`.
    """
    found = rules()
    return None if found is None else policy.decide(found, signed, now=now(), asked=asked)


def refusal(
    decision: TrustDecision, why: Problem | None, shown: str, say: Callable[[str], None]
) -> tuple[Reason, str] | None:
    """Return reason and words for an image that is refused, those of `why` if that is known.

    `say` hears a warning of the policy.
    """
    if decision.reason is None or decision.action is TrustAction.ALLOW:
        return None
    text = why.message if why else decision.text
    if decision.action is TrustAction.REFUSE:
        return why.reason if why else decision.reason, text
    say(f"`{shown}` is not signed as this site asks: {text}")
    return None


def check(path: Path, *, folder: bool = False) -> None:
    """Raise `StackproofError` (NOT_PERMITTED) unless a file, or folder, is root's alone to change.

    In a user namespace of a user's own, root and all others look alike: nobody has rights there.
    """
    try:
        state = path.lstat()
    except OSError as error:
        raise files.translate(error, path) from error
    kind = stat.S_ISDIR if folder else stat.S_ISREG
    if not kind(state.st_mode):
        fault = "it is of the wrong kind"
    elif not _of_root(state.st_uid):
        fault = "it does not belong to root"
    elif state.st_mode & _OTHERS_MAY_WRITE:
        fault = "others than root may write to it"
    else:
        return
    raise fail(
        Reason.NOT_PERMITTED,
        f"`{path}` is not trusted: {fault}",
        where=Location(file=str(path)),
        hint="let the administrator make it: owner root, writable for root alone",
    )


def _of_root(user: int) -> bool:
    return user == 0 or (user == _UNKNOWN_USER and not libc.in_first_user_namespace())


def recorded(descriptor: int) -> tuple[tuple[SignedLabel, ...], Problem | None]:
    """Return the signers of an open image, by an administrator's record; nothing for no record.

    Nor for a file that was changed since: that is the problem then. Raises `StackproofError`:
    NOT_PERMITTED for records that others may write to, INVALID_VALUE.
    """
    state = os.fstat(descriptor)
    if not _of_root(state.st_uid) or state.st_mode & _OTHERS_MAY_WRITE or libc.is_fuse(descriptor):
        return (), None
    identity = FileIdentity.of(state)
    found = _read(identity.name)
    if found is None or found.file == identity:
        return found.signed if found is not None else (), None
    return (), Problem(
        reason=Reason.IMAGE_DAMAGED,
        message="it was changed, or replaced, since it was verified",
        where=Location(file=found.path),
        hint="let the administrator look at it: `stackproof image verify --record IMAGE`",
    )


def _read(name: str) -> TrustRecord | None:
    folder = home() / records.FOLDER
    path = folder / name
    if not os.path.lexists(path):
        return None
    check(folder, folder=True)
    check(path)
    return records.parse(files.read_bounded(path, limits.SMALL_RECORD), file=str(path))


def record(image: str, measured: Measured, signed: tuple[SignedLabel, ...]) -> tuple[str, ...]:
    """Write down who signed an image; return the names of the records.

    Of a file of root's that nobody else may write to there are two, of any other one, which only
    holds where the kernel measures it (fs-verity). Raises what `check` and writing raise.
    """
    folder = home() / records.FOLDER
    try:
        folder.mkdir(mode=0o755, exist_ok=True)
        state = os.stat(image)
    except OSError as error:
        raise files.translate(error, folder) from error
    check(home(), folder=True)
    check(folder, folder=True)
    path = real_path(image)
    names = [records.verity_name(measured.verity)]
    one = TrustRecord(image=measured.sha256, path=path, signed=signed)
    files.write(folder / names[0], records.render(one))
    if state.st_uid == 0 and not state.st_mode & _OTHERS_MAY_WRITE:
        identity = FileIdentity.of(state)
        names.append(identity.name)
        own = TrustRecord(image=measured.sha256, path=path, signed=signed, file=identity)
        files.write(folder / identity.name, records.render(own))
    return tuple(names)


def all_records() -> dict[str, TrustRecord]:
    """Return every record by its name; one that cannot be read is left out."""
    found: dict[str, TrustRecord] = {}
    with contextlib.suppress(OSError):
        for name in sorted(os.listdir(home() / records.FOLDER)):
            with contextlib.suppress(StackproofError):
                one = _read(name)
                if one is not None:
                    found[name] = one
    return found


def forget(name: str) -> None:
    """Take a record away; raises what deleting raises."""
    files.remove(home() / records.FOLDER / name)


def now() -> int:
    """Return the time, in seconds since 1970."""
    return int(time.time())


def judge(
    image: str, descriptor: int, *, label: str = ""
) -> tuple[TrustDecision, tuple[Problem, ...]] | None:
    """Return the policy's decision on an open image, and why signatures beside it do not count.

    `label` is what it was asked for, empty for none. None where the site asks for nothing. Raises
    what reading the policy and the image raises.
    """
    if rules() is None:
        return None
    signed, changed = recorded(descriptor)
    decision = decide(signed, label)
    problems = (changed,) if changed is not None else ()
    if decision is None:
        return None
    if decision.reason is None or not attachments.signatures(image):
        return decision, problems
    try:
        found = signing.verify(image, signers(), descriptor=descriptor)
    except StackproofError as error:
        return decision, (*problems, *error.problems)
    good = tuple(one.signed for one in found.good)
    return decide((*good, *signed), label) or decision, (*problems, *found.problems)


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
    if refused := refusal(decision, why, image, say):
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
