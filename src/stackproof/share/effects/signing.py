"""Signatures of images by `ssh-keygen -Y`: made, and looked at one by one.

Signed is the text of `ImageStatement`, under a namespace of its own: a signature made for anything
else is none of an image. Nothing needs a network.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from stackproof.core import limits
from stackproof.core.command import Command, Completed, EnvPatch
from stackproof.core.effects import files, run
from stackproof.core.errors import Location, Problem, Reason, StackproofError, fail
from stackproof.share.effects import attachments, measuring
from stackproof.share.effects.attachments import FoundSignature
from stackproof.share.trust import sshsig, statement
from stackproof.share.trust.policy import SignedLabel
from stackproof.share.trust.statement import META, ImageStatement

NAMESPACE = "stackproof-image"
_TOOL = "ssh-keygen"
_TIMEOUT_S = 60.0
_SKEW_S = 300
_KEYS = ("id_ed25519", "id_ecdsa", "id_ed25519_sk", "id_ecdsa_sk", "id_rsa")
_GOOD = re.compile(r'Good "[^"]*" signature for (?P<who>.+) with \S+ key (?P<key>\S+)')


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedSignature:
    """A signature that holds: what is said, by whom, with which key, and until when it is good."""

    said: ImageStatement
    signed: SignedLabel
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What the signatures of an image came to: those that hold, and why the others do not."""

    good: tuple[VerifiedSignature, ...]
    problems: tuple[Problem, ...]


def default_key() -> str:
    """Return the key of this user that ssh would take first; raises FILE_MISSING for none."""
    folder = Path("~/.ssh").expanduser()
    for name in _KEYS:
        if (folder / name).is_file():
            return str(folder / name)
    raise fail(
        Reason.FILE_MISSING,
        f"there is no key of ssh in `{folder}`",
        hint=f"name one, `--key FILE`, or make one: {_TOOL} -t ed25519",
    )


def state(image: str, label: str) -> ImageStatement:
    """Return what can be said of an image now: its digests, and those of what is beside it."""
    found = measuring.measure(image)
    return ImageStatement(
        label=label,
        image=found.sha256,
        verity=found.verity,
        size=found.size,
        date=int(time.time()),
        meta=measuring.digest_of_meta(attachments.folder_of(image).with_name(META))
        if attachments.digest_in_path(image)
        else "",
        attached=attachments.digests(image),
    )


def sign(image: str, said: ImageStatement, key: str) -> Path:
    """Sign a statement with a private key, or a public one of an agent; return where it stands.

    A passphrase is asked for on the terminal. Raises `StackproofError`: FILE_MISSING for the key,
    TOOL_MISSING, NOT_PERMITTED with what ssh-keygen says, and what writing raises.
    """
    if not os.path.isfile(key):
        raise fail(
            Reason.FILE_MISSING,
            f"`{key}` is no file, so nothing can be signed with it",
            hint=f"name a key of ssh, or make one: {_TOOL} -t ed25519 -f {key}",
            where=Location(file=key),
        )
    text = statement.render(said)
    with tempfile.TemporaryDirectory(prefix="stackproof-sign-") as folder:
        path = Path(folder, "statement")
        path.write_bytes(text)
        argv = (_TOOL, "-Y", "sign", "-q", "-f", os.path.abspath(key), "-n", NAMESPACE, str(path))
        try:
            # Not by the door for programs: a key may ask for its passphrase on the terminal.
            done = subprocess.run(argv, check=False, stderr=subprocess.PIPE, text=True)  # noqa: S603 - ssh-keygen with paths as words of their own
        except FileNotFoundError:
            raise _no_tool() from None
        if done.returncode:
            raise fail(
                Reason.NOT_PERMITTED,
                f"`{image}` could not be signed",
                detail=done.stderr.strip() or None,
                hint=f"try `{_TOOL} -y -f {key}`",
                where=Location(file=key),
            )
        seal = path.with_name("statement.sig").read_bytes()
    return attachments.put_signature(image, text, seal)


def verify(image: str, signers: str, *, descriptor: int | None = None) -> Verification:
    """Return what the signatures beside an image are worth by a file of allowed signers.

    Raises `StackproofError`: FILE_MISSING for that file, TOOL_MISSING, and what reading raises.
    """
    if not os.path.isfile(signers):
        raise fail(
            Reason.FILE_MISSING,
            f"there is no file of allowed signers `{signers}`",
            hint='write one, with lines `NAME namespaces="stackproof-image" KEY`: ssh-keygen(1)',
            where=Location(file=signers),
        )
    found = attachments.signatures(image)
    if not found:
        return Verification(good=(), problems=(unsigned(image),))
    measured = measuring.measure(image, descriptor=descriptor)
    in_path = attachments.digest_in_path(image)
    meta = ""
    if in_path:
        meta = measuring.digest_of_meta(attachments.folder_of(image).with_name(META))
    good: list[VerifiedSignature] = []
    problems: list[Problem] = []
    for one in found:
        try:
            said = statement.parse(one.statement, file=one.file)
            if said.image != measured.sha256:
                # In a repository the folder's name says which image it was.
                changed = said.image == in_path if in_path else said.size == measured.size
                raise _changed(image) if changed else of_another(one.file, said)
            if said.meta and meta and said.meta != meta:
                raise _other_meta(image)
            good.append(check(one, said, signers))
        except StackproofError as error:
            problems += error.problems
            if error.reason is Reason.TOOL_MISSING:
                raise
    return Verification(good=tuple(good), problems=tuple(problems))


def unsigned(image: str) -> Problem:
    """Return the problem of an image without signatures."""
    return Problem(
        reason=Reason.UNSIGNED,
        message=f"`{image}` is not signed",
        where=Location(file=str(attachments.folder_of(image))),
        hint="whoever answers for it signs it: `stackproof image sign IMAGE`",
    )


def check(found: FoundSignature, said: ImageStatement, signers: str) -> VerifiedSignature:
    """Return a signature that holds; raises `StackproofError` with the reason why it does not."""
    with tempfile.TemporaryDirectory(prefix="stackproof-verify-") as folder:
        text, seal = Path(folder, "statement"), Path(folder, "seal")
        text.write_bytes(found.statement)
        seal.write_bytes(found.seal)
        known = _ask(text, "check-novalidate", "-n", NAMESPACE, "-s", str(seal))
        if known.returncode:
            raise _broken(found.file, known)
        listed = _ask(text, "find-principals", "-s", str(seal), "-f", signers)
        names = [line.strip() for line in listed.stdout.decode(errors="replace").splitlines()]
        for name in filter(None, names):
            done = _ask(text, "verify", "-f", signers, "-I", name, "-n", NAMESPACE, "-s", str(seal))
            match = _GOOD.search(done.stdout.decode(errors="replace"))
            if not done.returncode and match is not None:
                break
        else:
            raise _wrong_key(found, listed if listed.returncode else done, signers)
    if said.date > time.time() + _SKEW_S:
        raise fail(
            Reason.CLOCK_SKEW,
            f"the signature of `{name}` is of a time that has not come yet",
            where=Location(file=found.file),
            hint="the clock of this machine, or of the one where it was signed, is wrong",
        )
    lines = files.read_bounded(signers, limits.DOCUMENT).decode(errors="replace")
    until = sshsig.until(lines, sshsig.key_of(found.seal))
    signed = SignedLabel(label=said.label, signer=name, until=until)
    return VerifiedSignature(said=said, signed=signed, key=match["key"])


def _ask(path: Path, *words: str) -> Completed:
    """Run ssh-keygen on a text, which it reads from standard input."""
    program = ("sh", "-c", 'exec "$@" < "$0"', str(path), _TOOL, "-Y", *words)
    # Times in a file of allowed signers are local ones.
    zone = {"TZ": os.environ["TZ"]} if "TZ" in os.environ else {}
    done = run.run(Command(argv=program, timeout_s=_TIMEOUT_S, env=EnvPatch(set=zone)))
    if done.returncode == 127:
        raise _no_tool()
    return done


def _wrong_key(found: FoundSignature, done: Completed, signers: str) -> StackproofError:
    said = done.stderr.decode(errors="replace")
    where = Location(file=found.file)
    if "not yet valid" in said:
        return fail(
            Reason.CLOCK_SKEW,
            f"the key of this signature is not good yet, by `{signers}`",
            detail=said.strip(),
            where=where,
            hint="the clock of this machine may be wrong",
        )
    if "expired" in said:
        return fail(
            Reason.KEY_EXPIRED,
            f"the key of this signature is no longer good, by `{signers}`",
            detail=said.strip(),
            where=where,
            hint="whoever answers for the image signs it again, with a newer key",
        )
    return fail(
        Reason.WRONG_SIGNER,
        f"the key of this signature is nobody's in `{signers}`, or not for images",
        detail=said.strip() or None,
        where=where,
        hint="put the key into it if you trust its owner: `NAME KEY`, see ssh-keygen(1)",
    )


def _broken(file: str, done: Completed) -> StackproofError:
    return fail(
        Reason.SIGNATURE_INVALID,
        "a signature is not one of the statement beside it",
        detail=done.stderr.decode(errors="replace").strip() or None,
        where=Location(file=file),
        hint="the statement was changed after it was signed, or the signature is damaged",
    )


def _changed(image: str) -> StackproofError:
    return fail(
        Reason.IMAGE_DAMAGED,
        f"`{image}` is not what was signed: its content was changed since",
        where=Location(file=image),
        hint="copy, pull or build it again",
    )


def of_another(file: str, said: ImageStatement) -> StackproofError:
    """Return what is raised for a signature of another image."""
    return fail(
        Reason.SIGNATURE_OF_ANOTHER,
        f"the signature is one of another image, `{said.label}`",
        where=Location(file=file),
        hint="put it beside the image that it is of",
    )


def _other_meta(image: str) -> StackproofError:
    return fail(
        Reason.META_MISMATCH,
        f"the folder `meta` beside `{image}` is not the one that was signed",
        where=Location(file=image),
        hint="uenv takes variables from it: remove the image, and pull or add it again",
    )


def _no_tool() -> StackproofError:
    return fail(
        Reason.TOOL_MISSING,
        f"`{_TOOL}` is not installed, so that no signature can be made or looked at",
        hint="install the client of OpenSSH",
    )
