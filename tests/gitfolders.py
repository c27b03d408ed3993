"""Git repositories that tests make, whoever runs them and whatever that user has set."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

_WHO = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "x"), ("EMAIL", "x@example.org"))
}


def call(folder: Path, *words: str) -> str:
    """Return what git says in a folder."""
    done = subprocess.run(
        ["git", *words], cwd=folder, check=True, env={**os.environ, **_WHO}, timeout=600,
        capture_output=True, text=True,
    )  # fmt: skip
    return done.stdout.strip()


def commit(folder: Path, files: Mapping[str, str], *, branch: str = "main") -> str:
    """Commit files on a branch of a repository that is made if need be; return the commit.

    Scripts are executable.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / ".git").exists():
        call(folder, "init", "-q", "-b", branch)
    call(folder, "checkout", "-q", "-B", branch)
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        if text.startswith("#!"):
            path.chmod(0o755)
    call(folder, "add", ".")
    call(folder, "commit", "-qm", "x")
    return call(folder, "rev-parse", "HEAD")
