"""The hooks that EasyBuild loads: what they make of its scripts before compilers."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from stackproof.build.engines.easybuild.effects import hooks

COVERS = ("build/engines/easybuild/effects/hooks.py",)

# The form of EasyBuild 5.4's scripts (easybuild/scripts/rpath_wrapper_template.sh.in), in short.
_SCRIPT = """\
#!/bin/bash
function log {{
    echo "($$) [$(date "+%Y")] $1" >> '{log}'
}}
log "original command"
CMD_ARGS=("$@" added)
'{compiler}' "${{CMD_ARGS[@]}}"
"""


def _script(folder: Path, name: str, log: str = "/dev/null") -> Path:
    compiler = folder / "compiler with a space"
    compiler.write_text('#!/bin/sh\necho "$@"\n')
    compiler.chmod(0o755)
    path = folder / "rpath_wrappers" / f"{name}_wrapper" / name
    path.parent.mkdir(parents=True)
    path.write_text(_SCRIPT.format(log=log, compiler=compiler))
    path.chmod(0o755)
    return path


def _said(path: Path, *words: str) -> str:
    return subprocess.check_output([path, *words], text=True, timeout=20)


def test_what_only_compiles_is_started_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gcc, ld = _script(tmp_path, "gcc"), _script(tmp_path, "ld")
    untouched = ld.read_text()
    monkeypatch.setenv("PATH", os.pathsep.join(map(str, (gcc.parent, ld.parent, "/usr/bin"))))
    hooks.post_prepare_hook()
    assert _said(gcc, "-O2", "-c", "a b.c") == "-O2 -c a b.c\n"
    assert _said(gcc, "a.o", "-o", "a") == "a.o -o a added\n"
    assert "date" not in gcc.read_text()
    assert ld.read_text() == untouched  # there -c is something else
    assert gcc.stat().st_mode & 0o111


def test_a_log_that_is_read_is_kept_and_another_form_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gcc = _script(tmp_path, "gcc", log=str(tmp_path / "log"))
    other = tmp_path / "rpath_wrappers" / "g++_wrapper" / "g++"
    other.parent.mkdir()
    other.write_text('#!/bin/sh\nexec /usr/bin/g++ "$@"\n')
    monkeypatch.setenv("PATH", os.pathsep.join((str(gcc.parent), str(other.parent))))
    hooks.post_prepare_hook()
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    _said(gcc, "a.o")
    assert "original command" in (tmp_path / "log").read_text()
    assert other.read_text() == '#!/bin/sh\nexec /usr/bin/g++ "$@"\n'
