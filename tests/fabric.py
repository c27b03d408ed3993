"""libfabric as an image, built from source once for all tests that want it.

    from fabric import fabric_image

    def test_lnx(...) -> None:
        image = fabric_image(tmp_path_factory)

It is what `recipes/libfabric.yaml` makes: libfabric 2.1.0 with tcp, shm, sm2, rxm and lnx. Building
it takes a minute or two; `need("easybuild")` says whether it can be built here.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import once
from need import need

RECIPE = Path(__file__).resolve().parents[1] / "recipes" / "libfabric.yaml"
PROVIDERS = frozenset(("tcp", "shm", "sm2", "rxm", "lnx"))
_LIMIT_S = 900


def fabric_image(factory: pytest.TempPathFactory) -> Path:
    """Return the image, built by whichever test asks first; other processes wait for it."""
    need("easybuild", "apt", "gcc", "bubblewrap", "mksquashfs")
    with once.folder(factory, "fabric") as folder:
        image = folder / "libfabric.squashfs"
        if not image.is_file():
            words = ["build", "--locked", "-o", os.fspath(image), os.fspath(RECIPE)]
            done = subprocess.run(
                [sys.executable, "-m", "stackproof", *words],
                capture_output=True,
                text=True,
                timeout=_LIMIT_S,
                check=False,
            )
            assert done.returncode == 0, done.stderr
    return image
