"""Small images for tests, made with mksquashfs.

from images import ENV_JSON, make_image

image = make_image(tmp_path / "a.squashfs")
"""

from __future__ import annotations

import copy
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

MOUNT = "/user-environment"

ENV_JSON: dict[str, Any] = {
    "name": "tiny",
    "description": "an image for tests",
    "mount": MOUNT,
    "default-view": "default",
    "views": {
        "default": {
            "root": f"{MOUNT}/env/default",
            "activate": f"{MOUNT}/env/default/activate.sh",
            "description": "the usual",
            "type": "augment",
            "env": {
                "version": 1,
                "type": "augment",
                "values": {
                    "list": {"PATH": [{"op": "prepend", "value": [f"{MOUNT}/bin"]}]},
                    "scalar": {"MPI_TINY": "yes"},
                },
            },
        },
        "bare": {"root": f"{MOUNT}/env/bare", "description": ""},
    },
    "mpi": {
        "family": "mpich",
        "version": "5.0.2",
        "prefix": f"{MOUNT}/mpich",
        "launcher": "hydra",
    },
    "stackproof": {
        "stack": "0" * 64,
        "lock": "1" * 64,
        "benchmarks": {"stackproof-bench": f"{MOUNT}/benchmarks/stackproof-bench"},
    },
}


def env_json(**changes: Any) -> dict[str, Any]:
    """Return the metadata of a test image with some keys changed."""
    return {**copy.deepcopy(ENV_JSON), **changes}


def make_image(
    path: Path,
    *,
    meta: dict[str, Any] | str | None = ENV_JSON,
    stack: str = "",
    options: tuple[str, ...] = (),
    device: bool = True,
) -> Path:
    """Make a SquashFS image that has `bin/hello`, a set-uid `bin/whoami` and a device node.

    `stack` is the text of its `meta/stack.json`, which is left out without it.
    """
    tree = path.with_suffix(".tree")
    (tree / "bin").mkdir(parents=True)
    (tree / "inner").mkdir()
    hello = tree / "bin" / "hello"
    hello.write_text("#!/bin/sh\necho hello from the image\n")
    hello.chmod(0o755)
    (tree / "bin" / "mpicc").write_text("#!/bin/sh\necho mpicc of the image\n")
    (tree / "bin" / "mpicc").chmod(0o755)
    if meta is not None:
        (tree / "meta").mkdir()
        text = meta if isinstance(meta, str) else json.dumps(meta)
        (tree / "meta" / "env.json").write_text(text)
    if stack:
        (tree / "meta" / "stack.json").write_text(stack)
    shutil.copy("/usr/bin/id", tree / "bin" / "whoami")
    nodes = ["-p", "bin/whoami m 4755 0 0"]
    if device:
        nodes += ["-p", "null c 666 0 0 1 3"]
    argv = ["mksquashfs", tree, path, *nodes, "-all-root", "-noappend", "-no-progress", "-quiet"]
    subprocess.run([*map(str, argv), *options], check=True, timeout=600, capture_output=True)
    shutil.rmtree(tree)
    path.chmod(0o644)
    return path
