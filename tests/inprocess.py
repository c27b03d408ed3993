"""Command lines of stackproof in this process, for tests of which the process is not the subject.

A new Python for every command is most of the time of such a test.

done = inprocess.stackproof("compare", folder, cwd=tmp_path, NO_COLOR="1")
"""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
from pathlib import Path

import pytest

from stackproof import cli


def exit_code(*words: object) -> int:
    """Return how a command line ended; what it says goes where this process says it."""
    with pytest.raises(SystemExit) as ended:
        cli.main([str(word) for word in words])
    return int(str(ended.value.code or 0))


def stackproof(
    *words: object, cwd: str | os.PathLike[str] | None = None, **environment: str | None
) -> subprocess.CompletedProcess[str]:
    """Return how a command line ended and what it said; None takes a variable away."""
    argv = [str(word) for word in words]
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    with pytest.MonkeyPatch.context() as patch, Path(os.devnull).open() as nothing:
        for name, value in environment.items():
            if value is None:
                patch.delenv(name, raising=False)
            else:
                patch.setenv(name, value)
        if cwd is not None:
            patch.chdir(cwd)
        patch.setattr("sys.stdin", nothing)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = exit_code(*words)
            out.flush()
            err.flush()
    said = (stream.buffer.getvalue().decode("utf-8", "surrogateescape") for stream in (out, err))
    return subprocess.CompletedProcess(argv, code, *said)
