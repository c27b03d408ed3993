"""A store of podman for tests, with a container that holds an MPI and nothing that compiles.

with store(tree) as lab: lab.env, lab.image

The store lies below /var/tmp: nodes of a cluster on this machine have a /tmp of their own.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from need import need
from stackproof.core.value import Value

# What a machine without CAP_SYS_RESOURCE, and with the first release of control groups, needs.
_CONTAINERS = """[containers]
default_ulimits = []
cgroups = "enabled"
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
"""
_STORAGE = """[storage]
driver = "overlay"
graphroot = "{folder}/store"
runroot = "{folder}/run"
"""


class Store(Value, kw_only=False):
    """A folder with podman's files."""

    folder: Path

    @property
    def env(self) -> dict[str, str]:
        """Return the variables that name its settings."""
        return {
            "CONTAINERS_CONF": f"{self.folder}/containers.conf",
            "CONTAINERS_STORAGE_CONF": f"{self.folder}/storage.conf",
        }

    def add(self, name: str, root: Path) -> str:
        """Import a root as an image and return its name."""
        archive = self.folder / "root.tar"
        subprocess.run(["tar", "-cf", archive, "-C", root, "."], check=True, timeout=600)
        image = f"localhost/{name}:1"
        argv = ["podman", "import", "--quiet", archive, image]
        env = {**os.environ, **self.env}
        subprocess.run(argv, check=True, timeout=600, env=env, capture_output=True)
        archive.unlink()
        return image


@contextlib.contextmanager
def store() -> Iterator[Store]:
    """Give a store that is gone afterwards."""
    need("podman", "root")
    folder = Path(tempfile.mkdtemp(prefix="stackproof-test-", dir="/var/tmp"))
    folder.chmod(0o755)
    try:
        (folder / "containers.conf").write_text(_CONTAINERS)
        (folder / "storage.conf").write_text(_STORAGE.format(folder=folder))
        yield Store(folder)
    finally:
        subprocess.run(["umount", "-l", folder / "store" / "overlay"], check=False,
                       capture_output=True)  # fmt: skip
        shutil.rmtree(folder)


def root_with(folder: Path, mpi: Path | None, *, libc: bool = True) -> Path:
    """Make a root with a shell, `env`, the C library, and an MPI in /opt/mpi."""
    wanted = ["/bin/sh", "/usr/bin/env", *(map(str, mpi.glob("lib/*.so*")) if mpi else ())]
    needed = dict.fromkeys(path for one in wanted for path in _closure(one)) if libc else {}
    for path in (*wanted[:2], *needed):
        if mpi is None or not path.startswith(str(mpi)):
            target = folder / path.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(os.path.realpath(path), target)
    if mpi is not None:
        shutil.copytree(mpi / "lib", folder / "opt" / "mpi" / "lib", symlinks=True)
    for name in ("proc", "dev", "sys", "tmp", "etc", "run"):
        (folder / name).mkdir(exist_ok=True)
    return folder


def _closure(path: str) -> list[str]:
    done = subprocess.run(["ldd", path], capture_output=True, text=True, timeout=600, check=False)
    return [word for word in done.stdout.split() if word.startswith("/")]
