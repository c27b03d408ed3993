"""Seals by `cosign`, where it is there: bundles of sigstore made with a key, and whose they are.

Nothing needs a network: no log of transparency is written or asked, and cosign is given a list of
authorities, an empty one, which it would fetch else. The password of a key comes from
COSIGN_PASSWORD or the terminal, and goes to cosign by its environment alone.
"""

from __future__ import annotations

import getpass
import hashlib
import os
import sys
import tempfile
import time
from pathlib import Path

from stackproof.core import limits
from stackproof.core.command import Command, Completed, EnvPatch
from stackproof.core.effects import files, run
from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.share.trust import sigstore
from stackproof.share.trust.effects.seals import Sealed, SealHolder
from stackproof.share.trust.sigstore import CosignSigner

TOOL = "cosign"
PASSWORD = "COSIGN_PASSWORD"  # noqa: S105 - the name of the variable
_TIMEOUT_S = 120.0
_HEAD = 64
_NEW_FORMAT, _CONFIGURED = "--new-bundle-format", "--use-signing-config"
_TRUSTED = "--trusted-root"
NO_AUTHORITIES = '{"mediaType":"application/vnd.dev.sigstore.trustedroot+json;version=0.1"}'
"""What cosign is given as its authorities, in the place of a list that it would fetch."""
_ELSEWHERE = ("://", "pkcs11:")
"""What the names of keys have that are in no file: those of services and tokens."""


def make(text: bytes, key: str, *, what: str) -> bytes:
    """Return the bundle of a text by a key: a file of cosign's, or an address that it knows.

    Raises `StackproofError`: FILE_MISSING for the key, TOOL_MISSING, also for a cosign that is too
    old, NOT_PERMITTED without a password and with what cosign says.
    """
    in_file = not any(one in key for one in _ELSEWHERE)
    if in_file and not os.path.isfile(key):
        raise fail(
            Reason.FILE_MISSING,
            f"`{key}` is no file, so nothing can be signed with it",
            hint=f"name a key of cosign, or make one: {TOOL} generate-key-pair",
            where=Location(file=key),
        )
    known = _options("sign-blob")
    environment = dict(os.environ)
    if in_file and PASSWORD not in environment:
        environment[PASSWORD] = _password(key)
    with tempfile.TemporaryDirectory(prefix="stackproof-sign-") as folder:
        path, bundle = Path(folder, "text"), Path(folder, "bundle")
        path.write_bytes(text)
        argv = ("sign-blob", "--yes", "--key", os.path.abspath(key) if in_file else key,
                "--bundle", str(bundle), "--tlog-upload=false", *known, str(path))  # fmt: skip
        done = _cosign(*argv, env=EnvPatch(set=environment))
        if done.returncode:
            raise fail(
                Reason.NOT_PERMITTED,
                f"`{what}` could not be signed with `{key}`",
                detail=_said(done),
                hint=f"is the password the key's? it is that of {PASSWORD}, or what was typed",
                where=Location(file=key),
            )
        found = files.read_bounded(bundle, limits.SEAL)
    sigstore.parse(found, file=key)
    return found


def is_key(path: str) -> bool:
    """Return True for a file that is a private key of cosign."""
    try:
        with open(path, "rb") as stream:
            return sigstore.PRIVATE_KEY.match(stream.read(_HEAD)) is not None
    except OSError:
        return False


def _password(key: str) -> str:
    """Return the password of a key from the terminal; raises NOT_PERMITTED where there is none."""
    if not sys.stdin.isatty():
        raise fail(
            Reason.NOT_PERMITTED,
            f"`{key}` has a password, and there is nobody to ask for it",
            hint=f"put it into the variable {PASSWORD}; empty for a key without one",
            where=Location(file=key),
        )
    return getpass.getpass(f"password of `{key}`: ")


def holder(sealed: Sealed, allowed: str) -> SealHolder:
    """Return the holder of a bundle by a file of allowed signers.

    Raises `StackproofError`: SIGNATURE_INVALID, WRONG_SIGNER, KEY_EXPIRED, CLOCK_SKEW for a key
    that is not good yet, TOOL_MISSING, and what reading the file raises.
    """
    bundle = sigstore.parse(sealed.seal, file=sealed.file)
    if bundle.sha256 != hashlib.sha256(sealed.text).hexdigest():
        raise _broken(sealed.file, None)
    lines = files.read_bounded(allowed, limits.DOCUMENT).decode(errors="replace")
    known = [
        one
        for one in sigstore.signers(lines)
        if one.hint == bundle.hint and sealed.namespace in (one.namespaces or (sealed.namespace,))
    ]
    if not known:
        raise fail(
            Reason.WRONG_SIGNER,
            f"the key of this signature of cosign is nobody's in `{allowed}`, or not for "
            f"`{sealed.namespace}`",
            where=Location(file=sealed.file),
            hint="put the key into it if you trust its owner: `NAME KEY`, KEY by "
            "`ssh-keygen -i -m PKCS8 -f cosign.pub`",
        )
    _verify(sealed, known[0])
    now = time.time()
    good = [one for one in known if one.after <= now and not 0 < one.until <= now]
    if good:
        return SealHolder(signer=good[0].name, key=good[0].fingerprint, until=good[0].until)
    late = any(one.after > now for one in known)
    raise fail(
        Reason.CLOCK_SKEW if late else Reason.KEY_EXPIRED,
        f"the key of this signature is {'not good yet' if late else 'no longer good'}, by "
        f"`{allowed}`",
        where=Location(file=sealed.file),
        hint="the clock of this machine may be wrong"
        if late
        else "whoever answers for it signs it again, with a newer key",
    )


def _verify(sealed: Sealed, signer: CosignSigner) -> None:
    known = _options("verify-blob")
    with tempfile.TemporaryDirectory(prefix="stackproof-verify-") as folder:
        named = {"text": sealed.text, "bundle": sealed.seal, "key.pub": signer.pem.encode(),
                 "authorities": NO_AUTHORITIES.encode()}  # fmt: skip
        paths = {name: str(Path(folder, name)) for name in named}
        for name, content in named.items():
            Path(paths[name]).write_bytes(content)
        done = _cosign(
            "verify-blob", "--key", paths["key.pub"], "--bundle", paths["bundle"],
            "--insecure-ignore-tlog=true", _TRUSTED, paths["authorities"], *known,
            paths["text"],
        )  # fmt: skip
    if done.returncode:
        raise _broken(sealed.file, done)


def _options(action: str) -> tuple[str, ...]:
    """Return the options by which this version of cosign leaves the network alone.

    Raises `StackproofError` (TOOL_MISSING) for one that knows no bundles of this form.
    """
    text = _cosign(action, "--help").stdout.decode(errors="replace")
    if not any(one in text for one in (_NEW_FORMAT, _CONFIGURED, _TRUSTED)):
        raise fail(
            Reason.TOOL_MISSING,
            f"this `{TOOL}` does not know the bundles that are made today",
            hint=f"install {TOOL} 2.4 or newer",
        )
    # Since 3.0 bundles have no other form, and addresses of logs come from a configuration that it
    # would fetch.
    wanted = {_NEW_FORMAT: "true", _CONFIGURED: "false"}
    return tuple(f"{one}={value}" for one, value in wanted.items() if one in text)


def _cosign(*words: str, env: EnvPatch | None = None) -> Completed:
    try:
        return run.run(Command(argv=(TOOL, *words), env=env or EnvPatch(), timeout_s=_TIMEOUT_S))
    except StackproofError as error:
        if error.reason is not Reason.TOOL_MISSING:
            raise
        raise fail(
            Reason.TOOL_MISSING,
            f"`{TOOL}` is not installed, so that its signatures can neither be made nor looked at",
            hint=f"install {TOOL} 2.4 or newer, or have the image signed with a key of ssh",
        ) from None


def _said(done: Completed) -> str | None:
    """Return the reason why cosign failed, once; it says it twice."""
    text = done.stderr.decode(errors="replace")
    lines = [line.removeprefix("Error: ") for line in text.splitlines() if line[:7] == "Error: "]
    return "\n".join(lines) or run.how_it_ended(done)


def _broken(file: str, done: Completed | None) -> StackproofError:
    return fail(
        Reason.SIGNATURE_INVALID,
        "a signature of cosign is not one of what is beside it",
        detail=_said(done) if done is not None else None,
        where=Location(file=file),
        hint="that was changed after it was signed, or the signature is damaged",
    )
