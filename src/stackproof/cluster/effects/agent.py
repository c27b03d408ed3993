"""Start a command on a node of a cluster, called by MPI launchers in the place of ssh.

    python -I -S agent.py STATE [OPTION…] [USER@]HOST COMMAND…

STATE is the cluster's state file; the rest is what a launcher gives ssh. Like ssh it joins the
words of the command by blanks and lets the shell of the node run them. Unlike ssh it keeps the
caller's environment, but for TMPDIR, which is the node's own /tmp. A node that is not known or has
died is a message and exit code 255, as with ssh.

When STACKPROOF_MOUNTS (`IMAGE:MOUNT[,IMAGE:MOUNT]`) is set, the images are mounted on the node
first, once for everything that the command starts, by `mount/effects/mount_exec.py`.

It runs on the head, since the state file's `head_pid` are pids of the head's pid namespace. The
file imports nothing but the standard library, and little of that: it is part of each launch.
"""

from __future__ import annotations

import json
import os
import sys

MOUNTS = "STACKPROOF_MOUNTS"
UNREACHABLE = 255

# Options of ssh(1) that take a value as the next word.
_WITH_VALUE = frozenset("BbcDEeFIiJLlmOoPpQRSWw")


class UnreachableError(Exception):
    """Why nothing can be started on a node."""


def split(words: list[str]) -> tuple[str, str]:
    """Return the host and the command line of an ssh call; raises `UnreachableError`."""
    rest = list(words)
    while rest and rest[0].startswith("-") and rest[0] != "--":
        option = rest.pop(0)
        # `-p 22` has its value in the next word, `-p22` and `-oKey=value` have it in this one.
        if option[-1] in _WITH_VALUE and not any(letter in _WITH_VALUE for letter in option[1:-1]):
            del rest[:1]
    if rest[:1] == ["--"]:
        del rest[0]
    if not rest:
        raise UnreachableError("say a host and a command")
    host = rest.pop(0).rpartition("@")[2]
    if not rest:
        raise UnreachableError("say a command; there are no sessions without one")
    return host, " ".join(rest)


def started(pid: int) -> int:
    """Return the start time of a living process in clock ticks since boot, 0 if there is none.

    One that has ended and that nobody has waited for yet (a zombie) does not live.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as stream:
            # The name in parentheses may hold anything, so count from its end.
            fields = stream.read().rpartition(b")")[2].split()
        return 0 if fields[0] in {b"Z", b"X"} else int(fields[19])
    except (OSError, IndexError):
        return 0


def argv_for(
    state: dict[str, object], host: str, command: str, environment: dict[str, str]
) -> list[str]:
    """Return the command line that runs `command` on a node; raises `UnreachableError`."""
    nodes: list[dict[str, object]] = state["nodes"]  # type: ignore[assignment]
    for node in nodes:
        if host in {node["name"], node["address"]}:
            break
    else:
        known = ", ".join(str(node["name"]) for node in nodes)
        raise UnreachableError(f"no node `{host}`; the cluster has {known}")
    pid = int(str(node["head_pid"]))
    if started(pid) != node["started"]:
        raise UnreachableError(
            f"node `{host}` is not running, or this is not the head of its cluster"
        )
    mounts = environment.get(MOUNTS)
    program = ["sh", "-c", command]
    if mounts:
        package = os.path.abspath(__file__).removesuffix("cluster/effects/agent.py")
        worker = f"{package}mount/effects/mount_exec.py"
        program = [sys.executable, "-I", "-S", worker, "--own-shm", mounts, "--", *program]
    return [
        "nsenter", "--target", str(pid), "--mount", "--uts", "--ipc", "--net", "--pid",
        "--", *program,
    ]  # fmt: skip


def main(words: list[str]) -> int:
    """Do what the module's docstring says; returns only when that fails."""
    environment = {**os.environ, "TMPDIR": "/tmp"}  # noqa: S108 - the node's own
    # A launcher that was started with an empty PATH must still find nsenter.
    environment.setdefault("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
    host = "?"
    try:
        host, command = split(words[1:])
        with open(words[0], "rb") as stream:
            state = json.load(stream)
        argv = argv_for(state, host, command, environment)
        os.execvpe(argv[0], argv, environment)  # noqa: S606 - argv of the launcher, no shell
    except UnreachableError as error:
        sys.stderr.write(f"stackproof agent: {error}\n")
    except (OSError, ValueError, IndexError) as error:
        sys.stderr.write(f"stackproof agent: cannot reach `{host}`: {error}\n")
    return UNREACHABLE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
