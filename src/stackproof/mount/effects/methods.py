"""The ways to mount an image: by a loop device (`kernel`) and by squashfuse (`fuse`).

A third one, `helper`, is another program's: `mounthelper`.
What is said of a mount point in use stands here too, as every way meets it.

Imports nothing but `libc`, `without_mount` and little of the standard library: see `mount_exec`.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import struct

from stackproof.core import limits
from stackproof.core.effects import libc
from stackproof.core.effects.foreign import walls
from stackproof.core.effects.libc import MountFailure
from stackproof.mount import without_mount

TYPE_CHECKING = False  # `typing` takes longer to import than an image to mount
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

WAYS = {"kernel": "a loop device", "helper": "stackproof-mount", "fuse": "squashfuse"}

_CAP_SYS_ADMIN = 1 << 21  # linux/capability.h
# linux/loop.h; LOOP_CONFIGURE is of Linux 5.8, the pair before it is older.
_LOOP_SET_FD, _LOOP_SET_STATUS64, _LOOP_CLR_FD = 0x4C00, 0x4C04, 0x4C01
_LOOP_CONFIGURE, _LOOP_CTL_GET_FREE = 0x4C0A, 0x4C82
_LO_FLAGS_READ_ONLY, _LO_FLAGS_AUTOCLEAR = 1, 4
_LOOP_TRIES = 64
_SECTOR = 512


class OpenImage:
    """An image file, opened once with the caller's rights; only this descriptor is used.

    Raises `MountFailure`: image-missing, -unreadable, -not-squashfs, -truncated.
    """

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        try:
            # O_NONBLOCK: a FIFO in place of an image must not hang.
            self.descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            missing = error.errno in {errno.ENOENT, errno.ENOTDIR}
            reason = "image-missing" if missing else "image-unreadable"
            message = f"cannot open image `{path}`: {error.strerror}"
            if missing:  # as the other verbs say it
                message = f"there is no image `{path}`"
            from stackproof.core.effects import closed  # noqa: PLC0415 - for failures only

            hint = "make one with `stackproof build`; `stackproof image ls` lists labels"
            hint = hint if missing else closed.hint_at_closed(path)
            raise MountFailure(reason, message, hint) from None
        self.size = self._check(path)
        # Of the FUSE way: descriptor of the device, the pipe that starts the server, its stderr.
        self.fuse = self.start = self.complaints = -1

    def identity(self) -> str:
        """Return the identity of this file as it is now: no other on this machine has it."""
        state = os.fstat(self.descriptor)
        return f"{state.st_dev}:{state.st_ino}:{state.st_size}:{state.st_mtime_ns}"

    def _check(self, path: str) -> int:
        """Return the size in bytes; `image/superblock.py` explains the format."""
        state = os.fstat(self.descriptor)
        if not stat.S_ISREG(state.st_mode):
            raise MountFailure("image-not-squashfs", f"`{path}` is not a regular file")
        try:
            head = os.pread(self.descriptor, limits.SUPERBLOCK.bytes, 0)
        except OSError as error:
            raise MountFailure("image-unreadable", f"`{path}`: {error.strerror}") from None
        if head[:4] != b"hsqs":
            raise MountFailure("image-not-squashfs", f"`{path}` is not a SquashFS image")
        if len(head) < limits.SUPERBLOCK.bytes:
            raise MountFailure("image-truncated", f"image `{path}` ends within its superblock")
        if struct.unpack_from("<HH", head, 28) != (4, 0):
            raise MountFailure("image-not-squashfs", f"`{path}` is not a SquashFS 4.0 image")
        (used,) = struct.unpack_from("<Q", head, 40)
        if state.st_size < used:
            raise MountFailure(
                "image-truncated",
                f"image `{path}` is cut off: it has {state.st_size} of {used} bytes",
                "copy or build it again",
            )
        return state.st_size


def choose(how: str, images: Sequence[OpenImage] = ()) -> str:
    """Return the way in which this process mounts, `kernel` or `fuse`.

    Raises `MountFailure` (not-permitted). The kernel never reads an image from FUSE: it would wait
    for a user's program, and the whole machine with it.
    """
    foreign = next((image for image in images if libc.is_fuse(image.descriptor)), None)
    if foreign and how == "kernel":
        raise MountFailure(
            "not-permitted",
            f"`{foreign.path}` is on a file system of FUSE, from which the kernel mounts nothing",
            "leave `--how kernel` out to mount with squashfuse, or copy the image",
        )
    permitted = kernel_permitted() and not foreign
    if how == "kernel" and not permitted:
        raise MountFailure(
            "not-permitted",
            "only root may mount a SquashFS image with the kernel",
            "leave `--how kernel` out to mount with squashfuse",
        )
    return how if how in {"kernel", "fuse"} else "kernel" if permitted else "fuse"


def kernel_permitted() -> bool:
    """Return True where the kernel may mount: SquashFS, in the first user namespace alone."""
    return (
        may_mount()
        and libc.in_first_user_namespace()
        and os.access("/dev/loop-control", os.R_OK | os.W_OK)
    )


def may_need_helper(how: str) -> bool:
    """Return True where a helper is looked for: not where the kernel permits `auto` to mount."""
    return how == "helper" or (how == "auto" and not kernel_permitted())


def may_mount() -> bool:
    """Return True where this process has the right to mount in its own user namespace."""
    return bool(int(libc.status_field("CapEff") or "0", 16) & _CAP_SYS_ADMIN)


def mount(image: OpenImage, target: str, way: str) -> None:
    """Mount an image; raises `MountFailure` (mount-failed)."""
    if way == "kernel":
        _mount_by_loop(image, target)
    else:
        _mount_by_fuse(image, target)


# ------------------------------------------------------------------------------------ loop device


def _mount_by_loop(image: OpenImage, target: str) -> None:
    if image.size % _SECTOR:
        raise MountFailure(
            "mount-failed",
            f"`{image.path}` has {image.size} bytes; the kernel needs whole sectors of {_SECTOR}",
            "make the image without `-nopad`, or use `--how fuse`",
        )
    device, name = _loop_device(image.descriptor)
    try:
        libc.mount(name, target, "squashfs", libc.READ_ONLY)
    except OSError as error:
        raise MountFailure(
            "mount-failed",
            f"the kernel cannot mount `{image.path}`: {error.strerror}",
            "the image is damaged or uses a compression that this kernel lacks; try `--how fuse`",
        ) from None
    finally:
        os.close(device)  # from here on the mount alone holds the device (autoclear)


def _loop_device(image: int) -> tuple[int, str]:
    """Return a loop device over a file; it is released with its last user (autoclear)."""
    try:
        control = os.open("/dev/loop-control", os.O_RDWR | os.O_CLOEXEC)
        try:
            for _ in range(_LOOP_TRIES):
                name = f"/dev/loop{fcntl.ioctl(control, _LOOP_CTL_GET_FREE)}"
                device = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
                if configure_loop(device, image):
                    return device, name
                os.close(device)
        finally:
            os.close(control)
    except OSError as error:
        raise MountFailure("mount-failed", f"no loop device: {error.strerror}") from None
    raise MountFailure("mount-failed", "no loop device: other processes took each free one")


def configure_loop(device: int, image: int, *, at_once: bool = True) -> bool:
    """Put a file under a loop device; False when another process has just taken the device.

    `at_once` is false to use the two calls of kernels before Linux 5.8. There is no direct I/O:
    the image would then be read from the disk again by each command, because the page cache of
    the file is all that outlives a mount.
    """
    flags = _LO_FLAGS_READ_ONLY | _LO_FLAGS_AUTOCLEAR
    info = struct.pack("=5Q4I", 0, 0, 0, 0, 0, 0, 0, 0, flags) + bytes(64 + 64 + 32 + 16)
    try:
        if at_once:
            try:
                whole = struct.pack("=II", image, 0) + info + bytes(64)
                fcntl.ioctl(device, _LOOP_CONFIGURE, whole)
            except OSError as error:
                if error.errno not in {errno.EINVAL, errno.ENOTTY}:  # not an older kernel
                    raise
            else:
                return True
        fcntl.ioctl(device, _LOOP_SET_FD, image)
    except OSError as error:
        if error.errno == errno.EBUSY:
            return False
        raise
    try:
        fcntl.ioctl(device, _LOOP_SET_STATUS64, info)
    except OSError:
        fcntl.ioctl(device, _LOOP_CLR_FD)
        raise
    return True


# ------------------------------------------------------------------------------------------- FUSE


def prepare_fuse(images: Sequence[OpenImage], say: Callable[[str], None]) -> None:
    """Give each image a FUSE descriptor and a squashfuse that waits for its mount.

    The order is the point. The kernel wants /dev/fuse opened in the user namespace that mounts;
    and squashfuse must start before the mount namespace is made, so that it stays outside: then
    the namespace, and with it the mount, ends with the command, and squashfuse with the mount.

    Raises `MountFailure`: tool-missing, no-fuse, no-user-namespaces.
    """
    program = find_squashfuse(os.environ.get("PATH", ""))
    if program is None:
        raise MountFailure(
            "tool-missing",
            "mounting without root needs `squashfuse`, which is not installed",
            without_mount.add_pack("install it, for example: apt-get install squashfuse"),
        )
    if not os.path.exists("/dev/fuse"):
        hint = without_mount.add_pack("let the administrator load the `fuse` module")
        raise MountFailure("no-fuse", "this machine has no /dev/fuse", hint)
    if not may_mount():
        say("making a user namespace, because there is no right to mount in this one")
        _new_user_namespace()
    for image in images:
        try:
            image.fuse = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            raise MountFailure(
                "no-fuse",
                f"cannot open /dev/fuse: {error.strerror}",
                without_mount.add_pack(
                    "let the administrator make /dev/fuse accessible (mode 0666)"
                ),
            ) from None
        image.complaints = os.memfd_create("squashfuse", os.MFD_CLOEXEC)
        image.start = _start_squashfuse(program, image)


def find_squashfuse(path: str) -> str | None:
    """Return the squashfuse program to use, the low-level one if there is a choice.

    A relative entry of the path is passed over: the folder that a command is started in may be
    somebody else's.
    """
    folders = [f for f in path.split(":") if f.startswith("/")] + ["/usr/local/bin", "/usr/bin"]
    names = [f"{folder}/{name}" for name in ("squashfuse_ll", "squashfuse") for folder in folders]
    return next((name for name in names if os.path.isfile(name) and os.access(name, os.X_OK)), None)


def _new_user_namespace() -> None:
    user, group = os.geteuid(), os.getegid()
    try:
        libc.unshare(libc.CLONE_NEWUSER)
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
            without_mount.add_pack(
                "the administrator may allow them: sysctl user.max_user_namespaces, "
                "kernel.unprivileged_userns_clone (Debian), "
                "kernel.apparmor_restrict_unprivileged_userns (Ubuntu)"
            ),
        ) from None


def _start_squashfuse(program: str, image: OpenImage) -> int:
    """Start a squashfuse that is nobody's child; it waits for a byte written to the result."""
    from stackproof.mount.effects.methods import confine  # noqa: PLC0415 - the kernel needs none

    go, start = os.pipe()
    child = os.fork()
    if child == 0:
        status = 127
        try:
            os.setsid()
            if os.fork() == 0:
                _serve(program, image, go, confine)
            status = 0
        finally:
            os._exit(status)
    os.close(go)
    os.waitpid(child, 0)
    return start


def _serve(program: str, image: OpenImage, go: int, confine: Callable[[str, int], None]) -> None:
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
        confine(program, image.descriptor)
        archive, mounted = f"/proc/self/fd/{image.descriptor}", f"/dev/fd/{image.fuse}"
        os.execve(program, (program, "-f", archive, mounted), {"PATH": "/usr/bin:/bin"})  # noqa: S606 - argv, no shell


def _mount_by_fuse(image: OpenImage, target: str) -> None:
    options = (
        f"fd={image.fuse},rootmode=40000,user_id={os.geteuid()},group_id={os.getegid()},"
        "default_permissions,allow_other"
    )
    try:
        libc.mount(image.path, target, "fuse.squashfuse", libc.READ_ONLY, options)
    except OSError as error:
        raise MountFailure("mount-failed", f"cannot mount by FUSE: {error.strerror}") from None
    os.write(image.start, b"g")
    os.close(image.start)
    os.close(image.fuse)  # squashfuse alone holds it now: if it ends, nobody waits for ever
    try:
        os.listdir(target)  # waits for the first answers; a damaged image has none
    except OSError as error:
        said = os.pread(image.complaints, 4096, 0).decode(errors="replace").strip()
        raise MountFailure(
            "mount-failed",
            f"squashfuse cannot mount `{image.path}`: {said.splitlines()[-1] if said else error}",
            "the image is damaged or uses a compression that this squashfuse lacks",
        ) from None
    finally:
        os.close(image.complaints)


def around(target: str, marker: str) -> str:
    """Return the image that a command around this one has mounted there; empty for none.

    `marker` is the mount list of the commands around, which other machines may have inherited.
    """
    for entry in reversed(marker.split(",")):
        image, _, point = entry.rpartition(":")
        if image and os.path.realpath(point) == target and os.path.ismount(target):
            return image
    return ""


def occupied(target: str, marker: str) -> MountFailure:
    """Return the error for a mount point that is not empty."""
    if image := around(target, marker):
        return MountFailure(
            "mount-point-occupied",
            f"`{image}` is mounted at `{target}` already, by the `run` or `start` around this one",
            "leave this one out where it is the same image, or end that one first; another mount "
            "point does not help an image that was made for this one",
        )
    return MountFailure(
        "mount-point-occupied",
        f"the mount point `{target}` is not empty: files or another mount are there",
        "give another mount point: IMAGE:MOUNT",
    )


def confine(program: str, image: int) -> None:
    """Put the walls around this process, for good; `image` is open. Raises `OSError`."""
    walls.no_new_rights()
    walls.restrict_files(program, image)
    walls.restrict_calls(walls.reading_filter(os.uname().machine))
