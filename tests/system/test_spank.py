"""The Slurm plug-in on a real cluster of two nodes: some of the cases of tools/slurm_matrix.py.

All of them, on more nodes, and those with an MPI in the image: `python tools/slurm_matrix.py`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nativebuild import built
from need import need

TOOLS = Path(__file__).parents[2] / "tools"
sys.path.insert(0, str(TOOLS))

from slurm_cases import CASES  # noqa: E402 - only now on the path
from slurm_site import Site, Wrong  # noqa: E402

_CHOICE = (
    "srun", "sbatch", "salloc", "login session", "two users", "cancelled", "crashing",
    "slurmd killed", "bad image", "not on the node", "private image", "unchecked lists",
)  # fmt: skip


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    need("root", "slurm", "netns", "kernel-mount", "mksquashfs")
    plugin = built(tmp_path_factory.mktemp("native"), "spank/stackproof_spank.so")
    folder = tmp_path_factory.mktemp("site")
    site = Site(folder, nodes=2, plugin=plugin, name=f"spank-{os.getpid()}")
    try:
        site.up()
        yield site
    finally:
        site.down()


@pytest.mark.parametrize("name", _CHOICE)
def test_case(site: Site, name: str) -> None:
    try:
        CASES[name](site)
    finally:
        site.settle()


def test_what_is_left_is_seen(site: Site) -> None:
    """Nothing above would be worth anything otherwise."""
    image = f"{site.folder}/one.squashfs"

    def on_node(*words: str) -> str:
        done = site.run("srun", "-N1", "-n1", "-w", "node2", *words, user=None)
        assert done.code == 0, done.err
        return done.out.strip()

    on_node("mount", "-o", "loop", image, "/mnt/one")
    assert any(text.startswith("mount ") for text in site.leftovers())
    on_node("umount", "/mnt/one")
    device = on_node("losetup", "--find", "--show", image)
    assert site.leftovers() == [f"loop device {device.removeprefix('/dev/')} {image}"]
    on_node("losetup", "--detach", device)
    on_node("touch", "/tmp/left")
    with pytest.raises(Wrong, match="left: node2:/tmp/left"):
        site.settle()
    on_node("rm", "/tmp/left")
    site.settle()
