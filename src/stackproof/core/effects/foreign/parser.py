"""Start a program on foreign bytes, behind walls, and take what it says, bounded in time and size.

The image comes as an open descriptor, so that the program needs no right on its path; the folder
that it writes to as well. Root gives its rights up first: a user that nobody is parses.

This runs before every job of a user, so it imports little.
"""

from __future__ import annotations

import errno
import os
import select
import time

from stackproof.core.limits import MIB

_SIGKILL = 9
_PROCESSOR_TIME, _FILE_SIZE, _CORE, _ADDRESS_SPACE = 0, 1, 4, 9  # sys/resource.h
_IGNORED_BY_PYTHON = (13, 25)  # SIGPIPE, SIGXFSZ
_CHUNK = 1 << 16
_LOOK_S = 0.05  # how often the folder is looked at that a parser writes to, at most
_COMPLAINTS = MIB
_FIRST_USER, _NOBODY = 0x70000000, 65534
_IN_MEMORY = 64 * MIB
_OF_A_READER, _OF_A_CORE = (
    4096 * MIB,
    1024 * MIB,
)  # address space: queues of 512 MiB, stacks, arenas
_NOT_STARTED = 127
_UNREADABLE = "unreadable"
_NO_WALL = (
    "nothing would keep it from writing elsewhere: this kernel has no Landlock of version 2 "
    "(Linux 5.19), and this user may make no user namespaces"
)
IMAGE = "/proc/self/fd/0"
"""The image for a parser, also one that lies in a private folder: its standard input."""


class Ended:
    """How a parser ended: exit code, output, complaints; `fault` is "", `time`, `size`, `full`."""

    __slots__ = ("code", "complaints", "fault", "output")

    def __init__(self, code: int, output: bytes, complaints: bytes, fault: str) -> None:
        self.code = code
        self.output = output
        self.complaints = complaints
        self.fault = fault

    def said(self) -> str:
        """Return the end of the complaints as text."""
        return self.complaints.decode(errors="replace")[-2000:].strip()


class Bounds:
    """The most that a parser may take: seconds, bytes of output, bytes of a file that it writes.

    `tree` is for the folder that it writes to: bytes of all files, and entries; zero is any.
    """

    __slots__ = ("file", "output", "seconds", "tree")

    def __init__(
        self, *, seconds: int, output: int = 0, file: int = 0, tree: tuple[int, int] = (0, 0)
    ) -> None:
        self.seconds = seconds
        self.output = output
        self.file = file
        self.tree = tree


class StartError(OSError):
    """A program could not be started; `filename` is its name."""


def find(program: str) -> str:
    """Return the path of a program, "" where this machine has none."""
    folders = os.environ.get("PATH", os.defpath).split(":")
    # Tools of file systems stand where a user does not look.
    for folder in (*folders, "/usr/sbin", "/sbin"):
        path = os.path.join(folder, program)
        if os.path.isabs(path) and os.path.isfile(path) and os.access(path, os.X_OK):
            return os.path.realpath(path)
    return ""


def open_image(path: str) -> int:
    """Open an image for a parser; a FIFO is not waited for. Raises `OSError`."""
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)


def writer(folder: int) -> int:
    """Give an open, empty folder to the user that will parse; return that user.

    It is the caller where there is nothing to drop. Raises `OSError` where root may not do so.
    """
    if os.geteuid() != 0:
        return os.geteuid()
    for user in (_FIRST_USER + os.getpid(), _NOBODY):
        try:
            os.fchown(folder, user, user)
        except OSError as error:  # a namespace that does not know the user
            if error.errno != errno.EINVAL:
                raise
        else:
            return user
    return 0


def parse(
    argv: tuple[str, ...],
    image: int,
    bounds: Bounds,
    *,
    folder: int = -1,
    output: int = -1,
) -> Ended:
    """Run a parser on an open image, in an open folder that `writer` has prepared.

    `argv` names it `IMAGE`; `output` is a file for what it writes to standard
    output. An image that root alone can read is copied first. Raises `StartError`, and `OSError`
    for what a copy needs.
    """
    content = image
    try:
        ended, why = _run(argv, content, bounds, folder, output)
        if why == _UNREADABLE and os.geteuid() == 0:
            content = _copy(image, folder)
            ended, why = _run(argv, content, bounds, folder, output)
    finally:
        if content != image:
            os.close(content)
    if ended is None:
        number = errno.EACCES if find(argv[0]) else errno.ENOENT
        raise StartError(number, why, argv[0])
    return ended


def _copy(image: int, folder: int) -> int:
    """Return a nameless copy that everybody with the descriptor can read."""
    size = os.fstat(image).st_size
    if size <= _IN_MEMORY or folder < 0:
        copy = os.memfd_create("image", os.MFD_CLOEXEC)
    else:
        copy = os.open(f"/proc/self/fd/{folder}", os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o444)
    at = 0
    while at < size:
        sent = os.sendfile(copy, image, at, size - at)
        if sent == 0:
            break
        at += sent
    os.lseek(copy, 0, os.SEEK_SET)  # a parser may read it as its standard input
    os.fchmod(copy, 0o444)
    return copy


def _run(
    argv: tuple[str, ...], image: int, bounds: Bounds, folder: int, output: int
) -> tuple[Ended | None, str]:
    """Return the end of a parser, or None and the reason that it did not start."""
    program = find(argv[0])
    if not program:
        return None, "No such file or directory"
    # Whoever only looks for a program needs none of this.
    from stackproof.core.effects.foreign import walls  # noqa: F401, PLC0415

    said, complaints, trouble = os.pipe(), os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _be(program, argv, image, (folder, output if output >= 0 else said[1], complaints[1]),
                bounds)  # fmt: skip
        except BaseException as error:  # noqa: BLE001 - this process ends here, whatever it was
            os.write(trouble[1], str(getattr(error, "strerror", None) or error).encode()[:200])
        finally:
            os._exit(_NOT_STARTED)
    for end in (said[1], complaints[1], trouble[1]):
        os.close(end)
    whole = False
    try:
        texts, fault = _read(said[0], complaints[0], bounds, folder)
        whole = not fault
        why = os.read(trouble[0], 200).decode(errors="replace")
    finally:
        if not whole:
            os.kill(child, _SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        for end in (said[0], complaints[0], trouble[0]):
            os.close(end)
    if why:
        return None, why
    return Ended(code, texts[0], texts[1], fault), ""


def _be(
    program: str,
    argv: tuple[str, ...],
    image: int,
    places: tuple[int, int, int],
    bounds: Bounds,
) -> None:
    """Become the parser; `places` are its folder, its output and its complaints."""
    from stackproof.core.effects.foreign import walls  # noqa: PLC0415 - see above

    os.setsid()
    walls.default_signals(_IGNORED_BY_PYTHON)
    folder, *outputs = places
    # Whoever was started without standard input has other files at its number.
    folder = _above(folder) if folder >= 0 else folder
    spare = [_above(one) for one in (image, *outputs)]
    for standard, source in enumerate(spare):
        os.dup2(source, standard)
    os.umask(0)  # modes are to be the image's
    os.chdir("/")
    users: tuple[int, ...] = (_FIRST_USER + os.getpid(), _NOBODY)
    rooted = False
    if folder >= 0:
        users = (os.fstat(folder).st_uid,)
        # As root, who can name the folder still; a user without rights may write where all may.
        needed = os.geteuid() == 0 and walls.landlock_version() < walls.WRITING_LANDLOCK
        rooted = needed and walls.leave_all_but(program, folder, writable=("/proc",))
        if not rooted:
            os.fchdir(folder)
    # Nothing belongs to a user that this root alone knows.
    walled = os.geteuid() == 0 and walls.become(users)
    walls.end_with_parent()
    try:
        os.close(os.open(IMAGE, os.O_RDONLY))
    except PermissionError:
        raise OSError(errno.EACCES, _UNREADABLE) from None
    walls.no_new_rights()
    walled = walls.restrict_files(program, 0, folder) or walled or rooted
    if folder >= 0 and not walled and not walls.leave_all_but(program, folder):
        raise OSError(errno.EPERM, _NO_WALL)
    _limit(bounds)
    walls.restrict_calls(walls.unpacking_filter(os.uname().machine, writes=folder >= 0))
    os.execve(program, argv, {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"})  # noqa: S606 - argv, no shell


def _above(descriptor: int) -> int:
    """Return a descriptor of the same file that is none of the standard ones."""
    return descriptor if descriptor > 2 else _above(os.dup(descriptor))


def _limit(bounds: Bounds) -> None:
    from stackproof.core.effects.foreign import walls  # noqa: PLC0415 - see above

    space = _OF_A_READER + (os.cpu_count() or 1) * _OF_A_CORE
    walls.limit(_CORE, 0)
    walls.limit(_FILE_SIZE, bounds.file)
    walls.limit(_ADDRESS_SPACE, space)
    walls.limit(_PROCESSOR_TIME, bounds.seconds * (os.cpu_count() or 1))


def _read(
    output: int, complaints: int, bounds: Bounds, folder: int
) -> tuple[tuple[bytes, bytes], str]:
    """Return both outputs, and why they are not whole."""
    end = time.monotonic() + bounds.seconds
    watched = folder >= 0 and any(bounds.tree)
    look = time.monotonic() + _LOOK_S if watched else end
    written = _Written(folder)
    kept = {output: bytearray(), complaints: bytearray()}
    most = {output: bounds.output, complaints: _COMPLAINTS}
    poller = select.poll()
    for descriptor in kept:
        poller.register(descriptor, select.POLLIN)
    waiting, fault = set(kept), ""
    while waiting and not fault:
        ready = poller.poll(max(0, min(look, end) - time.monotonic()) * 1000)
        now = time.monotonic()
        if now >= end and not ready:
            fault = "time"
        elif watched and now >= look:
            if written.is_more_than(bounds.tree):
                fault = "full"
            # So that looking takes a small part of the time, whatever there is to look at.
            look = time.monotonic() + max(_LOOK_S, 20 * (time.monotonic() - now))
        for descriptor, _ in ready:
            chunk = os.read(descriptor, _CHUNK)
            kept[descriptor] += chunk
            if not chunk:
                poller.unregister(descriptor)
                waiting.discard(descriptor)
            elif len(kept[descriptor]) > most[descriptor]:
                fault = "size"
    return (bytes(kept[output]), bytes(kept[complaints])), fault


class _Written:
    """The bytes and entries that a parser has written to its folder, as they were seen."""

    def __init__(self, folder: int) -> None:
        self._folder = folder
        self._seen: dict[str, tuple[int, int]] = {}
        self._totals = [0, 0]
        self._several: set[int] = set()  # files with more names than one, which count once

    def is_more_than(self, most: tuple[int, int]) -> bool:
        """Look again; return true for more bytes or entries, zero being any.

        What is being written may go away at any moment. Of a folder that cannot be entered any
        more counts what was in it before.
        """
        waiting = [""]
        while waiting:
            path = waiting.pop()
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            try:
                inner = os.open(path or ".", flags, dir_fd=self._folder)
            except OSError:
                continue
            try:
                waiting += self._look(inner, path, most)
            finally:
                os.close(inner)
            if self._exceeds(most):
                return True
        return False

    def _exceeds(self, most: tuple[int, int]) -> bool:
        return any(limit and total > limit for total, limit in zip(self._totals, most, strict=True))

    def _look(self, inner: int, path: str, most: tuple[int, int]) -> list[str]:
        """Add up a folder, and return those in it."""
        used, count, folders = 0, 0, []
        with os.scandir(inner) as listing:
            for entry in listing:
                try:
                    state = entry.stat(follow_symlinks=False)
                except OSError:
                    continue
                if state.st_nlink == 1 or state.st_ino not in self._several:
                    used += state.st_blocks * 512
                if entry.is_dir(follow_symlinks=False):
                    folders.append(f"{path}/{entry.name}" if path else entry.name)
                elif state.st_nlink > 1:
                    self._several.add(state.st_ino)
                count += 1
                if most[1] and count > most[1]:
                    break
        before = self._seen.get(path, (0, 0))
        self._seen[path] = now = (max(used, before[0]), max(count, before[1]))
        self._totals = [
            total + new - old for total, new, old in zip(self._totals, now, before, strict=True)
        ]
        return folders
