"""Signatures by `ssh-keygen -Y`, which every login node has: made with a key, and asked about.

What is signed, and under which namespace, is the caller's; nothing here needs a network.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from stackproof.core.command import Command, Completed, EnvPatch
from stackproof.core.effects import run
from stackproof.core.errors import Location, Reason, StackproofError, fail

TOOL = "ssh-keygen"
_TIMEOUT_S = 60.0


def require_key(key: str) -> None:
    """Raise `StackproofError` (FILE_MISSING) for a key that is not there."""
    if not os.path.isfile(key):
        raise fail(
            Reason.FILE_MISSING,
            f"`{key}` is no file, so nothing can be signed with it",
            hint=f"name a key of ssh, or make one: {TOOL} -t ed25519 -f {key}",
            where=Location(file=key),
        )


def sign(path: Path, key: str, namespace: str) -> str | None:
    """Write `PATH.sig`, with a private key or a public one of an agent; return what went wrong.

    A passphrase is asked for on the terminal. Raises `StackproofError`: FILE_MISSING for the key,
    TOOL_MISSING.
    """
    require_key(key)
    argv = (TOOL, "-Y", "sign", "-q", "-f", os.path.abspath(key), "-n", namespace, os.fspath(path))
    try:
        # Not by the door for programs: a key may ask for its passphrase on the terminal.
        done = subprocess.run(argv, check=False, stderr=subprocess.PIPE, text=True)  # noqa: S603 - ssh-keygen with paths as words of their own
    except FileNotFoundError:
        raise _no_tool() from None
    return done.stderr.strip() if done.returncode else None


def ask(path: Path, *words: str) -> Completed:
    """Run `ssh-keygen -Y WORDS` on a text, which it reads from standard input.

    Raises `StackproofError` (TOOL_MISSING).
    """
    program = ("sh", "-c", 'exec "$@" < "$0"', os.fspath(path), TOOL, "-Y", *words)
    # Times in a file of allowed signers are local ones.
    zone = {"TZ": os.environ["TZ"]} if "TZ" in os.environ else {}
    done = run.run(Command(argv=program, timeout_s=_TIMEOUT_S, env=EnvPatch(set=zone)))
    if done.returncode == 127:
        raise _no_tool()
    return done


def _no_tool() -> StackproofError:
    return fail(
        Reason.TOOL_MISSING,
        f"`{TOOL}` is not installed, so that no signature can be made or looked at",
        hint="install the client of OpenSSH",
    )
