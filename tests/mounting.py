"""Run programs with mounted images in tests: as root, and as a user without any right.

A user without rights cannot read pytest's folders nor, perhaps, this checkout; root therefore
makes a private mount namespace where both are bound below /mnt and where /dev/fuse is for all.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import need
from images import make_image
from stackproof.core.value import Value

_TIMEOUT_S = 600
SOURCE = Path(__file__).parents[1] / "src"
_PRIVATE = """
set -e
mount -t tmpfs tmpfs /mnt
mkdir /mnt/src /mnt/packages /mnt/tmp /mnt/dev
mount --bind "$1" /mnt/src
mount --bind "$2" /mnt/packages
mount --bind "$3" /mnt/tmp
if [ "$4" = fuse ]; then
  mknod -m 666 /mnt/dev/fuse c 10 229
  mount --bind /mnt/dev/fuse /dev/fuse
fi
shift 4
cd /mnt/tmp
exec "$@"
"""
_UNSHARE = ["unshare", "--mount", "sh", "-c", _PRIVATE, "sh"]
_SYSTEM = "/usr/bin/python3"


class Way(Value, kw_only=False):
    """How to run: `how` is kernel or fuse; `folder` is the test's folder as the program sees it."""

    how: str
    real_folder: Path
    private: bool

    @property
    def folder(self) -> Path:
        return Path("/mnt/tmp") if self.private else self.real_folder

    def argv(self, *words: str | Path, fuse: bool = True) -> list[str]:
        """Return an argv that runs `words` in the folder as this way's user."""
        texts = [os.fspath(word) for word in words]
        if not self.private:
            return ["env", f"--chdir={self.real_folder}", *texts]
        private = [*_UNSHARE, SOURCE, sysconfig.get_path("purelib"), self.real_folder]
        user = need.as_unprivileged(texts)
        return [*map(os.fspath, private), "fuse" if fuse else "no", *user]

    @property
    def python(self) -> list[str]:
        """Return a Python that this way's user can start, and that finds our package."""
        if not self.private:
            return [sys.executable]
        return ["env", "PYTHONPATH=/mnt/src:/mnt/packages", "PYTHONDONTWRITEBYTECODE=1", _SYSTEM]

    @property
    def stackproof(self) -> list[str]:
        """Return the start of a stackproof command line."""
        return [*self.python, "-m", "stackproof"]

    @property
    def mountexec(self) -> list[str]:
        """Return the start of a mountexec command line that forces this way."""
        source = Path("/mnt/src") if self.private else SOURCE
        script = os.fspath(source / "stackproof/mount/effects/mount_exec.py")
        return [*self.python, "-I", "-S", script, "--how", self.how]


def way(how: str, folder: Path) -> Way:
    """Return a way to mount, or skip the test where it cannot work."""
    need.need("mksquashfs")
    folder.chmod(0o755)
    if how == "kernel":
        need.need("root", "kernel-mount")
        return Way(how, folder, private=False)
    need.need("squashfuse", "fuse")
    if os.geteuid() == 0:
        need.need("unprivileged-userns")
        done = subprocess.run(
            [
                _SYSTEM,
                "-c",
                f"import sys; sys.exit(sys.version_info[:2] != {sys.version_info[:2]})",
            ],
            check=False,
        )
        if done.returncode:
            pytest.skip(f"{_SYSTEM} is of another release than the tests' Python")
        return Way(how, folder, private=True)
    need.need("userns")
    return Way(how, folder, private=False)


def put_image(mounter: Way, name: str = "a.squashfs", **options: object) -> Path:
    make_image(mounter.real_folder / name, **options)
    return mounter.folder / name


def put_folder(mounter: Way, name: str = "mount") -> Path:
    (mounter.real_folder / name).mkdir()
    return mounter.folder / name


def run_words(argv: list[str], **options: object) -> subprocess.CompletedProcess[str]:
    # A folder of PATH without the right to look into it would make 126 of a 127, as with env(1).
    environment = {**os.environ, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    return subprocess.run(
        argv, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False, env=environment,
        **options,
    )  # fmt: skip


def mounted(mounter: Way, mounts: str, *command: str | Path) -> subprocess.CompletedProcess[str]:
    return run_words(mounter.argv(*mounter.mountexec, mounts, "--", *command))


def reason_of(done: subprocess.CompletedProcess[str]) -> str:
    """Return the reason of a failure, which is one line and perhaps a hint."""
    lines = done.stderr.splitlines()
    assert lines, done
    assert lines[0].startswith("error: ["), done.stderr
    assert all(line.startswith("hint: ") for line in lines[1:]), done.stderr
    return lines[0].removeprefix("error: [").partition("]")[0]
