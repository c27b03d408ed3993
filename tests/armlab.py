"""Programs of aarch64 on a machine of x86_64: a root of Debian, and an emulator in the kernel.

root = armlab.root(tmp_path)
run(armlab.inside(root, "uname", "-m"))

The emulator is registered in a user namespace of each command's own (Linux 6.7 and newer), so that
nothing on the machine starts such programs by chance. What compiles for it is the cross compiler of
this machine.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence
from pathlib import Path

import debianroot

TRIPLET = "aarch64-linux-gnu"
COMPILER = f"{TRIPLET}-gcc"
_REGISTRATION = "/usr/lib/binfmt.d/qemu-aarch64.conf"
# Where the kernel has no such namespaces, an administrator may have registered the emulator.
_SCRIPT = """
if mount -t binfmt_misc none /proc/sys/fs/binfmt_misc 2>/dev/null; then
    grep '^:' "$0" >/proc/sys/fs/binfmt_misc/register
fi
exec "$@"
"""
_PACKAGES = (
    "base-files", "bash", "coreutils", "dash", "libacl1", "libattr1", "libc-bin", "libc6",
    "libgcc-s1", "libgmp10", "libpcre2-8-0", "libselinux1", "libtinfo6",
)  # fmt: skip


def emulated(*argv: str | Path) -> list[str]:
    """Return the argv that runs a command whose programs may be of aarch64."""
    own = ["unshare", "--user", "--map-root-user", "--mount", "--", "sh", "-c", _SCRIPT]
    return [*own, _REGISTRATION, *map(str, argv)]


def inside(root: Path, *argv: str | Path, binds: Sequence[tuple[Path, str]] = ()) -> list[str]:
    """Return the argv that runs a command in a root; `binds` are paths here and there."""
    words = [
        "bwrap",
        "--ro-bind",
        str(root),
        "/",
        "--dev",
        "/dev",
        "--proc",
        "/proc",
        "--ro-bind",
        "/sys",
        "/sys",
    ]
    for _, there in binds:
        (root / there.lstrip("/")).mkdir(parents=True, exist_ok=True)
    words += ["--tmpfs", "/tmp", "--clearenv", "--setenv", "PATH", "/usr/bin:/bin"]
    words += [word for here, there in binds for word in ("--ro-bind", str(here), there)]
    return emulated(*words, "--", *argv)


def beside(root: Path, *argv: str | Path) -> list[str]:
    """Return the argv that runs a command where this machine also has a root's C library.

    So Debian has it with `libc6:arm64`.
    """
    layers = f"/usr/lib:{root}/usr/lib:{root}/lib"
    script = 'mount -t overlay overlay -o "lowerdir=$0" /usr/lib && exec "$@"'
    own = ["unshare", "--user", "--map-root-user", "--mount", "--", "sh", "-c", script, layers]
    return [*own, *map(str, argv)]


def root(folder: Path) -> Path:
    """Return a root of Debian for arm64."""
    made = debianroot.bare(
        folder, platform.freedesktop_os_release()["VERSION_CODENAME"], *_PACKAGES,
        architecture="arm64",
    )  # fmt: skip
    (made / "etc" / "passwd").write_text("root:x:0:0::/:/bin/sh\n")
    return made
