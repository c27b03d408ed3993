"""Mount the images of an arm: the words that do it, a trial before any arm, and its failure."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence

from stackproof.cluster import model as cluster_model
from stackproof.cluster.model import ClusterState
from stackproof.core import mountlist
from stackproof.core.command import Command, Completed, EnvPatch
from stackproof.core.effects import run
from stackproof.core.errors import Reason, StackproofError, fail
from stackproof.core.mountlist import MountRequest
from stackproof.mount.effects import mount_exec

_TRIAL_TIMEOUT_S = 60.0
# As `mount_exec` and the agents of a cluster say it.
_FAILURE = re.compile(r"^error: \[([a-z-]+)\] (.+)(?:\nhint: (.+))?", re.MULTILINE)
_OF_COMMANDS = frozenset({Reason.COMMAND_NOT_FOUND, Reason.USAGE})
_OF_MACHINES = frozenset({Reason.NO_FUSE, Reason.NO_USER_NAMESPACES, Reason.TOOL_MISSING})


def start_words(mounts: Sequence[MountRequest]) -> tuple[str, ...]:
    """Return the words before a command that mount images for it; none without images."""
    if not mounts:
        return ()
    words = (sys.executable, "-I", "-S", mount_exec.__file__, "--own-shm")
    return (*words, mountlist.render(mounts), "--")


def try_mounts(
    arms: Iterable[tuple[Sequence[MountRequest], EnvPatch]], state: ClusterState | None
) -> None:
    """Mount the images of every arm once, for a command that does nothing.

    `state` is the cluster whose head mounts them, None for this machine. Raises `StackproofError`
    for the first that cannot be mounted, with the reason of the mount.
    """
    tried = set()
    for mounts, env in arms:
        words = start_words(mounts)
        if not words or words in tried:
            continue
        tried.add(words)
        argv: tuple[str, ...] = (*words, "true")
        if state:
            argv = cluster_model.enter_argv(state, None, argv)
        command = Command(argv=argv, env=env, timeout_s=_TRIAL_TIMEOUT_S, cwd="/")
        done = run.run(command)
        refuse_unmounted(done)
        if done.returncode != 0 or done.timed_out:
            raise run.failure(command, done, log=None, reason=Reason.MOUNT_FAILED)


def refuse_unmounted(done: Completed) -> None:
    """Raise `StackproofError` where a command did not start because an image was not mounted."""
    if done.returncode != 0 and (error := _failure_of(done.stderr.decode(errors="replace"))):
        raise error


def _failure_of(text: str) -> StackproofError | None:
    for reason, message, hint in _FAILURE.findall(text):
        if reason not in set(Reason) or reason in _OF_COMMANDS:
            continue
        hints = [hint] if hint else []
        if reason in _OF_MACHINES:
            hints.append(
                "use a folder instead: `stackproof install IMAGE --to DIR`, and name DIR in the "
                "place of the image"
            )
        return fail(Reason(reason), f"cannot start an arm: {message}", hint="; or ".join(hints))
    return None
