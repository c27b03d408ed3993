"""A foreign tree as verbs get it: an open folder, and paths in it that never lead out.

Every path is walked name by name from the root's descriptor, without following anything; a link is
resolved by hand, by the rules of the tree (`core.links`). What leads out is refused.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import stat
from collections.abc import Iterator
from typing import IO, Self

from stackproof.core import limits
from stackproof.core.effects import files
from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.core.limits import Limit
from stackproof.core.links import PLAIN, LinkRules

_FOLDER = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class ForeignTree:
    """An open folder whose paths stay in it; `name` stands in messages.

    Every method raises `StackproofError`: IMAGE_UNREADABLE where a link leads out of the tree, and
    what `files.translate` makes of the system's errors. A path is relative to the root; a slash in
    front changes nothing.
    """

    def __init__(self, descriptor: int, rules: LinkRules = PLAIN, *, name: str) -> None:
        self.descriptor = descriptor
        self.rules = rules
        self.name = name

    @classmethod
    def at(cls, folder: str | os.PathLike[str], rules: LinkRules = PLAIN) -> Self:
        """Open a folder of this machine; it may not be a link."""
        with files.translate_errors(folder):
            return cls(os.open(folder, os.O_RDONLY | _FOLDER), rules, name=os.fspath(folder))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the folder."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def stat(self, path: str, *, follow: bool = True) -> os.stat_result | None:
        """Return the state of what a path leads to, inside; None where nothing is there."""
        with self._last(path, follow=follow, absent=True) as (folder, name):
            if not name:
                return None
            with contextlib.suppress(FileNotFoundError):
                return os.stat(name, dir_fd=folder, follow_symlinks=False)
            return None

    def is_file(self, path: str, *, follow: bool = True) -> bool:
        """Return true for a path that leads to a regular file of the tree."""
        state = self.stat(path, follow=follow)
        return state is not None and stat.S_ISREG(state.st_mode)

    def is_folder(self, path: str, *, follow: bool = True) -> bool:
        """Return true for a path that leads to a folder of the tree."""
        state = self.stat(path, follow=follow)
        return state is not None and stat.S_ISDIR(state.st_mode)

    def link(self, path: str) -> str:
        """Return the text of a link; raises for what is none."""
        with self._last(path, follow=False) as (folder, name):
            return os.readlink(name, dir_fd=folder)

    def names(self, path: str = "") -> tuple[str, ...]:
        """Return the sorted names in a folder."""
        with (
            self._last(path) as (folder, name),
            files.close_at_end(os.open(name, os.O_RDONLY | _FOLDER, dir_fd=folder)) as descriptor,
        ):
            return tuple(sorted(os.listdir(descriptor)))

    def open(self, path: str) -> int:
        """Return a descriptor to read a regular file."""
        with self._last(path) as (folder, name):
            # Without O_NONBLOCK a FIFO would hang.
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            descriptor = os.open(name, flags, dir_fd=folder)
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                return descriptor
            os.close(descriptor)
            raise self._fault(path, "is no regular file")

    def read(self, path: str, limit: Limit) -> bytes:
        """Return the content of a regular file; raises TOO_LARGE for more than its limit."""
        with os.fdopen(self.open(path), "rb") as stream:
            return files.read_bounded(self._shown(path), limit, stream=stream)

    def write(self, path: str, content: bytes | IO[bytes], *, mode: int = 0o644) -> None:
        """Put a file at a path, in one piece; a link that is there is replaced, not followed."""
        source = io.BytesIO(content) if isinstance(content, bytes) else content
        with self._last(path, follow=False) as (folder, name):
            new = f".{os.urandom(8).hex()}"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            try:
                with os.fdopen(os.open(new, flags, 0o600, dir_fd=folder), "wb") as stream:
                    shutil.copyfileobj(source, stream)
                    stream.flush()
                    os.fchmod(stream.fileno(), mode)
                os.rename(new, name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(new, dir_fd=folder)
                raise

    def make_folder(self, path: str, *, mode: int = 0o755) -> None:
        """Make a folder, and those above it, where they are not there yet."""
        parts = [part for part in path.split("/") if part not in {"", "."}]
        there = len(parts)
        while there and not self.is_folder("/".join(parts[:there])):
            there -= 1
        for count in range(there + 1, len(parts) + 1):
            with self._last("/".join(parts[:count])) as (folder, name):
                os.mkdir(name, 0o700, dir_fd=folder)
                set_mode(folder, name, mode)

    def make_link(self, path: str, target: str) -> None:
        """Make a link with a text that the caller has judged."""
        with self._last(path, follow=False) as (folder, name):
            os.symlink(target, name, dir_fd=folder)

    def make_name(self, path: str, other: str) -> None:
        """Give a file of the tree another name in it (a hard link); a link is not followed."""
        with (
            self._last(other, follow=False) as (from_folder, from_name),
            self._last(path, follow=False) as (folder, name),
        ):
            os.link(
                from_name, name, src_dir_fd=from_folder, dst_dir_fd=folder, follow_symlinks=False
            )

    def set_time(self, path: str, seconds: float) -> None:
        """Set when an entry was changed last, a link's itself."""
        with self._last(path, follow=False) as (folder, name):
            os.utime(name, (seconds, seconds), dir_fd=folder, follow_symlinks=False)

    def rename(self, old: str, new: str) -> None:
        """Give an entry another place in the tree; a link is moved itself."""
        with (
            self._last(old, follow=False) as (from_folder, from_name),
            self._last(new, follow=False) as (to_folder, to_name),
        ):
            os.rename(from_name, to_name, src_dir_fd=from_folder, dst_dir_fd=to_folder)

    def set_mode(self, path: str, mode: int) -> None:
        """Give a file or folder its permission bits; raises for a link that stands there."""
        with self._last(path) as (folder, name):
            set_mode(folder, name, mode & 0o777)

    def remove(self, path: str) -> None:
        """Delete an entry with all below it; a link itself. Nothing happens where none is."""
        with (
            self._last(path, follow=False) as (folder, name),
            contextlib.suppress(FileNotFoundError),
        ):
            files.remove_entry(name, at=folder)

    def real(self, path: str) -> str:
        """Return the path without links that a path leads to; the last name may not be there."""
        with self._last(path) as (folder, name):
            place = os.readlink(f"/proc/self/fd/{folder}")
            top = os.readlink(f"/proc/self/fd/{self.descriptor}")
            return os.path.relpath(os.path.normpath(os.path.join(place, name)), top)

    def walk(self, path: str = "") -> Iterator[tuple[str, os.stat_result]]:
        """Yield every entry below a folder, sorted, with its own state; no link is followed."""
        for name in self.names(path):
            place = f"{path.strip('/')}/{name}".lstrip("/")
            state = self.stat(place, follow=False)
            if state is None:
                continue
            yield place, state
            if stat.S_ISDIR(state.st_mode):
                yield from self.walk(place)

    @contextlib.contextmanager
    def _last(
        self, path: str, *, follow: bool = True, absent: bool = False
    ) -> Iterator[tuple[int, str]]:
        """Open the folder of a path's last name, links resolved; errors get their words here.

        With `absent` the name is empty where a folder on the way is none.
        """
        opened = [os.dup(self.descriptor)]
        try:
            try:
                place = self._enter(path, opened, follow=follow)
            except (FileNotFoundError, NotADirectoryError):
                if not absent:
                    raise
                place = opened[-1], ""
            yield place
        except OSError as error:
            raise files.translate(error, self._shown(path)) from error
        finally:
            for descriptor in opened:
                os.close(descriptor)

    def _enter(self, path: str, opened: list[int], *, follow: bool) -> tuple[int, str]:
        """Open the folders of a path one below the other; return the last one, and the name in it.

        The name is `.` where the path ends in a folder that is open already.
        """
        rest = path.split("/")[::-1]
        left = limits.LINKS.count
        while rest:
            name = rest.pop()
            last = not any(part not in {"", "."} for part in rest)
            if name in {"", "."}:
                continue
            if name == "..":
                self._go_up(path, opened)
                continue
            if not self._is_link(name, opened[-1], last=last) or (last and not follow):
                if last:
                    return opened[-1], name
                opened.append(os.open(name, os.O_PATH | _FOLDER, dir_fd=opened[-1]))
                continue
            left -= 1
            if left < 0:
                raise self._fault(path, "leads through too many links")
            rest += self._follow(path, name, opened).split("/")[::-1]
        return opened[-1], "."

    def _is_link(self, name: str, folder: int, *, last: bool) -> bool:
        try:
            return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
        except FileNotFoundError:
            if last:
                return False
            raise

    def _go_up(self, path: str, opened: list[int]) -> None:
        if len(opened) > 1:
            os.close(opened.pop())
        elif not self.rules.stays:
            raise self._fault(path, "leads out of it")

    def _follow(self, path: str, name: str, opened: list[int]) -> str:
        """Return the way that a link goes on, from the folder that is opened last."""
        target = os.readlink(name, dir_fd=opened[-1])
        if not target.startswith("/"):
            return target
        inner = self.rules.inside(target)
        if inner is None:
            raise self._fault(path, f"leads to `{target}`, out of it")
        while len(opened) > 1:
            os.close(opened.pop())
        return inner

    def _shown(self, path: str) -> str:
        return os.path.join(self.name, path.lstrip("/"))

    def _fault(self, path: str, why: str) -> StackproofError:
        return fail(
            Reason.IMAGE_UNREADABLE,
            f"`{path}` of `{self.name}` {why}",
            where=Location(file=self._shown(path)),
            hint="find out who made it: nothing is followed out of a tree that others made",
        )


def set_mode(folder: int, name: str, mode: int) -> None:
    """Set the mode of a file or folder in an open folder; raises `OSError`, also for a link."""
    with files.close_at_end(
        os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    ) as descriptor:
        os.chmod(f"/proc/self/fd/{descriptor}", mode)
