"""What is made once in a test run: by the process that asks first, while the others wait.

with once.folder(tmp_path_factory, "native") as folder:
    if not (folder / "image").is_file(): ...
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stackproof.build.effects.workspace import locked
from stackproof.core.monitor import null_monitor


@contextmanager
def folder(factory: pytest.TempPathFactory, name: str) -> Iterator[Path]:
    """Give a folder that all processes of the run have, to one of them at a time."""
    base = factory.getbasetemp()
    found = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    with locked(found, null_monitor, "another process of the tests is at it"):
        yield found
