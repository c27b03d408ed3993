"""What every task of a Slurm step starts as: mounts, CPU and variables, then the program.

    python -I -S slurm_task.py run [--cpus C,C…] [--mounts LIST] [--each NAME V,V…] [--unset NAME]
        [NAME=VALUE…] -- PROG…
    python -I -S slurm_task.py look

`run`: the images of LIST (`mount_exec`) are mounted once per node and user, for all tasks; task
number r of the step runs on the r-th of the CPUs only, and has NAME set to the r-th of the values,
unless that is empty; the variables are set and unset for the
program alone, so that they change neither srun nor this file. A failure is one line, `error:
[reason] message`, as `mount_exec` has it.

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

from stackproof.core.effects.libc import MountFailure
from stackproof.launch.effects import leftovers
from stackproof.mount.effects import mount_exec
from stackproof.site.effects import node_files

_TOPOLOGY = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"
_USAGE = 2


class TaskRequest:
    """The words of `run`, read."""

    __slots__ = ("cpus", "each", "mounts", "program", "settings", "unset")

    def __init__(self) -> None:
        self.cpus: list[int] = []
        self.mounts = ""
        self.each: dict[str, list[str]] = {}
        self.unset: list[str] = []
        self.settings: dict[str, str] = {}
        self.program: list[str] = []


def read(words: list[str]) -> TaskRequest:
    """Return what the words after `run` ask for; raises `MountFailure` (usage)."""
    wish, rest = TaskRequest(), list(words)
    while rest and rest[0] != "--":
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if word == "--each" and len(rest) > 1:
            key, given = rest.pop(0), rest.pop(0)
            wish.each[key] = given.split(",")
        elif word in {"--cpus", "--mounts", "--unset"} and rest:
            given = rest.pop(0)
            if word == "--cpus":
                wish.cpus = [int(number) for number in given.split(",")]
            elif word == "--mounts":
                wish.mounts = given
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
    if wish.cpus:
        _pin(wish.cpus, environment.get("SLURM_PROCID", ""))
    rank = environment.get("SLURM_PROCID", "")
    for name in wish.unset:
        environment.pop(name, None)
    for name, values in wish.each.items():
        if value := values[_number(rank, len(values))]:
            environment[name] = value
    mount_exec.become(wish.program, {**environment, **wish.settings})


def _pin(cpus: list[int], rank: str) -> None:
    """Keep this process, and what it becomes, on the CPU of its rank.

    After the mounts, so that a process which serves them is not kept there as well.
    """
    cpu = cpus[_number(rank, len(cpus))]
    try:
        os.sched_setaffinity(0, {cpu})
    except OSError as error:
        # The words of taskset(1), which pins the ranks of other launchers.
        raise MountFailure(
            "wrong-placement",
            f"failed to set pid {os.getpid()}'s affinity to CPU {cpu}: {error.strerror}",
        ) from None


def _number(rank: str, count: int) -> int:
    """Return the number of this task; raises `MountFailure` where it is none of so many."""
    if not rank.isdecimal() or int(rank) >= count:
        raise MountFailure("usage", f"there is nothing for task `{rank}`", exit_code=_USAGE)
    return int(rank)


def look() -> int:
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
    told = {
        "node": name,
        "cpus": list(cores.values()),
        "machine": _boot(),
        "topology": node_files.gather(),
        "gpus": {key: os.environ[key] for key in node_files.VISIBLE if key in os.environ},
    }
    os.write(1, (json.dumps(told) + "\n").encode())
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
            return look()
        return run(read(words[1:] if words[:1] == ["run"] else words))
    except MountFailure as failure:
        sys.stderr.write(f"error: [{failure.reason}] {failure.message}\n")
        if failure.hint:
            sys.stderr.write(f"hint: {failure.hint}\n")
        return failure.exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
