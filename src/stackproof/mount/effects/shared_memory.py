"""A /dev/shm of its own for the ranks of one launch on one node.

What ranks that are killed leave there goes with the last of them. It is for those alone that share
one mount namespace: ranks in several would not see each other's memory.

Imports nothing but `libc`: see `mount_exec`.
"""

from __future__ import annotations

from stackproof.core.effects import libc

PLACE = "/dev/shm"  # noqa: S108 - it is covered, in a namespace
# As fast as the machine's: huge pages and memory policies are options of a mount, and so are sizes.
_KEPT = ("size=", "nr_blocks=", "nr_inodes=", "huge=", "mpol=", "noswap")


def options_of(mounts: str, place: str = PLACE) -> str | None:
    """Return options for a file system like the one at a place, by the text of mountinfo (proc(5)).

    None where no tmpfs is mounted there.
    """
    result = None
    for line in mounts.splitlines():
        fields, _, rest = line.partition(" - ")
        kind, _, last = rest.partition(" ")
        if fields.split(" ")[4:5] == [place]:
            words = last.rpartition(" ")[2].split(",")
            kept = [word for word in words if word.startswith(_KEPT)]
            result = ",".join(["mode=1777", *kept]) if kind == "tmpfs" else None
    return result


def cover() -> str:
    """Put an empty /dev/shm over the machine's, in this mount namespace.

    Returns why that cannot be, in which case ranks have the machine's, else nothing.
    """
    try:
        with open("/proc/self/mountinfo", encoding="ascii", errors="replace") as stream:
            options = options_of(stream.read())
        if options is None:
            return f"no tmpfs is mounted at {PLACE}"
        libc.mount("stackproof", PLACE, "tmpfs", libc.MS_NOSUID | libc.MS_NODEV, options)
    except OSError as error:
        return str(error)
    return ""
