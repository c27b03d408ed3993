"""One part of native/, built for the tests of another folder.

plugin = built(tmp_path, "spank/stackproof_spank.so")
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from need import need

NATIVE = Path(__file__).parents[1] / "native"
_TIMEOUT_S = 1500


def built(folder: Path, target: str) -> Path:
    """Compile one target of native/ in a folder, and return it; warnings are errors."""
    need("meson", "gcc")
    for argv in (["meson", "setup", folder, NATIVE], ["ninja", "-C", folder, target]):
        done = subprocess.run(
            argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=_TIMEOUT_S,
            check=False, env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"},
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-4000:]
    return folder / target
