"""Run a command in a cluster in the place of this one: its terminal, streams, signals, exit code.

`stackproof.cluster.model.enter_argv` is for commands whose output is wanted. nsenter(1), which it
uses, passes no signal on; here this process stays the command's parent and does.
"""

from __future__ import annotations

import os
import pwd
import re
import signal
import sys

from stackproof.cluster.effects import node as cluster_node
from stackproof.cluster.effects import up as cluster_up
from stackproof.cluster.effects.agent import started
from stackproof.cluster.model import ClusterNode, ClusterState
from stackproof.cluster.slurm import SLURM_CONF, User
from stackproof.core import harmless
from stackproof.core.effects import files, libc, seccomp
from stackproof.core.errors import Reason, fail

_NOT_FOUND, _NOT_EXECUTABLE = 127, 126
_BY_KERNEL = 0x80  # SI_KERNEL: a terminal's signal, which the command has got as well
_PASSED_ON = (
    signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2,
)  # fmt: skip
# The user namespace first: it gives the right to join the others.
_NAMESPACES = ("user", "net", "uts", "ipc", "mnt")


def user(state: ClusterState, name: str) -> User:
    """Return a user of a cluster: one made for it, else one of this machine.

    Raises `StackproofError` (INVALID_VALUE) when nobody has that name.
    """
    made = state.spec.slurm.users if state.spec.slurm else ()
    for candidate in made:
        if candidate.name == name:
            return candidate
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        names = ", ".join(f"`{candidate.name}`" for candidate in made)
        raise fail(
            Reason.INVALID_VALUE,
            f"the cluster `{state.name}` has no user `{name}`",
            hint=f"it has {names} and this machine's users"
            if made
            else "make one with the cluster: stackproof cluster up --slurm --user NAME:UID",
        ) from None
    return User(name=name, uid=entry.pw_uid, gid=entry.pw_gid, home=entry.pw_dir)


def execute(
    state: ClusterState, node: str | None, argv: list[str], *, who: User | None, cwd: str
) -> int:
    """Run a command on a node (the head for None) and return its exit code, 128+N for signal N.

    The environment is kept. A `cwd` below /tmp, and files there that `argv` names, are shared with
    the cluster first. Raises `StackproofError` (NODE_UNREACHABLE, NOT_PERMITTED, FILE_MISSING for a
    `cwd` that is not there).
    """
    target = state.node(node)
    if started(target.pid) != target.started:
        raise fail(
            Reason.NODE_UNREACHABLE,
            f"`{target.name}` of the cluster `{state.name}` has died",
            hint=f"bring the cluster up again: stackproof cluster up --name {state.name}",
        )
    if who and state.rootless:
        raise fail(
            Reason.NOT_PERMITTED,
            f"a cluster in a user namespace has one user, who is not `{who.name}`",
            hint="bring the cluster up as root to have others in it",
        )
    hidden = tuple(path for path in (cwd, *_named(argv)) if not _sees(target.pid, path))
    if hidden:
        cluster_up.share(state, hidden)
    if not _sees(target.pid, cwd):
        raise fail(
            Reason.FILE_MISSING,
            f"the folder `{cwd}` is not to be seen on `{target.name}`",
            hint="go to another one",
        )
    environment = _environment(state, who)
    sys.stdout.flush()
    # Blocked before the child exists, so that no signal is lost and none ends this process alone.
    awaited = {signal.SIGCHLD, *_PASSED_ON}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
    try:
        descriptors = _open(target.pid, rootless=state.rootless)
        for name in ("user", "pid"):  # of its children, not of this process
            if name in descriptors:
                libc.setns(descriptors[name])
        child = os.fork()
        if child == 0:
            _become(target, descriptors, argv, who, cwd, environment)
        return _wait(child, awaited)
    except OSError as error:
        raise files.translate(error, f"/proc/{target.pid}/ns") from error
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _sees(pid: int, path: str) -> bool:
    return os.path.exists(f"/proc/{pid}/root{path}")


def _named(argv: list[str]) -> set[str]:
    """Return the files below /tmp that words name: `--image=/tmp/a.squashfs:/m` and the like."""
    pieces = {piece for word in argv for piece in re.split("[=,:]", word)}
    return {
        path for path in map(os.path.normpath, pieces)
        if path.startswith("/tmp/") and os.path.isfile(path)  # noqa: S108 - what is hidden inside
    }  # fmt: skip


def _environment(state: ClusterState, who: User | None) -> dict[str, str]:
    environment = dict(os.environ)
    # The head and the nodes have a /tmp of their own.
    environment["TMPDIR"] = "/tmp"  # noqa: S108 - the node's own
    if state.slurm:
        environment["SLURM_CONF"] = SLURM_CONF
    if who:
        environment |= {"HOME": who.home, "USER": who.name, "LOGNAME": who.name}
    return environment


def _open(pid: int, *, rootless: bool) -> dict[str, int]:
    names = [*_NAMESPACES, "pid"] if rootless else [*_NAMESPACES[1:], "pid"]
    return {
        name: os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC)  # kept until exec
        for name in names
    }


def _become(
    target: ClusterNode,
    descriptors: dict[str, int],
    argv: list[str],
    who: User | None,
    cwd: str,
    environment: dict[str, str],
) -> None:
    """Be the child: join the node, become the user, then the command. Never returns."""
    code = _NOT_EXECUTABLE
    try:
        cluster_node.pin(target.group, target.core)
        for name in _NAMESPACES[1:]:
            libc.setns(descriptors[name])
        os.chdir(cwd)
        if who:
            # What it typed into the terminal would be read, and run, by the shell of who calls.
            filtered = seccomp.without_typing(os.uname().machine)
            if filtered:
                seccomp.install(filtered)
            os.initgroups(who.name, who.gid)
            os.setgid(who.gid)
            os.setuid(who.uid)
        # A parent that is killed outright passes nothing on any more.
        libc.end_with_parent(signal.SIGTERM)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python ignores
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, set())
        os.execvpe(argv[0], argv, environment)  # noqa: S606 - what the user asked for, no shell
    except FileNotFoundError:
        code = _NOT_FOUND
        text = f"error: `{harmless.line(argv[0])}` is not there\n"
        os.write(2, text.encode(errors="replace"))
    except OSError as error:
        text = f"error: cannot run `{harmless.line(argv[0])}`: {error.strerror}\n"
        os.write(2, text.encode(errors="replace"))
    finally:
        os._exit(code)


def _wait(child: int, awaited: set[signal.Signals]) -> int:
    """Pass signals on until the child has ended; return its exit code."""
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            code = os.waitstatus_to_exitcode(status)
            return 128 - code if code < 0 else code
        received = signal.sigwaitinfo(awaited)
        if received.si_signo != signal.SIGCHLD and received.si_code != _BY_KERNEL:
            os.kill(child, received.si_signo)
