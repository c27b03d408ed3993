"""Folders are deleted however deep they are and whatever their modes, and no link is followed."""

from __future__ import annotations

import os
import stat
import subprocess

from stackproof.core.effects import files
from stackproof.core.errors import Reason

COVERS = ("core/effects/files.py",)

DEEP = """
import os
for _ in range(1500):
    os.mkdir("d")
    open("x", "w").close()
    os.symlink("/", "l")
    os.chdir("d")
"""


def test_a_folder_deeper_than_python_calls_itself(tmp_path):
    (tmp_path / "deep").mkdir()
    subprocess.run(["python3", "-c", DEEP], cwd=tmp_path / "deep", check=True)
    files.remove(tmp_path / "deep")
    assert os.listdir(tmp_path) == []


def test_folders_that_nobody_may_enter(tmp_path):
    victim = tmp_path / "victim"
    victim.mkdir(mode=0o755)
    (victim / "kept").touch(mode=0o644)
    top = tmp_path / "top"
    (top / "a/b/c").mkdir(parents=True)
    (top / "a/b/link").symlink_to(victim)
    (top / "link").symlink_to(victim)
    (top / "a/b/file").touch()
    for path in (top / "a/b/c", top / "a/b", top / "a", top):
        path.chmod(0)

    files.remove(top)
    assert sorted(os.listdir(tmp_path)) == ["victim"]
    assert os.listdir(victim) == ["kept"]
    assert stat.S_IMODE(victim.stat().st_mode) == 0o755


def test_an_error_about_a_path_of_bytes_names_it():
    error = files.translate(PermissionError(13, "no", b"/x"), b"/x\xff")
    assert error.reason is Reason.NOT_PERMITTED
    assert "/x" in str(error)
