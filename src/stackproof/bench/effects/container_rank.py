"""What a rank starts as whose program is in a container of podman: it hands on what ranks are told.

    python -I -S container_rank.py [--unset NAME]… podman run OPTION… IMAGE PROGRAM…

A launcher tells a rank who it is by an open file (PMI_FD) or a folder (PMIX_SERVER_TMPDIR). The
file becomes number 3, the first one that podman keeps; the folder is bound. Variables that are
unset are those of the launcher that name folders outside of the container. It imports next to
nothing: it is part of every launch.
"""

from __future__ import annotations

import os
import sys

_FIRST = 3
_FOLDERS = ("PMIX_SERVER_TMPDIR", "PMIX_SYSTEM_TMPDIR")


def words(environment: dict[str, str]) -> list[str]:
    """Return the options that a rank's own environment asks for."""
    found = ["--preserve-fds=1"] if environment.get("PMI_FD", "").isdecimal() else []
    places = dict.fromkeys(environment[name] for name in _FOLDERS if environment.get(name))
    return found + [f"--volume={place}:{place}" for place in places]


def main(argv: list[str]) -> int:
    """Become the command, with those options behind its second word."""
    environment = dict(os.environ)
    while argv[:1] == ["--unset"]:
        environment.pop(argv[1], None)
        argv = argv[2:]
    more = words(environment)
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
