"""Programs of aarch64 on a machine of x86_64: a root of Debian, and an emulator in the kernel.

root = armlab.root(tmp_path)
run(armlab.inside(root, "uname", "-m"))

The emulator is registered in a user namespace of each command's own (Linux 6.7 and newer), so that
nothing on the machine starts such programs by chance. Its compiler is the cross compiler of this
machine, which the emulator would take ten times as long for.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
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
    "libgcc-s1", "libgmp10", "libpcre2-8-0", "libselinux1", "libtinfo6", "sed",
)  # fmt: skip
_COMPILERS = ("cc1", "collect2", "liblto_plugin.so", "lto-wrapper")


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
    """Return a root of Debian for arm64 that has a C compiler of x86_64."""
    made = debianroot.bare(
        folder, platform.freedesktop_os_release()["VERSION_CODENAME"], *_PACKAGES,
        architecture="arm64",
    )  # fmt: skip
    (made / "etc" / "passwd").write_text("root:x:0:0::/:/bin/sh\n")
    _put_compiler(made)
    return made


def _put_compiler(made: Path) -> None:
    """Put this machine's cross compiler, and what it loads, into a root."""
    own, folder = f"/usr/{TRIPLET}", os.path.dirname(_place_of("libgcc.a"))
    programs = [f"/usr/bin/{TRIPLET}-{name}" for name in ("gcc", "as", "ld")]
    parts = [_place_of(name) for name in _COMPILERS]
    parts += [f"{folder}/{name}" for name in ("include", "libgcc.a", "libgcc_s.so")]
    parts += [str(one) for one in Path(folder).glob("crt*.o")]
    parts += [f"{own}/bin", f"{own}/include", f"{own}/lib"]
    said = subprocess.run(
        ["ldd", _place_of("cc1"), *programs],
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    libraries = {word for word in said.stdout.split() if word.startswith("/lib")}
    for path in (*parts, *programs, *sorted(libraries)):
        target = made / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        if os.path.isdir(path):
            shutil.copytree(path, target, ignore=shutil.ignore_patterns("lib*san*"), symlinks=True)
        else:
            shutil.copy(path, target)
    for name in ("gcc", "cc"):
        (made / "usr" / "bin" / name).symlink_to(COMPILER)


def _place_of(name: str) -> str:
    argv = [COMPILER, f"-print-file-name={name}"]
    said = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=600)
    return said.stdout.strip()
