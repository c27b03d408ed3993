"""What a rank starts as whose program is in a container of podman: it hands on what ranks are told.

    python -I -S container_rank.py [--own-group] [--unset NAME]… podman run OPTION… IMAGE PROGRAM…

A launcher tells a rank who it is by an open file (PMI_FD) or a folder (PMIX_SERVER_TMPDIR). The
file becomes number 3, the first one that podman keeps; the folder is bound. Variables that are
unset are those of the launcher that name folders outside of the container. It imports next to
nothing: it is part of every launch.

With `--own-group` a container's control group is made beside other processes, where the rank is.
podman puts all containers of a machine into one group (`libpod_parent`, libpod/options.go), which
gets of a busy CPU what a single rank without a container gets, for all of its ranks together.
"""

from __future__ import annotations

import os
import sys

_FIRST = 3
_FOLDERS = ("PMIX_SERVER_TMPDIR", "PMIX_SYSTEM_TMPDIR")


_GROUPS = "/proc/self/cgroup"


def words(environment: dict[str, str]) -> list[str]:
    """Return the options that a rank's own environment asks for."""
    found = ["--preserve-fds=1"] if environment.get("PMI_FD", "").isdecimal() else []
    places = dict.fromkeys(environment[name] for name in _FOLDERS if environment.get(name))
    return found + [f"--volume={place}:{place}" for place in places]


def beside(groups: str) -> list[str]:
    """Return the option for a rank whose control groups (/proc/PID/cgroup) are these.

    Only the root has room for a group beside its processes, in both versions of cgroups(7): a rank
    that its scheduler has put elsewhere keeps what podman does.
    """
    lines = [line.split(":", 2) for line in groups.splitlines()]
    cpu = [place for _, names, place in lines if "cpu" in names.split(",")]
    unified = [place for _, names, place in lines if not names]
    return ["--cgroup-parent=/"] if (cpu or unified)[:1] == ["/"] else []


def _own_groups() -> str:
    try:
        with open(_GROUPS, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""


def main(argv: list[str]) -> int:
    """Become the command, with those options behind its second word."""
    environment = dict(os.environ)
    more: list[str] = []
    if argv[:1] == ["--own-group"]:
        more += beside(_own_groups())
        argv = argv[1:]
    while argv[:1] == ["--unset"]:
        environment.pop(argv[1], None)
        argv = argv[2:]
    more += words(environment)
    told = environment.get("PMI_FD", "")
    if told.isdecimal():
        os.dup2(int(told), _FIRST)  # inheritable, unlike the original
        environment["PMI_FD"] = str(_FIRST)
    try:
        os.execvpe(argv[0], [*argv[:2], *more, *argv[2:]], environment)  # noqa: S606 - no shell
    except OSError as error:
        sys.stderr.write(f"error: [command-not-found] {argv[0]}: {error.strerror}\n")
        return 127


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
