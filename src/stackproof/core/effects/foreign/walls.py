"""Walls around a program that parses what a stranger made; put up by the process that becomes it.

Only the system calls are left that the program needs (seccomp); where the kernel has Landlock, no
file but the image, the libraries of the system, the program, and the folder that it writes to. A
program that writes gets a root with no more than these where there is no Landlock. So no network,
no other process, no home folder. Whoever writes cannot make a file that is set-uid or
set-gid, a device, a pipe, a socket, nor give a file an owner or extended attributes. As root a user
without rights takes over first.

Imports little of the standard library: `mount_exec` starts squashfuse behind these walls, too.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct

_libc = ctypes.CDLL(None, use_errno=True)
_syscall = _libc.syscall
# The calls named in `native/helper/confine.c`, by their numbers here; a test compares the two.
READING = {
    "x86_64": (
        0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 19, 20, 21, 22, 24, 25, 28,
        32, 33, 35, 39, 59, 60, 63, 72, 79, 80, 89, 95, 96, 97, 102, 104, 107, 108, 131, 137, 138,
        158, 186, 201, 202, 204, 217, 218, 219, 221, 228, 230, 231, 257, 262, 267, 269, 271, 273,
        275, 278, 292, 293, 295, 302, 318, 332, 334,
    ),
    "aarch64": (
        17, 23, 24, 25, 29, 43, 44, 48, 49, 56, 57, 59, 61, 62, 63, 64, 65, 66, 67, 69, 73, 75, 76,
        78, 79, 80, 93, 94, 96, 98, 99, 101, 113, 115, 123, 124, 128, 132, 134, 135, 139, 160,
        166, 169, 172, 174, 175, 176, 177, 178, 214, 215, 216, 221, 222, 223, 226, 233, 261, 278,
        291, 293,
    ),
}  # fmt: skip
# Besides, of unpackers: sysinfo, setitimer, rt_sigtimedwait, faccessat2, fsync, prctl for debugfs.
_UNPACKING = {"x86_64": (38, 74, 99, 128, 439), "aarch64": (82, 103, 137, 179, 439)}
# Those that write: link, symlink, unlink and their kin, times of files, pwrite, (f)truncate.
_WRITING = {
    "x86_64": (18, 76, 77, 86, 87, 88, 132, 235, 261, 263, 266, 280, 285),
    "aarch64": (35, 36, 45, 46, 47, 68, 88),
}
_LINKAT = {"x86_64": 265, "aarch64": 37}
# fcntl, of which F_SETOWN, F_SETSIG and F_SETOWN_EX have a signal sent; prlimit, for itself alone.
_FCNTL, _PRLIMIT = {"x86_64": 72, "aarch64": 25}, {"x86_64": 302, "aarch64": 261}
_SIGNALLING = (8, 10, 15)
# open and openat: the call, and which argument is its flags; a mode follows.
_OPENING = {"x86_64": ((2, 1), (257, 2)), "aarch64": ((56, 2),)}
# mkdir, mkdirat, chmod, fchmod, fchmodat: the call, and which argument is its mode.
_WITH_MODE = {
    "x86_64": ((83, 1), (258, 2), (90, 1), (91, 1), (268, 2)),
    "aarch64": ((34, 2), (52, 1), (53, 2)),
}
_ARCHITECTURES = {"x86_64": (0xC000003E, 56), "aarch64": (0xC00000B7, 220)}  # and clone's number
_CLONE3, _CLONE_THREAD = 435, 0x00010000
_LOAD, _EQUAL, _ANY, _RETURN = 0x20, 0x15, 0x45, 0x06
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0, 0x00050000
_EPERM, _ENOSYS = 1, 38
_SET_ID = 0o6000
_MAKES = 0x400040  # O_CREAT, O_TMPFILE
_WRITES = 0o3 | 0o1000 | _MAKES  # O_WRONLY, O_RDWR, O_TRUNC
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE = 1, 4
_PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS, _FILTER = 22, 38, 2
_SIGKILL, _NOBODY = 9, 65534
_UNKNOWN_USER = (1, 22)  # EPERM of setgroups, EINVAL
_NEW_USER, _NEW_OTHERS = 0x10000000, 0x40000000 | 0x08000000  # network, IPC
_NEW_MOUNTS = 0x00020000
# mount(2), umount2(2)
_READ_ONLY, _REMOUNT, _BIND, _MOVE = 0x1, 0x20, 0x1000, 0x2000
_RECURSIVE, _PRIVATE, _DETACH = 0x4000, 0x40000, 2
_ESTALE = 116
_SHARED = "/tmp"  # noqa: S108 - where a new root begins: a folder of every system, covered
# linux/landlock.h
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_EXECUTE, _READ_FILE, _READ_FOLDER = 1, 4, 8
_WRITE = 0x2 | _READ_FILE | _READ_FOLDER | 0x30 | 0x180 | 0x1000  # files, folders and links alone
_LINK_ELSEWHERE, _CUT = 0x2000, 0x4000
_RIGHTS = (0, 0x1FFF, 0x3FFF, 0x7FFF)
WRITING_LANDLOCK = 2
"""The version of Landlock from which on it confines who writes."""
_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib")
_FILES = ("/etc/ld.so.cache", "/etc/fuse.conf", "/dev/null")
_FACTS = ("/proc", "/sys/devices/system/cpu")
_ROOT = ("/usr", "/bin", "/sbin", "/lib", "/lib64", *_FILES, *_FACTS)
_SYSTEM = ("/usr/", "/bin/", "/sbin/")
_ALONE = "this root knows no other user, and may make no user namespace"

Row = tuple[int, int, int, int]


def no_new_rights() -> None:
    """Let no program that this process becomes have more rights than it. Raises `OSError`."""
    if _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "no-new-privileges")


def reading_filter(machine: str) -> bytes | None:
    """Return the filter of squashfuse; None for a kind of machine that is not known."""
    return _filter(machine, READING[machine], []) if machine in READING else None


def unpacking_filter(machine: str, *, writes: bool) -> bytes | None:
    """Return the filter of an unpacker; None for a kind of machine that is not known.

    One that does not write opens files to read them alone.
    """
    if machine not in READING:
        return None
    looked_at = {number for number, _ in _OPENING[machine]}
    calls = (*(number for number in READING[machine] if number not in looked_at),
             *_UNPACKING[machine], *(_WRITING[machine] if writes else ()))  # fmt: skip
    rows: list[Row] = []
    for number, flags in _OPENING[machine]:
        rows += _when(number, _opening(flags) if writes else _without(flags, _WRITES))
    if writes:
        for number, mode in _WITH_MODE[machine]:
            rows += _when(number, _without(mode, _SET_ID))
        rows += _when(_LINKAT[machine], _without(4, 0xFFFFFFFF))
    return _filter(machine, calls, rows)


def _filter(machine: str, calls: tuple[int, ...], more: list[Row]) -> bytes:
    architecture, clone = _ARCHITECTURES[machine]
    rows: list[Row] = [
        (_LOAD, 0, 0, 4),
        (_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, 0),
    ]
    for number in calls:
        if number not in {_FCNTL[machine], _PRLIMIT[machine]}:
            rows += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ALLOW)]
    rows += _when(_FCNTL[machine], _none_of(1, _SIGNALLING))
    rows += _when(_PRLIMIT[machine], _without(0, 0xFFFFFFFF))
    rows += more
    rows += [
        (_EQUAL, 0, 1, _CLONE3), (_RETURN, 0, 0, _ERRNO | _ENOSYS),  # libc then takes clone
        (_EQUAL, 0, 3, clone), (_LOAD, 0, 0, 16), (_ANY, 0, 1, _CLONE_THREAD),
        (_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _ERRNO | _EPERM),
    ]  # fmt: skip
    return b"".join(struct.pack("=HBBI", *row) for row in rows)


def _when(number: int, then: list[Row]) -> list[Row]:
    """Judge a call by rows that all end in an answer."""
    return [(_EQUAL, 0, len(then), number), *then]


def _without(argument: int, bits: int) -> list[Row]:
    """Refuse a call where an argument has one of some bits."""
    return [
        (_LOAD, 0, 0, 16 + 8 * argument),
        (_ANY, 0, 1, bits),
        (_RETURN, 0, 0, _ERRNO | _EPERM),
        (_RETURN, 0, 0, _ALLOW),
    ]


def _none_of(argument: int, values: tuple[int, ...]) -> list[Row]:
    """Refuse a call where an argument is one of some values."""
    return [
        (_LOAD, 0, 0, 16 + 8 * argument),
        *((_EQUAL, len(values) - place, 0, value) for place, value in enumerate(values)),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _ERRNO | _EPERM),
    ]


def _opening(flags: int) -> list[Row]:
    """Look at the mode of a file that is made; otherwise that argument is anything."""
    return [
        (_LOAD, 0, 0, 16 + 8 * flags),
        (_ANY, 1, 0, _MAKES),
        (_RETURN, 0, 0, _ALLOW),
        *_without(flags + 1, _SET_ID),
    ]


def restrict_calls(program: bytes | None) -> None:
    """Put a filter on this process, for good; a kernel without filters does without.

    Raises `OSError`.
    """
    if program is None:
        return
    kept = ctypes.create_string_buffer(program, len(program))
    head = struct.pack("@HxxxxxxP", len(program) // 8, ctypes.addressof(kept))
    if _libc.prctl(_PR_SET_SECCOMP, _FILTER, head, 0, 0) != 0 and ctypes.get_errno() != _ENOSYS:
        raise OSError(ctypes.get_errno(), "seccomp")


def landlock_version() -> int:
    """Return the version of Landlock's interface, nothing positive where there is none."""
    return int(_syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), 1))


def restrict_files(program: str, image: int, folder: int = -1) -> bool:
    """Leave this process, where the kernel can, the program, an open image and an open folder.

    Return false where the kernel cannot. A program from elsewhere has its libraries anywhere: it
    may read all files, and writes no other.
    """
    version = landlock_version()
    # Before the second version no file can get a name in another folder, as the names of one file
    # in an image have it.
    if version < (1 if folder < 0 else WRITING_LANDLOCK):
        return False
    rights = _RIGHTS[min(version, 3)]
    handled = struct.pack("=Q", rights)
    rules = _syscall(_CREATE_RULESET, handled, ctypes.c_size_t(len(handled)), 0)
    if rules < 0:
        return False
    for path in _LIBRARIES if program.startswith("/usr/") else ("/",):
        _permit_path(rules, path, _EXECUTE | _READ_FILE | _READ_FOLDER)
    for path in _FACTS:
        _permit_path(rules, path, _READ_FILE | _READ_FOLDER)
    for path in _FILES:
        _permit_path(rules, path, _READ_FILE)
    _permit_path(rules, program, _EXECUTE | _READ_FILE)
    _permit(rules, image, _READ_FILE)
    if folder >= 0:
        _permit(rules, folder, rights & (_WRITE | _LINK_ELSEWHERE | _CUT))
    restricted = _syscall(_RESTRICT_SELF, rules, 0) == 0
    os.close(rules)
    return bool(restricted)


def leave_all_but(program: str, folder: int, *, writable: tuple[str, ...] = ()) -> bool:
    """Give this process a root with the system's programs, and an open folder to write to.

    Return false where this user may not make such a root (user_namespaces(7)). All but that folder
    and what is `writable` is read-only. A program from elsewhere has its libraries anywhere, and
    may read all files; of others no other file can be named. Raises `OSError`.
    """
    user, group = os.geteuid(), os.getegid()
    if _libc.unshare(_NEW_MOUNTS) != 0:
        if _libc.unshare(_NEW_USER | _NEW_MOUNTS) != 0:
            return False
        _map_user(user, group)
    _mount("none", "/", _RECURSIVE | _PRIVATE)
    # A folder that was opened before belongs to the mounts of before: it is opened again.
    inside = os.open(os.readlink(f"/proc/self/fd/{folder}"), os.O_PATH | os.O_DIRECTORY)
    if not os.path.samestat(os.fstat(inside), os.fstat(folder)):
        raise OSError(_ESTALE, "the folder to unpack into was moved")
    root = os.path.realpath(_SHARED)
    _fill_root(root, _ROOT if program.startswith(_SYSTEM) else _list_all())
    os.makedirs(f"{root}/unpacked", exist_ok=True)
    for target in _mounts_below(root):
        if target.removeprefix(root) in writable:
            continue
        _mount("none", target, _REMOUNT | _BIND | _READ_ONLY | _flags(target))
    _bind(inside, f"{root}/unpacked")
    os.chdir(root)
    if _libc.pivot_root(b".", b".") != 0:  # a root in memory, of a node without disks, stays
        _mount(".", "/", _MOVE)
        os.chroot(".")
    elif _libc.umount2(b".", _DETACH) != 0:
        raise OSError(ctypes.get_errno(), "umount2")
    os.chdir("/unpacked")
    return True


def _list_all() -> tuple[str, ...]:
    """Return all paths of the root folder; of devices only one, as others can be written to."""
    return (*(f"/{name}" for name in sorted(os.listdir("/")) if name != "dev"), "/dev/null")


def _fill_root(root: str, paths: tuple[str, ...]) -> None:
    """Let these paths of the old root appear in a new one, in memory."""
    places = {path: os.open(path, os.O_PATH) for path in paths if os.path.exists(path)}
    links = {path: os.readlink(path) for path in places if os.path.islink(path)}
    _mount("tmpfs", root, 0, "tmpfs", b"size=1m,nr_inodes=1k,mode=755")
    for path, place in places.items():
        target = root + path
        if path in links:
            os.symlink(links[path], target)
        elif not os.path.lexists(target):
            _bind(place, target)
        if path not in links and f"{root}/".startswith(f"{path}/"):  # what covers it came with it
            _libc.umount2(os.fsencode(root + root), _DETACH)
        os.close(place)


def _bind(place: int, target: str) -> None:
    """Let what is open appear at a path of the new root, with what is mounted below it."""
    if stat.S_ISDIR(os.fstat(place).st_mode):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC))
    _mount(f"/proc/self/fd/{place}", target, _BIND | _RECURSIVE)


def _mounts_below(folder: str) -> list[str]:
    """Return a folder and the mount points in it that have a name, those of other mounts too."""
    with open("/proc/self/mountinfo", "rb") as stream:
        points = [line.split()[4] for line in stream]
    # A blank in a path is written as \040.
    real = {os.fsdecode(point.decode("unicode_escape").encode("latin-1")) for point in points}
    inside = {point for point in real if point.startswith(f"{folder}/")}
    return [point for point in sorted({folder, *inside}) if os.path.lexists(point)]


def _mount(
    source: str, target: str, flags: int, kind: str = "none", options: bytes | None = None
) -> None:
    words = [os.fsencode(word) for word in (source, target, kind)]
    if _libc.mount(*words, ctypes.c_ulong(flags), options) != 0:
        raise OSError(ctypes.get_errno(), f"mount {target}")


def _flags(path: str) -> int:
    """Return the flags of a mount that a user may not take away, for mount(2).

    Those of access times stay by themselves where none is named.
    """
    kept = (os.ST_NOSUID, os.ST_NODEV, os.ST_NOEXEC)
    return sum(os.statvfs(path).f_flag & flag for flag in kept)


def _permit_path(rules: int, path: str, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:  # this system has none
        return
    _permit(rules, place, rights)
    os.close(place)


def _permit(rules: int, place: int, rights: int) -> None:
    _syscall(_ADD_RULE, rules, 1, struct.pack("=Qi", rights, place), 0)


def become(users: tuple[int, ...]) -> bool:
    """Be the first user that this root knows, without rights and groups.

    Namespaces of its own follow where they can be made. A root that knows itself alone, in a
    namespace, leaves that one for another in which it is nobody; false is returned then. Raises
    `OSError`.
    """
    for user in users if users != (0,) else ():
        try:
            os.setgroups([])
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)
            break
        except OSError as error:
            if error.errno not in _UNKNOWN_USER:
                raise
    outer_user, outer_group = os.geteuid(), os.getegid()
    _libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)  # otherwise /proc/self belongs to root
    # A new network costs milliseconds, and the filter lets nobody use one.
    others = 0 if os.uname().machine in READING else _NEW_OTHERS
    if _libc.unshare(_NEW_USER | others) != 0:
        if outer_user == 0:
            raise OSError(ctypes.get_errno(), _ALONE)
        return True
    _map_user(outer_user, outer_group)
    return outer_user != 0


def _map_user(user: int, group: int) -> None:
    """Be nobody in the new namespace of users, and outside of it who one was."""
    _tell("/proc/self/setgroups", "deny")
    _tell("/proc/self/uid_map", f"{_NOBODY} {user} 1")
    _tell("/proc/self/gid_map", f"{_NOBODY} {group} 1")


def limit(kind: int, most: int) -> None:
    """Bound what this process may use, as setrlimit(2), no lower than it is already bounded."""
    bounds = (ctypes.c_ulong * 2)()
    _libc.prlimit(0, kind, None, bounds)
    bounds[0] = bounds[1] = min(most, bounds[1])
    _libc.prlimit(0, kind, bounds, None)


def end_with_parent() -> None:
    """Let the kernel end this process when the one that started it ends."""
    _libc.prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0)


def default_signals(numbers: tuple[int, ...]) -> None:
    """Give signals their default actions: Python ignores some, and its `signal` is slow to load."""
    for number in numbers:
        _libc.signal(number, None)


def _tell(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
