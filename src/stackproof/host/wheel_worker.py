"""Unpack one wheel at its final place; runs inside the build sandbox.

    python -I -S wheel_worker.py WHEEL PREFIX

Self-contained but for the `installer` library, which lies beside it in the sandbox. Files of the
wheel's `data` and `scripts` go below PREFIX and keep their execute bits; Python modules go to
PREFIX/lib/python/site-packages, whatever Python runs this, so that the result is the same
everywhere. Every member's digest is checked against the wheel's own RECORD.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))


def main(wheel: str, prefix: str) -> None:
    """Install `wheel` below `prefix`."""
    from installer import install  # noqa: PLC0415 - lies in the sandbox's tools folder
    from installer.destinations import SchemeDictionaryDestination  # noqa: PLC0415
    from installer.sources import WheelFile  # noqa: PLC0415

    os.umask(0o022)
    modules = f"{prefix}/lib/python/site-packages"
    destination = SchemeDictionaryDestination(
        {
            "data": prefix,
            "scripts": f"{prefix}/bin",
            "headers": f"{prefix}/include",
            "purelib": modules,
            "platlib": modules,
        },
        interpreter="/usr/bin/python3",
        script_kind="posix",
    )
    with WheelFile.open(wheel) as source:
        source.validate_record(validate_contents=True)
        install(source, destination, additional_metadata={"INSTALLER": b"stackproof\n"})


if __name__ == "__main__":
    main(*sys.argv[1:])
