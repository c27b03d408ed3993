"""A program watched at each of its system calls, and by another user who looks into its folders.

    seen = watched(argv, cwd=place, env=env, place=place, victim=victim)
    assert seen.told == []

What a look afterwards cannot see: a set-uid bit that is gone again, a folder that somebody could enter
while it was filled, a victim's file that was only read. Strace tells the calls (`told_by`), of the
program and of all that it starts; the other user (`_LOOK`) goes through the place all the time. A moment
before each rename makes sure that they get to see what has its name for a short time only.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from stackproof.core.value import Value

STRANGER = 12345
TIMEOUT_S = 600
_CALLS = (
    "open,openat,openat2,creat,mkdir,mkdirat,mknod,mknodat,bind,chmod,fchmod,fchmodat,?fchmodat2,chown,"
    "lchown,fchown,fchownat,setxattr,lsetxattr,fsetxattr,rename,renameat,renameat2,link,linkat,symlink,"
    "symlinkat,unlink,unlinkat,rmdir,truncate,utimensat"
)
_BEFORE_RENAMES = "rename,renameat,renameat2:delay_enter=30000"
_LINE = re.compile(rb"(\w+)\((.*)\)\s+= (-?\d+)(?:<((?:\\x..)*)>)?")
_STRING = re.compile(rb'(?:(?:AT_FDCWD|\d+)<((?:\\x..)*)>, )?(?<![=\w])"((?:\\x..)*)"')
_PATH_OF_SOCKET = re.compile(rb'sun_path="((?:\\x..)+)"')
_OF_DESCRIPTOR = re.compile(rb"^\d+<((?:\\x..)*)>")
_MODE = re.compile(rb"(?:^|[ |])(0[0-7]*)(?=$|[ ,}|])")
_KINDS = {
    b"S_IFCHR": "a device",
    b"S_IFBLK": "a device",
    b"S_IFIFO": "a FIFO",
    b"S_IFSOCK": "a socket",
}
_SET_ID = (b"S_ISUID", b"S_ISGID")
# Users that no account is: as one of these a parser without rights writes to a private folder.
_NOBODYS = range(0x70000000, 0x70000000 + (1 << 22) + 1)
_FOLLOWING = frozenset({"chmod", "chown", "setxattr", "truncate", "fchmodat", "utimensat"})
# What another user sees of a place: each folder that they can list with something in it, once, with what
# is in it then; and when they began. A slash parts names, and there is none in the folder's. It ends with
# its standard input.
_LOOK = """
import os, select, sys
seen = set()
while True:
    for place, folders, names in os.walk(sys.argv[1]):
        if names and place not in seen:
            seen.add(place)
            told = "/".join([place.replace("/", "\\n"), *folders, *names])
            os.write(1, os.fsencode(told) + b"\\0")
    if "" not in seen:
        seen.add("")
        os.write(1, b"begun\\0")
    if select.select([0], [], [], 0.002)[0]:
        break
"""


class Watched(Value, kw_only=False):
    """How a program ended, what it said, and what it did that it may not."""

    code: int
    said: str
    told: tuple[str, ...]


def watched(
    argv: Sequence[str], *, place: Path, victim: Path, env: Mapping[str, str],
    owners: Sequence[int] = (),
) -> Watched:  # fmt: skip
    """Run a program in a place and watch it; as root another user looks on.

    `owners` are the users, besides the caller, whom something in the place may belong to.
    """
    allowed = {os.geteuid(), os.getegid(), *owners}
    with tempfile.TemporaryDirectory(prefix="stackproof-watch-") as folder:
        traced = [
            "strace", "-ff", "-qq", "-y", "-xx", "-s", "8192", "--seccomp-bpf", f"--trace={_CALLS}",
            f"--inject={_BEFORE_RENAMES}", "-o", f"{folder}/calls", "--", *argv,
        ]  # fmt: skip
        looking = _stranger(place)
        done = subprocess.run(
            traced, cwd=place, env=dict(env), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, timeout=TIMEOUT_S, check=False,
        )  # fmt: skip
        calls = [file.read_bytes() for file in sorted(Path(folder).iterdir())]
        told = list(_entered(looking, place, [one for text in calls for one in _renames(text)]))
        for text in calls:
            told += told_by(text, allowed, place=place, victim=victim)
    said = done.stdout.decode(errors="replace")
    return Watched(code=done.returncode, said=said, told=tuple(dict.fromkeys(told)))


def _stranger(place: Path) -> subprocess.Popen[bytes] | None:
    """Start another user who looks into a place, where there may be one; wait until they do."""
    if os.geteuid() != 0:
        return None
    looking = subprocess.Popen(
        ["setpriv", f"--reuid={STRANGER}", f"--regid={STRANGER}", "--clear-groups",
         "/usr/bin/python3", "-c", _LOOK, place],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0,
    )  # fmt: skip
    assert looking.stdout is not None
    before = b""
    while not before.endswith(b"begun\0"):
        more = looking.stdout.read(65536)
        assert more, "the other user has ended"
        before += more
    return looking


def _entered(
    looking: subprocess.Popen[bytes] | None, place: Path, renames: Sequence[tuple[bytes, bytes]]
) -> Iterator[str]:
    """Tell of folders that the other user saw, and that were for a time only.

    One that was whole when it was first seen, and then got its name, is as it should be.
    """
    if looking is None:
        return
    out, _ = looking.communicate(b"", timeout=600)
    for row in out.split(b"\0")[:-1]:
        folder, *names = row.split(b"/")
        name = folder.replace(b"\n", b"/")
        if os.path.isdir(name):
            continue
        later = next((new + name[len(old) :] for old, new in renames if _is_below(name, old)), b"")
        if not os.path.isdir(later) or sorted(os.listdir(later)) != sorted(names):
            yield f"anybody could enter {os.fsdecode(name).removeprefix(f'{place}/')}"


def _renames(calls: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Give the paths of each rename of a process that succeeded: before, and after."""
    for line in calls.splitlines():
        match = _LINE.match(line)
        if match is not None and match[1].startswith(b"rename") and int(match[3]) == 0:
            old, new, *_ = _paths(match[2])
            yield old, new


def told_by(calls: bytes, allowed: set[int], *, place: Path, victim: Path) -> Iterator[str]:
    """Tell what is wrong in the calls of one process that succeeded."""
    for line in calls.splitlines():
        match = _LINE.match(line)
        if match is None or int(match[3]) < 0:
            continue
        call, arguments = match[1].decode(), match[2]
        paths = [*_paths(arguments), *([_bytes(match[4])] if match[4] else [])]
        if call.startswith("symlink"):
            paths = paths[1:]  # the first is only a text
        shown = f"{call} {b' '.join(paths).decode(errors='replace')}"
        yield from _told_of(call, arguments, shown, allowed)
        name = _PATH_OF_SOCKET.search(arguments)
        if call == "bind" and name and _is_below(_bytes(name[1]), os.fsencode(place)):
            yield f"{shown}: a socket"
        # Links of an argument are followed where they lie when all is over: what went meanwhile is told
        # by what was opened, and by what the victim's files are afterwards.
        meant = [os.path.normpath(os.path.join(os.fsencode(place), path)) for path in paths]
        meant += [os.path.realpath(path) for path in meant] if call in _FOLLOWING else []
        if any(_is_below(path, os.fsencode(victim)) for path in meant):
            yield f"{shown}: of the victim"


def _told_of(call: str, arguments: bytes, shown: str, allowed: set[int]) -> Iterator[str]:
    rest = _STRING.sub(b"", arguments)
    if call.startswith("mknod"):
        yield from (f"{shown}: {kind}" for name, kind in _KINDS.items() if name in rest)
    if "chmod" in call or call in {"open", "openat", "creat", "mkdir", "mkdirat"}:
        modes = [int(text, 8) for text in _MODE.findall(rest)] or [0]
        if modes[-1] & 0o6000 or any(name in rest for name in _SET_ID):
            yield f"{shown}: set-uid or set-gid"
    if call.endswith("chown") or call == "fchownat":
        ids = {int(text) for text in re.findall(rb"(?<=, )(-?\d+)(?=,|$)", arguments)[:2]}
        if foreign := {one for one in ids - allowed - {-1, 4294967295} if one not in _NOBODYS}:
            yield f"{shown}: to {sorted(foreign)}"
    if call.endswith("setxattr"):
        yield f"{shown}: an extended attribute"


def _paths(arguments: bytes) -> Iterator[bytes]:
    """Give the paths of a call: a name with the folder before it, and that of a descriptor."""
    for folder, name in _STRING.findall(arguments):
        yield os.path.normpath(os.path.join(_bytes(folder), _bytes(name)))
    if descriptor := _OF_DESCRIPTOR.match(arguments):
        yield _bytes(descriptor[1])


def _bytes(text: bytes) -> bytes:
    return bytes.fromhex(text.replace(b"\\x", b"").decode())


def _is_below(path: bytes, folder: bytes) -> bool:
    return path == folder or path.startswith(folder + b"/")
