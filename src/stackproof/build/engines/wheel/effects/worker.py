"""Unpack one wheel at its final place; runs inside the build sandbox.

    python -I -S wheel_worker.py WHEEL PREFIX

Self-contained but for the `installer` library, which lies beside it in the sandbox. Files of the
wheel's `data` and `scripts` go below PREFIX and keep their execute bits; Python modules go to
PREFIX/lib/python/site-packages, whatever Python runs this, so that the result is the same
everywhere. Every member's digest is checked against the wheel's own RECORD. Wheels of one stack
may bring the same file (a licence text); the same name with other content is an error.
"""

from __future__ import annotations

import base64
import hashlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from installer.utils import Scheme


def main(wheel: str, prefix: str) -> None:
    """Install `wheel` below `prefix`."""
    from installer import install  # noqa: PLC0415 - lies in the sandbox's tools folder
    from installer.destinations import SchemeDictionaryDestination  # noqa: PLC0415
    from installer.records import Hash, RecordEntry  # noqa: PLC0415
    from installer.sources import WheelFile  # noqa: PLC0415

    class Destination(SchemeDictionaryDestination):
        def write_to_fs(
            self,
            scheme: Scheme,
            path: str,
            stream: BinaryIO,
            is_executable: bool,  # noqa: FBT001
        ) -> RecordEntry:
            target = Path(self.scheme_dict[scheme]) / path
            if not target.exists():
                return super().write_to_fs(scheme, path, stream, is_executable)
            content = stream.read()
            if target.read_bytes() != content:
                sys.exit(f"two wheels bring a different `{target}`")
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=")
            return RecordEntry(path, Hash("sha256", digest.decode()), len(content))

    os.umask(0o022)
    modules = f"{prefix}/lib/python/site-packages"
    destination = Destination(
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
    with WheelFile.open(Path(wheel)) as source:
        source.validate_record(validate_contents=True)
        install(source, destination, additional_metadata={"INSTALLER": b"stackproof\n"})


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main(*sys.argv[1:])
