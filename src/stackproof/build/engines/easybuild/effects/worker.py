"""What builds with EasyBuild need inside the sandbox, besides EasyBuild itself.

    python -I -S easybuild_worker.py unpack FOLDER ARCHIVE...
    python -I -S easybuild_worker.py tidy SOFTWARE MODULES...

`unpack` takes EasyBuild's own Python package out of its source distributions: it is plain Python,
so nothing has to be installed. `tidy` takes out of folders of a store what differs between two
builds of one lock (logs, reports, times) and what only served the build.

Imports nothing of the package: it is started with `-I`, from where the package is not seen.
"""

from __future__ import annotations

import os
import shutil
import sys
import tarfile

_PACKAGE = "easybuild"
_KEPT = "all"


def unpack(folder: str, *archives: str) -> None:
    """Unpack the Python packages of source distributions into one folder."""
    for name in archives:
        with tarfile.open(name) as archive:
            count = 0
            for member in archive:
                _, _, path = member.name.partition("/")
                parts = path.split("/")
                stream = archive.extractfile(member) if member.isreg() else None
                if stream is None or parts[0] != _PACKAGE or {"", ".", ".."} & set(parts):
                    continue
                count += 1
                place = os.path.join(folder, path)
                os.makedirs(os.path.dirname(place), exist_ok=True)
                with open(place, "wb") as target:
                    shutil.copyfileobj(stream, target)
            if not count:
                sys.exit(f"error: {name} holds no package {_PACKAGE}")


def tidy(software: str, *modules: str) -> None:
    """Remove EasyBuild's records from what is installed, and module trees by class."""
    for name in sorted(os.listdir(software)):
        if name.startswith("."):
            shutil.rmtree(os.path.join(software, name))  # locks
            continue
        for version in os.listdir(os.path.join(software, name)):
            shutil.rmtree(os.path.join(software, name, version, _PACKAGE), ignore_errors=True)
    for folder in modules:
        for name in os.listdir(folder):
            if name != _KEPT:
                shutil.rmtree(os.path.join(folder, name))


if __name__ == "__main__":
    {"unpack": unpack, "tidy": tidy}[sys.argv[1]](*sys.argv[2:])
