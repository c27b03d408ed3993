"""Mount images where only this process sees them, then become the command.

    python -I -S mountexec.py [--how auto|kernel|fuse] [--verbose] LIST [--] COMMAND [ARGUMENT…]

    LIST = IMAGE ":" MOUNT { "," IMAGE ":" MOUNT }          (both parts absolute or relative to here)

The mounts live in a private mount namespace: no other process sees them, and the kernel takes them
away when the last process in it has ended, however it ended. The command takes the place of this
process, so its exit code and every signal are its own. They are read-only, nosuid and nodev.

Two ways: `kernel` (a loop device; needs root) and `fuse` (squashfuse; makes a user namespace that
maps the own ids when there is no right to mount). `auto` takes the first one that is permitted.

A failure is one line, `error: [reason] message`, perhaps with a line `hint: …`; the reasons are
values of `stackproof.errors.Reason`. Exit codes: 126 and 127 as env(1) for a command that cannot be
executed or found, 2 for wrong usage, 4 and 6 as the other verbs.

The file imports nothing but the standard library, and little of that, because it also runs by
itself on nodes and before every benchmark launch. docs/explanation/mounting.md has the why.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import stat
import struct
import sys

if False:  # for type checkers; `typing` costs more to import than all the mounting
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import NoReturn

MARKER = "STACKPROOF_MOUNTED"
"""Environment variable of the command: the mount list as it was really mounted."""

_NOT_POSSIBLE = {"tool-missing", "no-user-namespaces", "no-fuse", "not-permitted"}
_CLONE_NEWNS, _CLONE_NEWUSER = 0x00020000, 0x10000000
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_REMOUNT = 1, 2, 4, 32
_MS_BIND, _MS_MOVE, _MS_REC, _MS_SLAVE = 4096, 8192, 16384, 1 << 19
_MNT_DETACH = 2
_CAP_SYS_ADMIN = 1 << 21
# The inode number of the first user namespace is fixed (linux/proc_ns.h, PROC_USER_INIT_INO).
_FIRST_USER_NAMESPACE = 0xEFFFFFFD
# linux/loop.h; LOOP_CONFIGURE is Linux 5.8 and later, the pair before it is older.
_LOOP_SET_FD, _LOOP_SET_STATUS64, _LOOP_CLR_FD = 0x4C00, 0x4C04, 0x4C01
_LOOP_CONFIGURE, _LOOP_CTL_GET_FREE = 0x4C0A, 0x4C82
_LO_FLAGS_READ_ONLY, _LO_FLAGS_AUTOCLEAR = 1, 4
_LOOP_TRIES = 64
_SECTOR = 512
_SUPERBLOCK_BYTES = 96
_STAGE = ".stackproof"
_META = "meta/env.json"
_MAX_META_BYTES = 16 << 20

_libc = ctypes.CDLL(None, use_errno=True)


class MountFailure(Exception):
    """Why an image could not be mounted; `reason` is a value of `stackproof.errors.Reason`."""

    def __init__(self, reason: str, message: str, hint: str = "", *, exit_code: int = 0) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.hint = hint
        self.exit_code = exit_code or (4 if reason in _NOT_POSSIBLE else 6)


class Wanted:
    """An image and where to mount it; an empty mount point is asked of `place`."""

    __slots__ = ("image", "mount_point")

    def __init__(self, image: str, mount_point: str = "") -> None:
        self.image = image
        self.mount_point = mount_point


class Mounted:
    """A mounted image: `meta` is its meta/env.json, None when it has none."""

    __slots__ = ("image", "meta", "mount_point", "size")

    def __init__(self, image: str, mount_point: str, meta: bytes | None, size: int) -> None:
        self.image = image
        self.mount_point = mount_point
        self.meta = meta
        self.size = size


def attach(
    wanted: Sequence[Wanted],
    *,
    how: str = "auto",
    place: Callable[[Wanted, bytes | None, int], str] | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> tuple[Mounted, ...]:
    """Mount images in a new mount namespace of this process, which must have one thread.

    `place` is called for each image with its `meta/env.json` and its size in bytes, and returns
    the mount point; without it, each image must name one. `say` hears which way was taken. Raises
    `MountFailure`; the process is then in a namespace of no use and should end.
    """
    images = [_Image(item.image) for item in wanted]
    way = _choose(how)
    say(f"mounting with {way} ({_WAYS[way]})")
    if way == "fuse":
        _prepare_fuse(images, say)
    here = _working_folder()
    _call("unshare", _libc.unshare(_CLONE_NEWNS))
    _mount(None, "/", None, _MS_REC | _MS_SLAVE)
    stage = _Stage(say)
    result = []
    for number, (item, image) in enumerate(zip(wanted, images, strict=True)):
        meta = stage.add(number, image, way)
        point = place(item, meta, image.size) if place else item.mount_point
        result.append(Mounted(image.path, point, meta, image.size))
    stage.publish(result)
    _return_to(here)
    for image in images:
        os.close(image.descriptor)
    return tuple(result)


def become(argv: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    """Replace this process by a command; raises `MountFailure` (command-not-found) if it cannot."""
    sys.stdout.flush()
    sys.stderr.flush()
    # Python ignores these two; a program expects the default (`run … -- yes | head` must end).
    for number in (13, 25):  # SIGPIPE, SIGXFSZ on Linux
        _libc.signal(number, None)
    fault: OSError | None = None
    for program in _candidates(argv[0], environment):
        try:
            os.execve(program, [*argv], environment)  # noqa: S606 - a shell is what we do not want
        except OSError as error:
            if error.errno == errno.ENOEXEC:
                os.execve("/bin/sh", ["/bin/sh", program, *argv[1:]], environment)  # noqa: S606
            if fault is None or error.errno not in {errno.ENOENT, errno.ENOTDIR}:
                fault = error
    missing = fault is None or fault.errno in {errno.ENOENT, errno.ENOTDIR}
    raise MountFailure(
        "command-not-found",
        f"cannot run `{argv[0]}`: {os.strerror(fault.errno if fault else errno.ENOENT)}",
        exit_code=127 if missing else 126,
    )


def _candidates(name: str, environment: Mapping[str, str]) -> Iterable[str]:
    if "/" in name:
        return [name]
    path = environment.get("PATH") or "/usr/bin:/bin"
    return [os.path.join(folder or ".", name) for folder in path.split(":")]


# ------------------------------------------------------------------------------------- the image


class _Image:
    """An image file, opened once with the caller's rights and used by this descriptor only."""

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        try:
            # O_NONBLOCK: a FIFO in place of an image must not hang.
            self.descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            missing = error.errno in {errno.ENOENT, errno.ENOTDIR}
            reason = "image-missing" if missing else "image-unreadable"
            raise MountFailure(reason, f"cannot open image `{path}`: {error.strerror}") from None
        self.fuse = -1
        self.start: int | None = None
        self.complaints = -1
        self.size = self._check(path)

    def _check(self, path: str) -> int:
        """Return the size in bytes; the format is in docs/reference and images/superblock.py."""
        state = os.fstat(self.descriptor)
        if not stat.S_ISREG(state.st_mode):
            raise MountFailure("image-not-squashfs", f"`{path}` is not a regular file")
        try:
            head = os.pread(self.descriptor, _SUPERBLOCK_BYTES, 0)
        except OSError as error:
            raise MountFailure("image-unreadable", f"`{path}`: {error.strerror}") from None
        if head[:4] != b"hsqs":
            raise MountFailure("image-not-squashfs", f"`{path}` is not a SquashFS image")
        if len(head) < _SUPERBLOCK_BYTES:
            raise MountFailure("image-truncated", f"image `{path}` ends within its superblock")
        if struct.unpack_from("<HH", head, 28) != (4, 0):
            raise MountFailure("image-not-squashfs", f"`{path}` is not a SquashFS 4.0 image")
        (used,) = struct.unpack_from("<Q", head, 40)
        if state.st_size < used:
            raise MountFailure(
                "image-truncated",
                f"image `{path}` is cut off: it has {state.st_size} bytes and says it has {used}",
                "copy or build it again",
            )
        return state.st_size


# --------------------------------------------------------------------------------------- the ways

_WAYS = {"kernel": "loop device", "fuse": "squashfuse"}


def _choose(how: str) -> str:
    kernel = _kernel_permitted()
    if how == "kernel" and not kernel:
        raise MountFailure(
            "not-permitted",
            "only root may mount a SquashFS image with the kernel",
            "leave `--how kernel` out to mount with squashfuse",
        )
    return how if how in _WAYS else "kernel" if kernel else "fuse"


def _kernel_permitted() -> bool:
    """SquashFS mounts only in the first user namespace, and needs a loop device to be had."""
    return (
        _may_mount()
        and os.stat("/proc/self/ns/user").st_ino == _FIRST_USER_NAMESPACE
        and os.access("/dev/loop-control", os.R_OK | os.W_OK)
    )


def _may_mount() -> bool:
    with open("/proc/self/status", "rb") as stream:
        for line in stream:
            if line.startswith(b"CapEff:"):
                return bool(int(line.split()[1], 16) & _CAP_SYS_ADMIN)
    return False


def _mount_by_loop(image: _Image, target: str) -> None:
    if image.size % _SECTOR:
        raise MountFailure(
            "mount-failed",
            f"the size of `{image.path}` is not a multiple of {_SECTOR} bytes, which the kernel needs",
            "make it without `-nopad`, or use `--how fuse`",
        )
    device, name = _loop_device(image.descriptor)
    try:
        _mount(name, target, "squashfs", _MS_RDONLY | _MS_NOSUID | _MS_NODEV)
    except OSError as error:
        raise MountFailure(
            "mount-failed",
            f"the kernel cannot mount `{image.path}`: {error.strerror}",
            "the image is damaged or uses a compression that this kernel lacks; try `--how fuse`",
        ) from None
    finally:
        os.close(device)  # from here on the mount alone holds the device (autoclear)


def _loop_device(image: int) -> tuple[int, str]:
    """Return a loop device over a file; it is released with the last user (autoclear)."""
    control = os.open("/dev/loop-control", os.O_RDWR | os.O_CLOEXEC)
    try:
        for _ in range(_LOOP_TRIES):
            name = f"/dev/loop{fcntl.ioctl(control, _LOOP_CTL_GET_FREE)}"
            device = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
            try:
                _configure_loop(device, image)
            except OSError as error:
                os.close(device)
                if error.errno != errno.EBUSY:  # EBUSY: somebody else took it in between
                    raise
            else:
                return device, name
    except OSError as error:
        raise MountFailure("mount-failed", f"no loop device: {error.strerror}") from None
    finally:
        os.close(control)
    raise MountFailure("mount-failed", "no loop device: other processes took each free one")


def _configure_loop(device: int, image: int, *, at_once: bool = True) -> None:
    # No direct I/O: the image would then be read from the disk again by each command, since only
    # the page cache of the file outlives the mount.
    flags = _LO_FLAGS_READ_ONLY | _LO_FLAGS_AUTOCLEAR
    info = struct.pack("=QQQQQIIII", 0, 0, 0, 0, 0, 0, 0, 0, flags) + bytes(64 + 64 + 32 + 16)
    if at_once:
        try:
            fcntl.ioctl(device, _LOOP_CONFIGURE, struct.pack("=II", image, 0) + info + bytes(64))
        except OSError as error:
            if error.errno not in {errno.EINVAL, errno.ENOTTY}:  # an older kernel
                raise
        else:
            return
    fcntl.ioctl(device, _LOOP_SET_FD, image)
    try:
        fcntl.ioctl(device, _LOOP_SET_STATUS64, info)
    except OSError:
        fcntl.ioctl(device, _LOOP_CLR_FD)
        raise


# ------------------------------------------------------------------------------------------- FUSE


def _prepare_fuse(images: list[_Image], say: Callable[[str], None]) -> None:
    """Give each image a FUSE descriptor and a squashfuse that waits for its mount.

    The order is the point. The kernel wants /dev/fuse opened in the user namespace that mounts;
    and squashfuse must start before the mount namespace is made, so that it stays outside: then
    the namespace, and with it the mount, ends with the command, and squashfuse with the mount.
    """
    program = _find_squashfuse()
    if not os.path.exists("/dev/fuse"):
        raise MountFailure("no-fuse", "this machine has no /dev/fuse", "load the `fuse` module")
    if not _may_mount():
        say("making a user namespace")
        _new_user_namespace()
    for image in images:
        try:
            image.fuse = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            raise MountFailure(
                "no-fuse",
                f"cannot open /dev/fuse: {error.strerror}",
                "ask the administrator to make /dev/fuse readable and writable for all (mode 0666)",
            ) from None
        image.complaints = os.memfd_create("squashfuse", os.MFD_CLOEXEC)
        image.start = _start_squashfuse(program, image)


def _find_squashfuse() -> str:
    folders = [*os.environ.get("PATH", "").split(":"), "/usr/local/bin", "/usr/bin"]
    for name in ("squashfuse_ll", "squashfuse"):
        for folder in folders:
            if folder and os.access(f"{folder}/{name}", os.X_OK):
                return f"{folder}/{name}"
    raise MountFailure(
        "tool-missing",
        "mounting without root needs `squashfuse`, which is not installed",
        "install it, for example: apt-get install squashfuse",
    )


def _new_user_namespace() -> None:
    user, group = os.geteuid(), os.getegid()
    hint = (
        "the administrator may allow them: sysctl user.max_user_namespaces, "
        "kernel.unprivileged_userns_clone (Debian), kernel.apparmor_restrict_unprivileged_userns "
        "(Ubuntu)"
    )
    try:
        _call("unshare", _libc.unshare(_CLONE_NEWUSER))
        for name, line in (
            ("setgroups", "deny"),
            ("uid_map", f"{user} {user} 1"),
            ("gid_map", f"{group} {group} 1"),
        ):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as stream:
                stream.write(line)
    except OSError as error:
        raise MountFailure(
            "no-user-namespaces",
            f"this machine does not let you make a user namespace: {error.strerror}",
            hint,
        ) from None


def _start_squashfuse(program: str, image: _Image) -> int:
    """Start squashfuse as a child of nobody; it waits until a byte is written to the result."""
    go, start = os.pipe()
    child = os.fork()
    if child == 0:
        status = 127
        try:
            os.setsid()
            if os.fork() == 0:
                _serve(program, image, go)
            status = 0
        finally:
            os._exit(status)
    os.close(go)
    os.waitpid(child, 0)
    return start


def _serve(program: str, image: _Image, go: int) -> None:
    """Be squashfuse, holding nothing of the caller: no descriptor, folder, terminal or variable."""
    os.chdir("/")
    nothing = os.open(os.devnull, os.O_RDWR)
    for number, source in enumerate((nothing, nothing, image.complaints)):
        os.dup2(source, number)
    kept = {0, 1, 2, go, image.fuse, image.descriptor}
    for number in [int(name) for name in os.listdir("/proc/self/fd")]:
        if number not in kept:
            try:
                os.close(number)
            except OSError:  # the descriptor of the listing itself
                continue
    if os.read(go, 1):  # nothing comes when the caller died first
        os.set_inheritable(image.fuse, True)
        os.set_inheritable(image.descriptor, True)
        source, target = f"/proc/self/fd/{image.descriptor}", f"/dev/fd/{image.fuse}"
        os.execve(program, [program, "-f", source, target], {"PATH": "/usr/bin:/bin"})  # noqa: S606


def _mount_by_fuse(image: _Image, target: str) -> None:
    options = (
        f"fd={image.fuse},rootmode=40000,user_id={os.geteuid()},group_id={os.getegid()},"
        "default_permissions,allow_other"
    )
    try:
        _mount(image.path, target, "fuse.squashfuse", _MS_RDONLY | _MS_NOSUID | _MS_NODEV, options)
    except OSError as error:
        raise MountFailure("mount-failed", f"cannot mount by FUSE: {error.strerror}") from None
    assert image.start is not None
    os.write(image.start, b"g")
    os.close(image.start)
    os.close(image.fuse)  # squashfuse alone holds it now: when it ends, nobody waits for ever
    try:
        os.statvfs(target)
    except OSError as error:
        said = os.pread(image.complaints, 4096, 0).decode(errors="replace").strip()
        raise MountFailure(
            "mount-failed",
            f"squashfuse cannot mount `{image.path}`: {said.splitlines()[-1] if said else error}",
            "the image is damaged or uses a compression that this squashfuse lacks",
        ) from None
    finally:
        os.close(image.complaints)


# --------------------------------------------------------------------- mount points and namespaces


class _Stage:
    """A private folder over `/` in which images are mounted before they go to their places.

    A mount on `/` is not seen through `/`, since every process already stands below it, but it is
    reached through `/..`. So metadata can be read before the mount point is known, without another
    program and without a folder on the host. The same folder becomes the new root when a mount
    point must be made that the host does not have.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._covered: dict[str, str] = {}
        self._new_root = False
        _mount("stackproof", "/", "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=0755,size=4m")
        self._folder = os.open("/..", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        os.fchdir(self._folder)

    def add(self, number: int, image: _Image, way: str) -> bytes | None:
        """Mount an image and return its metadata."""
        target = f"{_STAGE}{number}"
        os.mkdir(target)
        (_mount_by_loop if way == "kernel" else _mount_by_fuse)(image, target)
        try:
            with open(f"{target}/{_META}", "rb") as stream:
                return stream.read(_MAX_META_BYTES)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise MountFailure(
                "image-unreadable",
                f"cannot read `{_META}` of `{image.path}`: {error.strerror}",
                "the image is damaged: copy or build it again",
            ) from None

    def publish(self, mounts: list[Mounted]) -> None:
        """Move every image to its mount point, outer ones first, and clean up."""
        seen: dict[str, str] = {}
        order = sorted(range(len(mounts)), key=lambda number: mounts[number].mount_point.split("/"))
        for number in order:
            mounted = mounts[number]
            target = self._prepare(mounted.mount_point)
            if target in seen:
                raise MountFailure(
                    "mount-point-clash",
                    f"two images at `{target}`: `{seen[target]}` and `{mounted.image}`",
                    "give each image its own mount point: IMAGE:MOUNT",
                )
            seen[target] = mounted.image
            _check_free(target)
            source = f"{_STAGE}{number}"
            try:
                _mount(source, target, None, _MS_MOVE)
            except OSError as error:
                raise MountFailure(
                    "mount-failed", f"cannot mount at `{target}`: {error.strerror}"
                ) from None
            os.rmdir(source)
        for folder in self._covered:
            _mount(None, folder, None, _MS_REMOUNT | _MS_BIND | _READ_ONLY)
        if not self._new_root:
            _call("umount", _libc.umount2(b"/..", _MNT_DETACH))
        os.close(self._folder)

    def _prepare(self, mount_point: str) -> str:
        """Return the real path of a mount point; make it, in this namespace only, if missing."""
        if not mount_point.startswith("/") or os.path.normpath(mount_point) == "/":
            raise MountFailure("bad-mount-point", f"`{mount_point}` cannot be a mount point")
        target = os.path.realpath(mount_point)
        parent = target
        while not os.path.lexists(parent):
            parent = os.path.dirname(parent)
        if not os.path.isdir(parent):
            raise MountFailure("mount-point-missing", f"`{parent}` is not a folder")
        if parent != target:
            if parent not in self._covered:
                self._cover(parent, target)
            os.makedirs(target)
        return target

    def _cover(self, parent: str, target: str) -> None:
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
                self._new_root = True
            else:
                old = os.open(parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
                _mount("stackproof", parent, "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=0755,size=4m")
                self._fill(f"{parent}/", f"/proc/self/fd/{old}/")
                os.close(old)
        except OSError as error:
            raise MountFailure(
                "mount-point-missing",
                f"the mount point `{target}` does not exist and cannot be made: {error.strerror}",
                f"let the administrator make it: mkdir -p {target}",
            ) from None
        self._covered[parent] = target

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
                    _mount(source + entry.name, made, None, _MS_BIND | _MS_REC)
                except OSError as error:  # a dead network mount must not stop everything else
                    self._say(f"`{entry.name}` is not visible to the command: {error.strerror}")


_READ_ONLY = _MS_RDONLY | _MS_NOSUID | _MS_NODEV


def _check_free(target: str) -> None:
    try:
        with os.scandir(target) as entries:
            occupied = any(entries)
    except OSError as error:
        raise MountFailure(
            "mount-point-occupied", f"cannot look into mount point `{target}`: {error.strerror}"
        ) from None
    if occupied:
        raise MountFailure(
            "mount-point-occupied",
            f"the mount point `{target}` is not empty: something is there or already mounted",
            "give another mount point: IMAGE:MOUNT",
        )


def _working_folder() -> str | None:
    try:
        return os.getcwd()
    except OSError:  # it has been deleted
        return None


def _return_to(folder: str | None) -> None:
    try:
        os.chdir(folder or "/")
    except OSError:
        os.chdir("/")


def _mount(
    source: str | None, target: str, kind: str | None, flags: int, options: str | None = None
) -> None:
    arguments = [None if text is None else os.fsencode(text) for text in (source, target, kind)]
    data = None if options is None else os.fsencode(options)
    _call("mount", _libc.mount(*arguments, ctypes.c_ulong(flags), data))


def _call(name: str, result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), name)


# ------------------------------------------------------------------------------------ command line


def parse_wire(text: str) -> list[Wanted]:
    """Return the images of a mount list in which each one names its mount point."""
    result = []
    for entry in text.split(","):
        image, _, mount_point = entry.partition(":")
        if not image or not mount_point.startswith("/"):
            raise MountFailure(
                "usage", f"`{entry}` is not IMAGE:MOUNT with an absolute MOUNT", exit_code=2
            )
        result.append(Wanted(image, mount_point))
    return result


def environment_with_marker(
    mounted: Sequence[Mounted], environment: Mapping[str, str]
) -> dict[str, str]:
    """Return an environment that says what is mounted."""
    text = ",".join(f"{item.image}:{item.mount_point}" for item in mounted)
    return {**environment, MARKER: text}


def _read_arguments(words: list[str]) -> tuple[str, bool, str, list[str]]:
    how, verbose = "auto", False
    while words and words[0].startswith("-"):
        option = words.pop(0)
        if option == "--verbose":
            verbose = True
        elif option == "--how" and words and words[0] in {"auto", *_WAYS}:
            how = words.pop(0)
        else:
            raise MountFailure("usage", f"unknown option `{option}`", exit_code=2)
    if words[1:2] == ["--"]:
        del words[1]
    if len(words) < 2:
        raise MountFailure("usage", "say LIST and COMMAND", exit_code=2)
    return how, verbose, words[0], words[1:]


def main(words: list[str]) -> int:
    """Do what the module's docstring says; returns only when that fails."""

    def say(text: str) -> None:
        if verbose:
            print(f"stackproof: {text}", file=sys.stderr)

    verbose = False
    try:
        how, verbose, mounts, argv = _read_arguments(words)
        mounted = attach(parse_wire(mounts), how=how, say=say)
        become(argv, environment_with_marker(mounted, os.environ))
    except MountFailure as failure:
        hint = f"\nhint: {failure.hint}" if failure.hint else ""
        print(f"error: [{failure.reason}] {failure.message}{hint}", file=sys.stderr)
        return failure.exit_code
    except OSError as error:
        print(f"error: [mount-failed] {error.filename}: {error.strerror}", file=sys.stderr)
        return 6


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
