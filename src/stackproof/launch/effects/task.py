"""The start of every task of a scheduler's launcher: mounts, CPU and variables, then the program.

    python -I -S task.py run [--rank NAME] [--cpus C,C…] [--memory N,N…] [--mounts LIST]
        [--each NAME V,V…] [--unset NAME] [NAME=VALUE…] -- PROG…
    python -I -S task.py look

`run`: the images of LIST (`mount_exec`) are mounted once per node and user, for all tasks; task
number r, by the variable that `--rank` names (of Slurm, where it is left out), runs on the r-th of
the CPUs only, takes memory of the r-th of the NUMA nodes only, and has NAME set to the r-th of the
values, unless that is empty; one CPU or NUMA node is for every task. The variables are set and
unset for the program alone, so that they change neither the launcher nor this file. A failure is
one line, `error: [reason] message`, as `mount_exec` has it.

`look` prints a line of JSON about this node: `node`, its name in Slurm, `machine`, the boot of its
kernel, `cpus`, the CPUs that this task may run on, one for each core, `topology`, its inside
(`site.sysfs`), and `gpus`, what this task is told to use of its GPUs by the variables for that.

Imports as little as `mount_exec`, for the same reason: it is part of every launch.
"""

from __future__ import annotations

import json
import os
import sys

if __name__ == "__main__":  # run by its path, with `-I`: the package is around this file
    _here = os.path.abspath(__file__)
    for _ in range(4):  # effects, the room, the package
        _here = os.path.dirname(_here)
    sys.path.insert(0, _here)

from stackproof.core.effects import libc
from stackproof.core.effects.libc import MountFailure
from stackproof.launch.effects import leftovers
from stackproof.mount.effects import mount_exec
from stackproof.site.effects import node_files

_TOPOLOGY = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"
_USAGE = 2


class TaskRequest:
    """The words of `run`, read."""

    __slots__ = ("cpus", "each", "memory", "mounts", "program", "rank", "settings", "unset")

    def __init__(self) -> None:
        self.rank = "SLURM_PROCID"
        self.cpus: list[int] = []
        self.memory: list[int] = []
        self.mounts = ""
        self.each: dict[str, list[str]] = {}
        self.unset: list[str] = []
        self.settings: dict[str, str] = {}
        self.program: list[str] = []


def parse_request(words: list[str]) -> TaskRequest:
    """Return the request in the words after `run`; raises `MountFailure` (usage)."""
    wish, rest = TaskRequest(), list(words)
    while rest and rest[0] != "--":
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if word == "--each" and len(rest) > 1:
            key, given = rest.pop(0), rest.pop(0)
            wish.each[key] = given.split(",")
        elif word in {"--cpus", "--memory", "--mounts", "--rank", "--unset"} and rest:
            given = rest.pop(0)
            if word in {"--cpus", "--memory"}:
                setattr(wish, word[2:], [int(number) for number in given.split(",")])
            elif word in {"--mounts", "--rank"}:
                setattr(wish, word[2:], given)
            else:
                wish.unset.append(given)
        elif equals and name and not word.startswith("-"):
            wish.settings[name] = value
        else:
            raise MountFailure("usage", f"not a word for a task: `{word}`", exit_code=_USAGE)
    wish.program = rest[1:]
    if not wish.program:
        raise MountFailure("usage", "say `--` and a program", exit_code=_USAGE)
    return wish


def run(wish: TaskRequest) -> int:
    """Become the program of a wish; raises `MountFailure`."""
    environment = dict(os.environ)
    if wish.mounts:
        mounted = mount_exec.attach(mount_exec.parse_wire(wish.mounts), join=True, own_shm=True)
        environment = mount_exec.with_marker(mounted, environment)
    rank = environment.get(wish.rank, "")
    if wish.cpus:
        bind_cpus({_of(wish.cpus, rank)})
    if wish.memory:
        bind_memory(_of(wish.memory, rank))
    for name in wish.unset:
        environment.pop(name, None)
    for name, values in wish.each.items():
        if value := values[_number(rank, len(values))]:
            environment[name] = value
    mount_exec.become(wish.program, {**environment, **wish.settings})


def bind_cpus(cpus: set[int]) -> None:
    """Keep this process, and what it becomes, on CPUs; raises `MountFailure` (wrong-placement).

    After the mounts, so that a process which serves them is not kept there as well.
    """
    try:
        os.sched_setaffinity(0, cpus)
    except OSError as error:
        # The words of taskset(1), which pins the ranks of other launchers.
        raise MountFailure(
            "wrong-placement",
            f"failed to set pid {os.getpid()}'s affinity to CPU "
            f"{','.join(map(str, sorted(cpus)))}: {error.strerror}",
        ) from None


def bind_memory(node: int) -> None:
    """Take memory of a NUMA node only, as numactl(8) `--membind`; raises `MountFailure`.

    What becomes of this process keeps that: set_mempolicy(2).
    """
    try:
        libc.bind_memory(node)
    except OSError as error:
        raise MountFailure(
            "wrong-placement", f"cannot bind memory to NUMA node {node}: {error.strerror}"
        ) from None


def _of(numbers: list[int], rank: str) -> int:
    """Return the number that is for a task: its own of several, or the one for all."""
    return numbers[_number(rank, len(numbers)) if len(numbers) > 1 else 0]


def _number(rank: str, count: int) -> int:
    """Return the number of this task; raises `MountFailure` where it is none of so many."""
    if not rank.isdecimal() or int(rank) >= count:
        raise MountFailure("usage", f"there is nothing for task `{rank}`", exit_code=_USAGE)
    return int(rank)


def print_node() -> int:
    """Print what this node is, and clear what killed ranks of this user left on it."""
    leftovers.sweep()
    cores: dict[str, int] = {}
    for cpu in sorted(os.sched_getaffinity(0)):
        try:
            with open(_TOPOLOGY.format(cpu), encoding="ascii") as stream:
                core = stream.read()
        except OSError:  # not told: every CPU counts as a core
            core = str(cpu)
        cores.setdefault(core, cpu)
    name = os.environ.get("SLURMD_NODENAME") or os.uname().nodename
    # One write, so that lines of several nodes do not mix.
    reply = {
        "node": name,
        "cpus": list(cores.values()),
        "machine": _boot(),
        "topology": node_files.gather(),
        "gpus": {key: os.environ[key] for key in node_files.VISIBLE if key in os.environ},
    }
    os.write(1, (json.dumps(reply) + "\n").encode())
    return 0


def _boot() -> str:
    """Return the id of this boot of the kernel (random(4)); nodes of one machine share it."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as stream:
            return stream.read().strip()
    except OSError:
        return ""


def main(words: list[str]) -> int:
    """Do what the module's docstring says."""
    try:
        if words == ["look"]:
            return print_node()
        return run(parse_request(words[1:] if words[:1] == ["run"] else words))
    except MountFailure as failure:
        sys.stderr.write(f"error: [{failure.reason}] {failure.message}\n")
        if failure.hint:
            sys.stderr.write(f"hint: {failure.hint}\n")
        return failure.exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
