"""The whole road without root: build, run, two nodes, a measured launch, as a user without rights."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from need import as_unprivileged, need

pytestmark = pytest.mark.machine

ROOT = Path(__file__).resolve().parents[2]
# Where /dev/fuse is for root only, one that is for all stands in its place, for this test alone.
SCRIPT = """
set -e
if [ "$(stat -c %a /dev/fuse)" != 666 ]; then
  mount -t tmpfs tmpfs /mnt
  mknod -m 666 /mnt/fuse c 10 229
  mount --bind /mnt/fuse /dev/fuse
fi
exec "$@"
"""
ROAD = """
set -e
stackproof() { "$PYTHON" -m stackproof "$@"; }
stackproof build mpich.yaml --locked
stackproof run mpich.squashfs -- mpichversion
stackproof cluster up --nodes 2 --name rootless
trap 'stackproof cluster down --name rootless' EXIT
stackproof bench small.yaml -o results --no-verdict
"""
SPEC = """
baseline: {image: mpich.squashfs}
null-arm: false
benchmarks: [latency]
sizes: [8, 64 KiB]
launches: 1
cluster: rootless
"""


def test_the_whole_road_without_root(tmp_path_factory, for_everybody):
    need("root", "unprivileged-user", "fuse", "squashfuse", "bubblewrap", "mksquashfs", "network")
    need("netns", "gcc", "unprivileged-userns")
    python, _ = for_everybody
    folder = tmp_path_factory.mktemp("rootless")
    for part in [folder, *folder.parents][:4]:
        part.chmod(part.stat().st_mode | 0o055)
    folder.chmod(0o777)
    for name in ("mpich.yaml", "mpich.lock.json"):
        shutil.copy(ROOT / "recipes" / name, folder)
    (folder / "small.yaml").write_text(SPEC)
    (folder / "run").mkdir(mode=0o700)
    os.chown(folder / "run", 65534, 65534)
    env = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(folder), "PYTHON": python,
        "XDG_RUNTIME_DIR": str(folder / "run"), "LANG": "C.UTF-8",
    }  # fmt: skip
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", SCRIPT, "sh", *as_unprivileged(["sh", "-c", ROAD])],
        cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert "MPICH Version" in done.stdout
    assert len(list((folder / "results" / "launches").iterdir())) == 4
    owner = (folder / "mpich.squashfs").stat().st_uid
    assert owner == 65534
