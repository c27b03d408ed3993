"""Nouns of Slurm on a cluster of one machine: what is wanted of it, and what was found.

    user    = name ":" number
    plug-in = path [ "=" arguments ]
    setting = key "=" value

Arguments of a plug-in are separated by blanks, as in `plugstack.conf`; a setting is a line of
`slurm.conf`. Nothing here touches the machine; `stackproof.cluster.effects.slurm` does.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from typing import TypeVar

from stackproof.cluster.options import SlurmOptions
from stackproof.core.errors import Problem, Reason, StackproofError, fail
from stackproof.core.value import Value

_Value = TypeVar("_Value")

SLURM_CONF = "/etc/slurm/slurm.conf"
"""Where the configuration lies inside a cluster; commands that are elsewhere read `SLURM_CONF`."""

SPOOL = "/var/spool"
"""A folder that every machine has, and that a cluster has its own of, in memory."""

HOMES = f"{SPOOL}/users"
MUNGE_SOCKET = f"{SPOOL}/munge/munge.socket.2"
PLUGINS = f"{SPOOL}/plug-ins"
MOUNT_POINTS = ("/user-environment", "/user-tools")
"""What images are built for, and stackproof-mount(8) permits without a `mount.conf`."""

PACKAGES = (
    "slurmctld", "slurmd", "slurm-client", "munge", "libpmi2-0", "libpmix2", "libpmix-dev",
    "libslurm-dev", "gcc", "meson", "ninja-build", "squashfs-tools",
)  # fmt: skip
"""All packages of Debian and Ubuntu for a cluster with Slurm, the plug-in for images as well."""

CONTROLLER_SPOOL = f"{SPOOL}/slurm"
NODE_SPOOL = f"{SPOOL}/slurmd"
CONTROLLER_PORT, NODE_PORT = 6817, 6818

_USER_NAME = re.compile(r"[a-z_][a-z0-9_-]{0,30}")
_SETTING = re.compile(r"[A-Za-z][A-Za-z0-9]*=[^\n\r#]*")
_MAX_UID = 2_000_000_000
_MAX_CPUS = 256


class User(Value):
    """Somebody who may run commands in a cluster."""

    name: str
    uid: int
    gid: int
    home: str


class SpankPlugin(Value):
    """A plug-in of Slurm's for job launch: the absolute path of its file, and its arguments.

    One that is `copied` is loaded from inside of the cluster, whose users need not be able to read
    the file of the machine.
    """

    path: str
    arguments: tuple[str, ...] = ()
    copied: bool = False

    @property
    def inside(self) -> str:
        """Return the path from which the cluster loads it."""
        return f"{PLUGINS}/{os.path.basename(self.path)}" if self.copied else self.path


class SlurmSpec(Value):
    """What is wanted of Slurm on a cluster.

    `users` exist in the cluster only. `spank` are plug-ins that every job loads, after those of the
    file `plugstack`. Each node claims `cpus` CPUs, however few the machine has. With `pin` node
    number i runs on one core, number i-1 of the machine's in turn. `settings` are further lines
    `KEY=VALUE` of slurm.conf; they win over this package's own.
    """

    users: tuple[User, ...] = ()
    spank: tuple[SpankPlugin, ...] = ()
    plugstack: str | None = None
    cpus: int = 4
    pin: bool = True
    settings: tuple[str, ...] = ()


class SlurmFacts(Value):
    """Slurm as it runs on a cluster: its release, what `srun --mpi` takes, daemons that died."""

    version: str
    mpi: tuple[str, ...] = ()
    dead: tuple[str, ...] = ()


class NodeState(Value):
    """A node as Slurm's controller sees it: its state in Slurm's words, and the reason if any."""

    name: str
    state: str
    reason: str | None = None


def parse_user(text: str) -> User:
    """Return the user that `NAME:UID` stands for; raises `StackproofError` (INVALID_VALUE)."""
    name, colon, number = text.partition(":")
    if (
        not (_USER_NAME.fullmatch(name) and colon and number.isascii() and number.isdecimal())
        or not 1 <= int(number) <= _MAX_UID
    ):
        raise fail(
            Reason.INVALID_VALUE,
            f"`{text}` is not a user of a cluster",
            hint="write a name and a number, as in `alice:2001`",
        )
    return User(name=name, uid=int(number), gid=int(number), home=f"{HOMES}/{name}")


def parse_spank(text: str) -> SpankPlugin:
    """Return the plug-in that `PATH[=ARGUMENTS]` stands for.

    Raises `StackproofError` (INVALID_VALUE) for a path that is not absolute or that
    plugstack.conf could not hold.
    """
    path, _, arguments = text.partition("=")
    if not os.path.isabs(path) or any(letter.isspace() or letter in "#\\" for letter in path):
        raise fail(
            Reason.INVALID_VALUE,
            f"`{path}` is not the path of a SPANK plug-in",
            hint="write the whole path of its file, without blanks, as in `/usr/lib/x.so=a b`",
        )
    return SpankPlugin(path=path, arguments=tuple(arguments.split()))


def parse_count(text: str, what: str, possible: str) -> int:
    """Return a number of things; raises `StackproofError` (INVALID_VALUE) for what is none."""
    if not (text.isascii() and text.isdecimal()):
        raise fail(
            Reason.INVALID_VALUE, f"`{text}` is not a number of {what}", hint=f"choose {possible}"
        )
    return int(text)


def slurm_spec(options: SlurmOptions) -> SlurmSpec | None:
    """Return what is wanted of Slurm, None without it; raises `StackproofError` for every slip."""
    if not options.wanted:
        if given := options.given():
            raise fail(Reason.USAGE, f"{', '.join(given)} means nothing without --slurm")
        return None
    wrong: list[Problem] = []
    users = _parsed(parse_user, options.users, wrong)
    spank = _parsed(parse_spank, options.spank, wrong)
    counts = (options.cpus,) if options.cpus else ()
    cpus = _parsed(lambda text: parse_count(text, "CPUs", "1 to 256"), counts, wrong)
    if wrong:
        raise StackproofError(*wrong)
    return SlurmSpec(
        users=users,
        spank=spank,
        plugstack=None if options.plugstack is None else os.path.abspath(options.plugstack),
        cpus=cpus[0] if cpus else SlurmSpec().cpus,
        pin=not options.no_pin,
        settings=options.settings,
    )


def _parsed(
    parse: Callable[[str], _Value], texts: Sequence[str], wrong: list[Problem]
) -> tuple[_Value, ...]:
    """Return what words stand for; what is wrong with them is added to `wrong`."""
    found: list[_Value] = []
    for text in texts:
        try:
            found.append(parse(text))
        except StackproofError as error:
            wrong += error.problems
    return tuple(found)


def problems(spec: SlurmSpec) -> tuple[Problem, ...]:
    """Return everything that is wrong with what is wanted of Slurm."""
    messages = [
        f"two users have the {what} `{value}`"
        for what, values in (
            ("name", [user.name for user in spec.users]),
            ("number", [str(user.uid) for user in spec.users]),
        )
        for value in sorted({value for value in values if values.count(value) > 1})
    ]
    if not 1 <= spec.cpus <= _MAX_CPUS:
        messages.append(f"a node cannot claim {spec.cpus} CPUs (1 to {_MAX_CPUS} are possible)")
    messages += [
        f"`{line}` is not a line of slurm.conf such as `KillWait=5`"
        for line in spec.settings
        if not _SETTING.fullmatch(line)
    ]
    return tuple(Problem(reason=Reason.INVALID_VALUE, message=message) for message in messages)


def up_words(spec: SlurmSpec) -> tuple[str, ...]:
    """Return the words of `stackproof cluster up` that ask for this Slurm."""
    words = ["--slurm"]
    words += [f"--user {user.name}:{user.uid}" for user in spec.users]
    words += [f"--plugstack {spec.plugstack}"] if spec.plugstack else []
    for plugin in spec.spank:
        if plugin.copied:
            continue
        arguments = f"={' '.join(plugin.arguments)}" if plugin.arguments else ""
        words.append(f"--spank '{plugin.path}{arguments}'")
    words += [f"--cpus {spec.cpus}"] if spec.cpus != SlurmSpec().cpus else []
    words += [] if spec.pin else ["--no-pin"]
    words += [f"--set '{line}'" for line in spec.settings]
    return tuple(words)
