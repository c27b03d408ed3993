"""Mount images where only this process sees them, then become the command.

    python -I -S mount_exec.py [--how WAY] [--join] [--own-shm] [--verbose] LIST [--] COMMAND …

    LIST = IMAGE ":" MOUNT { "," IMAGE ":" MOUNT }

The mounts live in a private mount namespace: no other process sees them, and the kernel takes them
away when the last process in it has ended, however it ended. The command takes the place of this
process, so its exit code and every signal are its own. They are read-only, nosuid and nodev.

WAY is `kernel` (a loop device; needs root), `helper` (`stackproof-mount`, which an administrator
has installed with that right), `fuse` (squashfuse; makes a user namespace that maps the own ids
when there is no right to mount) or `auto`, the first of them that is permitted.
With `--join` the mounts are those of a process of the same user on this machine that has the same
images already, if there is one (`join`). With `--own-shm` there is an empty /dev/shm in them, for
ranks that share them (`join`); where it cannot be, the machine's.

A failure is one line, `error: [reason] message`, perhaps with a line `hint: …`; the reasons are
values of `stackproof.core.errors.Reason`. Exit codes: 126 and 127 as env(1) for a command that
cannot be executed or found, 2 for wrong usage, 4 and 6 as the other verbs.

This file and those it needs (`libc`, `mountlist`, `methods`, `helper` and `join`) import
nothing else of ours and little of the standard library, because they also run by themselves on
nodes and before every benchmark launch; where a site has a policy of signatures, what holds to it
is imported too. docs/explanation/mounting.md has the why.
"""

from __future__ import annotations

import errno
import os
import stat
import sys

if __name__ == "__main__":  # run by its path, with `-I`: the package is around this file
    _here = os.path.abspath(__file__)
    for _ in range(4):  # effects, the room, the package
        _here = os.path.dirname(_here)
    sys.path.insert(0, _here)

from stackproof.core import harmless, limits
from stackproof.core.effects import libc, locale
from stackproof.core.effects.libc import MountFailure
from stackproof.core.mountlist import MountRequest
from stackproof.mount.effects import methods

TYPE_CHECKING = False  # `typing` takes longer to import than an image to mount
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import NoReturn

MARKER = "STACKPROOF_MOUNTED"
"""Environment variable of the command: the mount list as it was really mounted."""

META = "meta/env.json"
_POLICY = "/etc/stackproof/trust.conf"  # as in `share/trust/policy.py`, which is not imported here
_SIGPIPE, _SIGXFSZ = 13, 25
_ROOM = "mode=0755,size=4m"
# What launchers give each rank: PMI-1 and PMI-2 (MPICH, Intel MPI, srun), PMIx (Open MPI, srun),
# Open MPI itself, Intel MPI.
RANKS = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID")
_RANK_VARIABLES = (*RANKS[:-1], "MPI_LOCALRANKID")


def attach(
    wanted: Sequence[MountRequest],
    *,
    how: str = "auto",
    place: Callable[[MountRequest, bytes | None, int], str] | None = None,
    say: Callable[[str], None] = lambda _: None,
    join: bool = False,
    own_shm: bool = False,
) -> tuple[MountRequest, ...]:
    """Mount images in a new mount namespace of this process, which must have one thread.

    `how` is `auto`, `kernel` or `fuse`. With `join` the namespace of a process that has these
    images mounted is entered instead, if there is one. `place` is called for each image with its
    `meta/env.json` and its size in bytes, and returns the mount point; without it, each image must
    name one. `own_shm` gives the namespace a /dev/shm of its own. `say` hears which way was taken.
    Raises `MountFailure`, or what `place` raises; this process is then good for nothing but to end.
    """
    folder, finish = _working_folder(), _cover_shm if own_shm else _leave_shm
    try:
        images = [methods.OpenImage(item.image) for item in wanted]
        _admit(images, [item.label for item in wanted])
        way = methods.choose(how, images)
        if join:
            result = _join_or_mount(wanted, images, way, place, say, finish)
        else:
            result = _mount_all(wanted, images, way, place, say)
            finish(say)
    except OSError as error:
        raise MountFailure("mount-failed", f"cannot mount: {error}") from None
    _return_to(folder)
    return tuple(result)


def has_policy() -> bool:
    """Return True where this site has a policy; raises `MountFailure` (not-permitted)."""
    try:
        os.lstat(_POLICY)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        message = f"cannot look at the policy `{_POLICY}` of this site: {error.strerror}"
        raise MountFailure("not-permitted", message) from None
    return True


def _admit(images: Sequence[methods.OpenImage], labels: Sequence[str]) -> None:
    """Hold to what this site asks of images; raises `MountFailure`."""
    if not has_policy():
        return
    from stackproof.share.effects import trusted  # noqa: PLC0415 - most sites ask for nothing

    for image, label in zip(images, labels, strict=True):
        trusted.admit(
            image.path, image.descriptor, lambda text: _complain(f"warning: {text}"), label=label
        )


def _join_or_mount(
    wanted: Sequence[MountRequest], images: Sequence[methods.OpenImage], way: str,
    place: Callable[[MountRequest, bytes | None, int], str] | None, say: Callable[[str], None],
    finish: Callable[[Callable[[str], None]], None],
) -> list[MountRequest]:  # fmt: skip
    lines = [finish.__name__]
    lines += [
        f"{image.identity()} {item.mount_point}" for item, image in zip(wanted, images, strict=True)
    ]
    from stackproof.mount.effects import join as mount_join  # noqa: PLC0415 - for ranks alone

    try:
        place_to_meet = mount_join.Meeting("\n".join([way, *lines]))
    except MountFailure as failure:  # somebody took every name: ranks do without each other
        _complain(f"note: every rank mounts for itself: {failure.message}")
        return _mount_all(wanted, images, way, place, say)
    with place_to_meet as meeting:
        points = meeting.join()
        if points is None:
            result = _mount_all(wanted, images, way, place, say)
            finish(say)
            meeting.record([mounted.mount_point or "" for mounted in result])
            return result
    say("joining the mounts of another process")
    result = []
    for item, image, point in zip(wanted, images, points, strict=True):
        meta = _read_meta(point, image)
        if place:
            place(item, meta, image.size)
        result.append(MountRequest(image=image.path, mount_point=point))
        os.close(image.descriptor)
    return result


def _leave_shm(_: Callable[[str], None]) -> None:
    """Leave /dev/shm as it is."""


def _cover_shm(say: Callable[[str], None]) -> None:
    from stackproof.mount.effects import join  # noqa: PLC0415 - for launches alone

    if fault := join.cover_shared_memory():
        say(f"ranks have the machine's /dev/shm: {fault}")


def _mount_all(
    wanted: Sequence[MountRequest], images: Sequence[methods.OpenImage], way: str,
    place: Callable[[MountRequest, bytes | None, int], str] | None, say: Callable[[str], None],
) -> list[MountRequest]:  # fmt: skip
    say(f"mounting by {methods.WAYS[way]}")
    if way == "fuse":
        methods.prepare_fuse(images, say)
    libc.unshare(libc.CLONE_NEWNS)
    libc.mount(None, "/", None, libc.MS_REC | libc.MS_SLAVE)
    stage = Stage(say)
    result = []
    for number, (item, image) in enumerate(zip(wanted, images, strict=True)):
        slot = stage.slot(number)
        methods.mount(image, slot, way)
        meta = _read_meta(slot, image)
        point = place(item, meta, image.size) if place else item.mount_point or ""
        result.append(MountRequest(image=image.path, mount_point=point))
        os.close(image.descriptor)
    stage.publish([(mounted.image, mounted.mount_point or "") for mounted in result])
    return result


class Stage:
    """A private folder over `/` in which images are mounted before they go to their places.

    A mount on `/` is not seen through `/`, since every process already stands below it, but it is
    reached through `/..`. So metadata can be read before the mount point is known, without another
    program and without a folder on the host. The same folder becomes the new root when a mount
    point must be made that the host does not have.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._covered: list[str] = []
        libc.mount("stackproof", "/", "tmpfs", libc.MS_NOSUID | libc.MS_NODEV, _ROOM)
        self._folder = os.open("/..", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        os.fchdir(self._folder)

    def slot(self, number: int) -> str:
        """Make an empty folder for image `number`; its path is relative to the working folder."""
        path = _slot(number)
        os.mkdir(path)
        return path

    def publish(self, places: Sequence[tuple[str, str]]) -> None:
        """Move images to their mount points, outer ones first, and clean up.

        `places` are image and mount point by number. Raises `MountFailure`: bad-mount-point,
        mount-point-missing, -occupied, -clash, mount-failed.
        """
        seen: dict[str, str] = {}
        for number in sorted(range(len(places)), key=lambda number: places[number][1].split("/")):
            image, mount_point = places[number]
            target = self._prepare(mount_point)
            if target in seen:
                raise MountFailure(
                    "mount-point-clash",
                    f"two images at `{target}`: `{seen[target]}` and `{image}`",
                    f"mount the second at another folder: `{image}:/other`",
                )
            seen[target] = image
            _check_free(target)
            libc.mount(_slot(number), target, None, libc.MS_MOVE)
            os.rmdir(_slot(number))
        for folder in self._covered:
            flags = libc.MS_REMOUNT | libc.MS_BIND | libc.READ_ONLY
            libc.mount(None, folder, None, flags)
        if "/" not in self._covered:
            libc.detach("/..")
        os.close(self._folder)

    def _prepare(self, mount_point: str) -> str:
        """Return the real path of a mount point; make it, in this namespace only, if missing."""
        target = os.path.realpath(mount_point)
        if not mount_point.startswith("/") or target == "/":
            raise MountFailure("bad-mount-point", f"`{mount_point}` cannot be a mount point")
        parent = target
        while not os.path.lexists(parent):
            parent = os.path.dirname(parent)
        if not os.path.isdir(parent):
            raise MountFailure(
                "mount-point-missing", f"cannot mount at `{target}`: `{parent}` is not a folder"
            )
        if parent != target:
            if parent not in self._covered:
                self._cover(parent, target)
            os.makedirs(target)
        return target

    def _cover(self, parent: str, target: str) -> None:
        """Put an equal folder of ours over `parent`, in which a mount point can be made.

        Not over a folder in which the command could make files, since they would be lost with it.
        `/` is the exception: what belongs there is not made by commands, and the cover is made
        read-only, so that nothing can be lost.
        """
        if parent != "/" and os.access(parent, os.W_OK):
            raise MountFailure(
                "mount-point-missing",
                f"the mount point `{target}` does not exist",
                f"make it: mkdir -p {target}",
            )
        self._say(f"`{target}` does not exist: making it in a private copy of `{parent}`")
        try:
            if parent == "/":
                self._fill("", "/")
                os.chroot(".")
            else:
                old = os.open(parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
                libc.mount("stackproof", parent, "tmpfs", libc.MS_NOSUID | libc.MS_NODEV, _ROOM)
                self._fill(f"{parent}/", f"/proc/self/fd/{old}/")
                os.close(old)
        except OSError as error:
            raise MountFailure(
                "mount-point-missing",
                f"the mount point `{target}` does not exist and cannot be made: {error.strerror}",
                f"let the administrator make it: mkdir -p {target}",
            ) from None
        self._covered.append(parent)

    def _fill(self, target: str, source: str) -> None:
        """Let an empty folder show everything that another one shows."""
        with os.scandir(source) as entries:
            for entry in entries:
                made = target + entry.name
                if entry.is_symlink():
                    os.symlink(os.readlink(source + entry.name), made)
                    continue
                try:
                    if entry.is_dir():
                        os.mkdir(made)
                    else:
                        os.close(os.open(made, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
                    libc.mount(source + entry.name, made, None, libc.MS_BIND | libc.MS_REC)
                except OSError as error:  # a dead network mount must not stop everything else
                    self._say(f"`{entry.name}` is not visible to the command: {error.strerror}")


def _slot(number: int) -> str:
    return f".stackproof{number}"


def _check_free(target: str) -> None:
    try:
        with os.scandir(target) as entries:
            occupied = any(entries)
    except OSError as error:
        raise MountFailure(
            "mount-point-occupied", f"cannot look into mount point `{target}`: {error.strerror}"
        ) from None
    if occupied:
        raise methods.occupied(target, os.environ.get(MARKER, ""))


def is_rank(environment: Mapping[str, str]) -> bool:
    """Return True where an MPI launcher has started this process as one of its ranks."""
    return any(name in environment for name in _RANK_VARIABLES)


def become(argv: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    """Replace this process by a command; raises `MountFailure` (command-not-found) if it cannot."""
    sys.stdout.flush()
    sys.stderr.flush()
    # Python ignores these two; a program expects the default (`run … -- yes | head` must end).
    libc.default_signal(_SIGPIPE)
    libc.default_signal(_SIGXFSZ)
    fault = errno.ENOENT
    for program in _candidates(argv[0], environment):
        try:
            os.execve(program, [*argv], environment)  # noqa: S606 - what the user asked for, no shell
        except OSError as error:
            if error.errno == errno.ENOEXEC and (other := libc.machine_of(program)):
                message = f"`{program}` is a program for {other}, and this is {os.uname().machine}"
                raise MountFailure("command-not-found", message, exit_code=126) from None
            if error.errno == errno.ENOEXEC:  # a script without `#!`: as execvp(3) does
                os.execve("/bin/sh", ["/bin/sh", program, *argv[1:]], environment)  # noqa: S606 - as execvp(3) does where a program has no head
            if error.errno not in {errno.ENOENT, errno.ENOTDIR}:
                fault = error.errno or fault
    raise MountFailure(
        "command-not-found",
        f"cannot run `{argv[0]}`: {os.strerror(fault)}",
        exit_code=127 if fault == errno.ENOENT else 126,
    )


def with_marker(mounted: Sequence[MountRequest], environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment that says what is mounted, after what was mounted around it."""
    texts = [str(item) for item in mounted]
    outer = environment.get(MARKER)
    return {**environment, MARKER: ",".join([outer, *texts] if outer else texts)}


def _candidates(name: str, environment: Mapping[str, str]) -> Iterable[str]:
    if "/" in name:
        return [name]
    path = environment.get("PATH") or "/usr/bin:/bin"
    return [os.path.join(folder or ".", name) for folder in path.split(":")]


def _read_meta(folder: str, image: methods.OpenImage) -> bytes | None:
    try:
        # A FIFO or a device in its place would keep every command waiting, and a link leads out.
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW
        descriptor = os.open(f"{folder}/{META}", flags)
        with open(descriptor, "rb") as stream:
            _check_meta(descriptor)
            return stream.read(limits.IMAGE_MEMBER.bytes)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise MountFailure(
            "image-unreadable",
            f"cannot read `{META}` of `{image.path}`: {error.strerror}",
            "the image is damaged: copy or build it again",
        ) from None


def _check_meta(descriptor: int) -> None:
    state = os.fstat(descriptor)
    if not stat.S_ISREG(state.st_mode) or state.st_size > limits.IMAGE_MEMBER.bytes:
        raise OSError(errno.EINVAL, "it is no file, or a large one")


def _working_folder() -> str:
    try:
        return os.getcwd()
    except OSError:  # it has been deleted
        return "/"


def _return_to(folder: str) -> None:
    try:
        os.chdir(folder)
    except OSError:
        os.chdir("/")


def parse_wire(text: str) -> list[MountRequest]:
    """Return the images of a list in which each one names its mount point.

    Raises `MountFailure` (usage). `stackproof.core.mountlist` has the whole grammar.
    """
    result = []
    for entry in text.split(","):
        image, slash, below = entry.partition(":/")
        if not image or not slash:
            raise MountFailure(
                "usage", f"`{entry}` is not IMAGE:MOUNT with an absolute MOUNT", exit_code=2
            )
        result.append(MountRequest(image=image, mount_point=f"/{below}"))
    return result


def _read_arguments(words: list[str]) -> tuple[str, set[str], str, list[str]]:
    how, options = "auto", set()
    while words and words[0].startswith("-"):
        option = words.pop(0)
        if option in {"--verbose", "--join", "--own-shm"}:
            options.add(option)
        elif option == "--how" and words and words[0] in {"auto", *methods.WAYS}:
            how = words.pop(0)
        else:
            raise MountFailure("usage", f"not an option: `{option}`", exit_code=2)
    if words[1:2] == ["--"]:
        del words[1]
    if len(words) < 2:
        raise MountFailure("usage", "say LIST and COMMAND", exit_code=2)
    return how, options, words[0], words[1:]


def main(words: list[str]) -> int:
    """Do what the module's docstring says; returns an exit code only when that fails."""
    locale.forget_coercion()
    try:
        how, options, mounts, argv = _read_arguments(words)
        verbose = "--verbose" in options
        say = _complain if verbose else lambda _: None
        wanted = parse_wire(mounts)
        if methods.may_need_helper(how):
            _become_helper(wanted, argv, how=how, verbose=verbose)
        join, own_shm = "--join" in options, "--own-shm" in options
        mounted = attach(wanted, how=how, say=say, join=join, own_shm=own_shm)
        become(argv, with_marker(mounted, os.environ))
    except MountFailure as failure:
        _complain(f"error: [{failure.reason}] {failure.message}")
        if failure.hint:
            _complain(f"hint: {failure.hint}")
        return failure.exit_code


def _become_helper(
    wanted: Sequence[MountRequest], argv: Sequence[str], *, how: str, verbose: bool
) -> None:
    """Become the helper, which then mounts and becomes the command; return where it cannot."""
    from stackproof.mount.effects import helper  # noqa: PLC0415 - the kernel needs none

    program = helper.choose(how, os.environ)
    places = [(item.image, item.mount_point or "") for item in wanted]
    if program and (how == "helper" or helper.can_reach([place for _, place in places])):
        start = helper.argv(program, places, verbose=verbose)
        become([*start, *argv], helper.forwarded(os.environ))


def _complain(text: str) -> None:
    sys.stderr.write(f"{harmless.text(text)}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
