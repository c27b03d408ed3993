"""A /dev/shm of its own for a launch: like the machine's, shared by its ranks, gone with them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from images import make_image
from need import need
from stackproof.mount.effects import join, mount_exec

LINE = "25 24 0:23 / /dev/shm rw,relatime - tmpfs tmpfs rw,size=64k,nr_inodes=9,huge=always,inode64"


def test_options_are_those_of_the_machine() -> None:
    other = "30 25 0:27 / /proc rw - proc proc rw"
    assert join.options_of(f"{LINE}\n{other}\n") == ("mode=1777,size=64k,nr_inodes=9,huge=always")
    assert join.options_of(LINE.replace("rw,size", "rw,noswap,mpol=interleave:0,size")) == (
        "mode=1777,noswap,mpol=interleave:0,size=64k,nr_inodes=9,huge=always"
    )
    later = "31 25 0:28 / /dev/shm rw - tmpfs shm rw,size=9k"
    assert join.options_of(f"{LINE}\n{later}\n") == "mode=1777,size=9k"
    assert join.options_of(other) is None
    assert join.options_of("25 24 8:1 / /dev/shm rw - ext4 /dev/sda1 rw") is None


_SHOW = "grep ' /dev/shm ' /proc/self/mountinfo | tail -n 1; ls /dev/shm; echo x > /dev/shm/%s"


@pytest.mark.machine
@pytest.mark.parametrize("how", ["kernel", "fuse"])
def test_ranks_have_one_that_is_empty_and_gone_afterwards(how: str, tmp_path: Path) -> None:
    need("root" if how == "kernel" else "squashfuse", "userns")
    image = tmp_path / "a.squashfs"
    make_image(image)
    (tmp_path / "mount").mkdir()
    name = f"test-{os.getpid()}"
    argv = [sys.executable, "-I", "-S", mount_exec.__file__, "--how", how, "--own-shm"]
    done = subprocess.run(
        [*argv, f"{image}:{tmp_path}/mount", "--", "sh", "-c", _SHOW % name + f"; sh -c 'cat /dev/shm/{name}'"],
        capture_output=True, text=True, timeout=600, check=True,
    )  # fmt: skip
    mounted, *rest = done.stdout.splitlines()
    assert " - tmpfs stackproof " in mounted
    assert rest == ["x"]
    assert not Path("/dev/shm", name).exists()
    here = join.options_of(Path("/proc/self/mountinfo").read_text())
    assert join.options_of(mounted) == here
