"""Small stacks to pack, compiled for tests, and entry points of their own.

lab = Stack(tmp_path)
lab.library("libanswer", "int answer(void) { return 42; }")
lab.program("hello", CALLS_ANSWER, needs=("answer",))
image = lab.image()
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from stackproof.core.command import EnvPatch
from stackproof.pack.effects import entry_files
from stackproof.pack.model import EntryPoint, Loading

MOUNT = "/user-environment"
INTERPRETER = "/lib64/ld-linux-x86-64.so.2"
HERE = (
    f"/lib/{os.uname().machine}-linux-gnu/libc.so.6",
    "/lib64/libc.so.6",
    "/usr/lib64/libc.so.6",
)
_TIMEOUT_S = 600
CALLS_ANSWER = """
#include <stdio.h>
#include <stdlib.h>
int answer(void);
int main(int count, char **words) {
    printf("%s %d %s\\n", words[0], answer(), getenv("MPI_TINY") ? getenv("MPI_TINY") : "-");
    for (int i = 1; i < count; i++) puts(words[i]);
    return 0;
}
"""


class Stack:
    """A tree as if it were mounted at `MOUNT`, for an image."""

    def __init__(self, folder: Path, mount: str = MOUNT) -> None:
        self.folder = folder
        self.mount = mount
        self.tree = folder / "tree"
        for name in ("bin", "lib", "meta"):
            (self.tree / name).mkdir(parents=True)

    def library(self, name: str, code: str, *options: str) -> Path:
        target = self.tree / "lib" / f"{name}.so.1"
        target.parent.mkdir(exist_ok=True)
        self.compile(code, target, "-shared", "-fPIC", f"-Wl,-soname,{name}.so.1", *options)
        (self.tree / "lib" / f"{name}.so").symlink_to(f"{name}.so.1")
        return target

    def program(self, name: str, code: str, *options: str, needs: tuple[str, ...] = ()) -> Path:
        target = self.tree / "bin" / name
        links = [f"-l{one}" for one in needs]
        paths = [f"-L{self.tree}/lib", f"-Wl,-rpath,{self.mount}/lib", "-Wl,--enable-new-dtags"]
        self.compile(code, target, *options, last=[*paths, *links])
        return target

    def compile(
        self, code: str, target: Path, *options: str, last: list[str] | None = None
    ) -> None:
        argv = ["gcc", "-x", "c", "-", *options, "-o", target, "-x", "none", *(last or [])]
        subprocess.run(argv, input=code.encode(), check=True, timeout=_TIMEOUT_S)

    def script(self, path: str, text: str) -> Path:
        target = self.tree / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        target.chmod(0o755)
        return target

    def image(self, name: str = "stack", **more: object) -> Path:
        values = {
            "list": {
                "PATH": [{"op": "prepend", "value": [f"{self.mount}/bin"]}],
                "LD_LIBRARY_PATH": [{"op": "prepend", "value": [f"{self.mount}/lib"]}],
            },
            "scalar": {"MPI_TINY": f"{self.mount}/lib"},
        }
        view = {"root": self.mount, "description": "", "type": "augment"}
        view["env"] = {"version": 1, "type": "augment", "values": values}
        meta = {
            "name": name,
            "description": "",
            "mount": self.mount,
            "default-view": "default",
            "views": {"default": view},
            "stackproof": {"stack": "0" * 64, "lock": "1" * 64, "benchmarks": {}},
            **more,
        }
        (self.tree / "meta" / "env.json").write_text(json.dumps(meta))
        (self.tree / "meta" / "lock.json").write_text('{"of": "the lock"}')
        image = self.folder / f"{name}.squashfs"
        argv = ["mksquashfs", self.tree, image, "-noappend", "-no-progress", "-quiet", "-all-root"]
        subprocess.run(argv, check=True, timeout=_TIMEOUT_S, capture_output=True)
        return image


def small(folder: Path) -> Path:
    """Return an image with a program, the library that it calls, and a script."""
    stack = Stack(folder)
    stack.library("libanswer", "int answer(void) { return 42; }")
    stack.program("hello", CALLS_ANSWER, needs=("answer",))
    stack.script("bin/say", '#!/bin/sh\nhello said "$1"\n')
    return stack.image()


def pack(*words: str | Path, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Run `stackproof pack`."""
    return subprocess.run(
        [sys.executable, "-m", "stackproof", "pack", *map(os.fspath, words)],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
        env={**os.environ, **env},
    )


def out(*argv: str | Path, **more: object) -> subprocess.CompletedProcess[str]:
    """Run a program of a pack."""
    return subprocess.run(
        [os.fspath(word) for word in argv],
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
        **more,
    )


def entry_point(
    folder: Path,
    program: Path,
    *,
    env: EnvPatch | None = None,
    floor: int = 17,
    own: bool = True,
    spare: Mapping[str, tuple[str, ...]] | None = None,
    **more: object,
) -> Path:
    """Make `folder/bin/NAME`, which starts a copy of a program; with a C library beside it."""
    for name in ("bin", "real", "glibc"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    if program.exists():
        shutil.copy(program, folder / "real" / program.name)
    if own:
        libc = next(path for path in HERE if os.path.exists(path))
        for path in (INTERPRETER, libc):
            shutil.copy(path, folder / "glibc" / os.path.basename(path))
    entry = EntryPoint(
        place=f"bin/{program.name}",
        program=f"real/{program.name}",
        env=env or EnvPatch(),
        **more,
    )
    loading = Loading(
        floor=floor,
        interpreter=INTERPRETER,
        own=f"glibc/{os.path.basename(INTERPRETER)}",
        libraries=HERE,
        spare=spare or {},
    )
    entry_files.write_entries(folder, (entry,), loading)
    return folder / entry.place
