"""A program: downloads one source distribution with pip, and runs nothing of it.

    python -P -m stackproof.build.effects.sdist FOLDER NAME VERSION SHA256

pip asks the build system of whatever it downloads for metadata, with the rights and the network of
whoever downloads, before anybody has looked at a digest. Here this program answers in its place
(PEP 517), with what is known already: the name and the version. `SHA256` may be empty, where a lock
is made and nobody knows it yet.
"""

from __future__ import annotations

import json
import os
import runpy
import shlex
import sys
import tempfile
from pathlib import Path

_ANSWER = "--answer"


def main(words: list[str]) -> None:
    """Download, or be the build system that pip asks."""
    if words[0] == _ANSWER:
        answer(words[1], words[2], words[-2], words[-1])
        return
    target, name, version, sha256 = words
    with tempfile.TemporaryDirectory() as folder:
        download(target, name, version, sha256, Path(folder))


def download(target: str, name: str, version: str, sha256: str, room: Path) -> None:
    """Run pip in this process; it ends the process, with its exit code."""
    asked = room / "python"
    argv = (sys.executable, "-P", "-m", "stackproof.build.effects.sdist", _ANSWER, name, version)
    asked.write_text(f'#!/bin/sh\nexec {shlex.join(argv)} "$@"\n', encoding="utf-8")
    asked.chmod(0o700)
    wanted = room / "requirements.txt"
    digest = f" --hash=sha256:{sha256}" if sha256 else ""
    wanted.write_text(f"{name}=={version}{digest}\n", encoding="utf-8")
    sys.executable = os.fspath(asked)  # which pip starts for the build system
    sys.argv = [
        "pip", "download", "--quiet", "--no-deps", "--no-input", "--disable-pip-version-check",
        "--retries=1", "--timeout=20", "--no-binary=:all:", "--no-build-isolation", "--use-pep517",
        "--dest", target, "--requirement", os.fspath(wanted),
        *(["--require-hashes"] if sha256 else []),
    ]  # fmt: skip
    runpy.run_module("pip", run_name="__main__", alter_sys=True)


def answer(name: str, version: str, hook: str, folder: str) -> None:
    """Answer one question of pip's as the library `pyproject_hooks` has it: by files."""
    asked = json.loads(Path(folder, "input.json").read_text(encoding="utf-8"))
    said: object = []
    if hook == "prepare_metadata_for_build_wheel":
        said = f"{name.replace('-', '_')}-{version}.dist-info"
        made = Path(asked["kwargs"]["metadata_directory"], said)
        made.mkdir(parents=True, exist_ok=True)
        text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        (made / "METADATA").write_text(text, encoding="utf-8")
    told = json.dumps({"unsupported": False, "return_val": said})
    Path(folder, "output.json").write_text(told, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
