"""Run programs with mounted images in tests: as root, and as a user without any right.

A user without rights cannot read pytest's folders nor, perhaps, this checkout; root therefore
makes a private mount namespace where both are bound below /mnt and where /dev/fuse is for all.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import need

SOURCE = Path(__file__).parents[1] / "src"
_PRIVATE = """
set -e
mount -t tmpfs tmpfs /mnt
mkdir /mnt/src /mnt/tmp /mnt/dev
mount --bind "$1" /mnt/src
mount --bind "$2" /mnt/tmp
if [ "$3" = fuse ]; then
  mknod -m 666 /mnt/dev/fuse c 10 229
  mount --bind /mnt/dev/fuse /dev/fuse
fi
shift 3
cd /mnt/tmp
exec "$@"
"""


@dataclass(frozen=True)
class Way:
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
        private = ["unshare", "--mount", "sh", "-c", _PRIVATE, "sh", SOURCE, self.real_folder]
        user = need.as_unprivileged(texts)
        return [*map(os.fspath, private), "fuse" if fuse else "no", *user]

    @property
    def python(self) -> list[str]:
        """Return a Python that this way's user can start, and that finds our package."""
        if not self.private:
            return [sys.executable]
        return ["env", "PYTHONPATH=/mnt/src", "PYTHONDONTWRITEBYTECODE=1", "/usr/bin/python3"]

    @property
    def stackproof(self) -> list[str]:
        """Return the start of a stackproof command line."""
        return [*self.python, "-m", "stackproof"]

    @property
    def mountexec(self) -> list[str]:
        """Return the start of a mountexec command line that forces this way."""
        source = Path("/mnt/src") if self.private else SOURCE
        script = os.fspath(source / "stackproof/host/mountexec.py")
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
            ["/usr/bin/python3", "-c", "import sys; sys.exit(sys.version_info < (3, 11))"],
            check=False,
        )
        if done.returncode:
            pytest.skip("/usr/bin/python3 is not Python 3.11 or newer")
        return Way(how, folder, private=True)
    need.need("userns")
    return Way(how, folder, private=False)
