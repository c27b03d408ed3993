"""Where clusters keep their state, and how one is found, looked at and removed.

Each user has one folder that nobody else can use, and in it one folder per cluster. A cluster's
processes are found by their command line and not by the state file, so that one whose file was
deleted, or whose start was killed at any point, is found as well.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import select
import signal
from collections.abc import Iterator
from pathlib import Path

from stackproof.cluster import model
from stackproof.cluster.effects import cgroups, rights, slurm
from stackproof.cluster.effects.agent import started
from stackproof.cluster.model import ClusterSpec, ClusterState
from stackproof.core import noun
from stackproof.core.effects import files
from stackproof.core.effects.foreign import folder as folders
from stackproof.core.errors import Reason, StackproofError, fail
from stackproof.core.value import replace

STATE_FILE = "state.json"
_SCRIPT = b"/cluster/effects/node.py"
_STOP_S = 10.0
_LOCK_S = 20.0
_PLACES = ("/tmp", "/var/tmp")  # noqa: S108 - made for this user alone, and checked
_HINT = "remove it, or set XDG_RUNTIME_DIR to a folder of your own"


def base() -> Path:
    """Return the folder that holds this user's clusters, checked.

    `$XDG_RUNTIME_DIR/stackproof` when that is this user's and programs may be started from it,
    else `/tmp/stackproof-UID`, or elsewhere where another user has taken that name.
    """
    runtime = folders.runtime_folder()
    if (
        runtime is not None
        and not any(letter.isspace() for letter in str(runtime))  # launchers split the agent's path
        and not os.statvfs(runtime).f_flag & os.ST_NOEXEC
    ):
        return own_folder(runtime / "stackproof")
    places = (*_PLACES, os.path.join(os.environ.get("HOME") or "/", ".cache"))
    own = [Path(place) / f"stackproof-{os.geteuid()}" for place in places]
    return folders.one_private_folder(own, hint=_HINT)


def own_folder(path: Path) -> Path:
    """Make a folder that only this user can use; raises `StackproofError` (NOT_PERMITTED)."""
    return folders.private_folder(path, hint=_HINT)


def checked_name(name: str) -> str:
    """Return a cluster's name if it can be one; raises `StackproofError` (INVALID_VALUE)."""
    wrong = model.problems(ClusterSpec(name=name))
    if wrong:
        raise StackproofError(*wrong)
    return name


@contextlib.contextmanager
def locked(name: str) -> Iterator[Path]:
    """Hold the lock of a cluster's name and give its folder.

    Raises `StackproofError` (NOT_PERMITTED, BUSY after 20 s of waiting).
    """
    folder = base() / checked_name(name)
    busy = fail(
        Reason.BUSY,
        f"another command is at work on the cluster `{name}`",
        hint="wait for it to end, or choose another --name",
    )
    lock = folder.with_name(f".{name}.lock")
    with files.locked(lock, seconds=_LOCK_S, mode=0o600, busy=busy):
        yield folder


def look(folder: Path) -> ClusterState | None:
    """Return the state in a folder with what is alive, None when the head is not."""
    try:
        text = (folder / STATE_FILE).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise files.translate(error, folder) from error
    try:
        state = noun.from_json(ClusterState, text, file=os.fspath(folder / STATE_FILE))
    except StackproofError:  # written by another version: its cluster is found by `_heads`
        return None
    if not _lives(state.head.pid, state.head.started):
        return None
    nodes = tuple(replace(node, alive=_lives(node.pid, node.started)) for node in state.nodes)
    delay = state.delay
    if delay and delay.pid:
        delay = replace(delay, alive=_lives(delay.pid, delay.started))
    return slurm.with_faults(replace(state, nodes=nodes, delay=delay))


def every() -> dict[str, ClusterState | None]:
    """Return this user's clusters by name; None for what is left of one that is not up.

    Raises `StackproofError` (NOT_PERMITTED).
    """
    here = base()
    with files.translate_errors(here):
        folders = sorted(path for path in here.iterdir() if path.is_dir())
    return {
        path.name: look(path) for path in folders if not model.problems(ClusterSpec(name=path.name))
    }


def _lives(pid: int, since: int) -> bool:
    return since != 0 and started(pid) == since


def remove(folder: Path) -> bool:
    """Kill the cluster of a folder, wait until all of it has gone, delete the folder.

    Returns whether there was anything. Raises `StackproofError` (NOT_PERMITTED, CLUSTER_FAILED).
    """
    heads = _heads(folder)
    for pid in heads:
        end_process(pid)
    cgroups.remove(folder)
    if not heads and not os.path.lexists(folder):
        return False
    files.remove(folder)
    return True


def _heads(folder: Path) -> list[int]:
    """Return the processes that are the head of this folder, and the unshare(1) that started it.

    Only processes of this user count. The script's folder is not compared, so that a cluster of
    another installation of this package is found too.
    """
    mark = os.fsencode(folder)
    return [pid for pid, owner, mine in _all_heads() if (owner, mine) == (os.geteuid(), mark)]


def _all_heads() -> Iterator[tuple[int, int, bytes]]:
    """Yield the heads of every user's clusters: pid, user and folder."""
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            owner = entry.stat().st_uid
            with open(f"{entry.path}/cmdline", "rb") as stream:
                words = stream.read().split(b"\0")
        except OSError:
            continue
        # … node.py head SOCKET FOLDER, and the zero byte at the end
        if len(words) > 5 and words[-4] == b"head" and words[-5].endswith(_SCRIPT):
            yield int(entry.name), owner, words[-2]


ROOT = "root"
"""The owner of clusters that others may use as well, by sudo."""


def list_of_others() -> dict[str, str]:
    """Return the clusters that other users brought up, with their owners; none for root.

    Their folders are the owners' alone, so the processes tell, where everybody may look at them.
    Where several have a cluster of a name, root's counts: it is the one that sudo gives.
    """
    mine = os.geteuid()
    if mine == 0:
        return {}
    owners: dict[str, str] = {}
    for _, owner, folder in sorted(_all_heads(), key=lambda head: -head[1]):
        name = os.path.basename(os.fsdecode(folder))
        if owner != mine and not model.problems(ClusterSpec(name=name)):
            owners[name] = ROOT if owner == 0 else _name_user(owner)
    return dict(sorted(owners.items()))


def _name_user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"


def describe_owner(name: str) -> str:
    """Return a sentence on the cluster of this name that somebody else has up, empty for none."""
    owner = list_of_others().get(name)
    return f"the cluster `{name}` that is up is {owner}'s, not yours" if owner else ""


def refuse_of_root(name: str, verb: str) -> None:
    """Raise `StackproofError` (NOT_PERMITTED) for a cluster that is up, but root's.

    `verb` is the one of `cluster` that the hint has.
    """
    if list_of_others().get(name) == ROOT:
        named = ("--name", name) if name != ClusterSpec().name else ()
        raise fail(
            Reason.NOT_PERMITTED,
            f"the cluster `{name}` is root's",
            hint=f"use it as root: {rights.as_root('cluster', verb, *named)}",
        )


def end_process(pid: int) -> None:
    """Kill a first process and wait until all that it stands for has ended.

    Raises `StackproofError` (NOT_PERMITTED, CLUSTER_FAILED).
    """
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        # Readable when it has ended; a first process ends after everything in its namespace.
        if not select.select([descriptor], [], [], _STOP_S)[0]:
            raise fail(
                Reason.CLUSTER_FAILED,
                f"process {pid} of the cluster does not end",
                hint="a process in it may hang on a file system that does not answer",
            )
    except ProcessLookupError:
        return
    except PermissionError as error:
        raise fail(Reason.NOT_PERMITTED, f"no right to end process {pid}") from error
    finally:
        os.close(descriptor)


def write(state: ClusterState) -> None:
    """Write the state file, whole or not at all; raises `StackproofError`."""
    files.write(os.path.join(state.folder, STATE_FILE), noun.to_json(state), mode=0o600)
