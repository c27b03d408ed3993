"""A Python that every user of this machine may run, wherever the one of the tests lies.

    python, checkout = everybody.python(folder)

Below a home of mode 0700 (pyenv, uv and conda put Pythons there), or with files made under umask
077, neither Python nor this checkout is for other users. Then both are copied, with what is
installed beside them, and the copy is for everybody.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from need import as_unprivileged

ROOT = Path(__file__).resolve().parents[1]
_TIMEOUT_S = 600
# What tests of other users' commands use; `-B`: a cache that they may not write is no matter.
_TRY = "import msgspec, pip, pytest, ssl, stackproof.cluster.effects.up, yaml"
_CHECKOUT = ("src", "sites", "recipes", "knowledge", "tests")
# Parts of Python and of the environment that are large and that no command of another user needs.
_LEFT_OUT = shutil.ignore_patterns(
    "test", "idlelib", "tkinter", "site-packages", "dist-packages", "config-*", "mypy", "mypyc",
    "*__mypyc*", "selenium", "grimp", "_rustgrimp*", "captures", "documents", "golden",
)  # fmt: skip


def may_run(python: str | Path, script: str = _TRY) -> bool:
    """Return whether a user without rights can run a Python with what the tests need."""
    # By env(1): the first program after setpriv(1) may still be found with root's rights.
    done = subprocess.run(
        as_unprivileged(["env", os.fspath(python), "-B", "-c", script]),
        env={"PATH": "/usr/bin:/bin"}, cwd="/", capture_output=True, timeout=_TIMEOUT_S, check=False,
    )  # fmt: skip
    return done.returncode == 0


def open_way(folder: Path) -> None:
    """Let every user enter a folder of a test, and those above it that are pytest's.

    It makes its own for the tests' user alone, one more where tests run abreast.
    """
    own = (part for part in folder.parents if part.name.startswith(("pytest-", "popen-")))
    for part in (folder, *own):
        part.chmod(part.stat().st_mode | 0o055)


def python(folder: Path) -> tuple[str, Path]:
    """Return Python and checkout of the tests where everybody may use them, else copies."""
    if may_run(sys.executable, f"{_TRY}; open({str(ROOT / 'recipes' / 'mpich.yaml')!r})"):
        return sys.executable, ROOT
    open_way(folder)
    base = Path(os.path.realpath(sys._base_executable))  # type: ignore[attr-defined]
    if not may_run(base, "import json"):
        base = _copy_of_base(folder / "base", base)
    environment = folder / "environment"
    subprocess.run(
        [base, "-m", "venv", "--without-pip", environment], check=True, timeout=_TIMEOUT_S
    )
    copy = environment / "bin" / "python"
    argv = [str(copy), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    packages = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    _give(Path(sysconfig.get_path("purelib")), Path(packages))
    checkout = folder / "checkout"
    for name in _CHECKOUT:
        _give(ROOT / name, checkout / name)
    for path in Path(packages).glob("*.pth"):
        text = path.read_text().replace(str(ROOT), str(checkout))
        path.unlink()  # it may be the original
        path.write_text(text)
    for place, _, _ in os.walk(folder):
        os.chmod(place, 0o755)
    assert may_run(copy), f"{folder} is not for every user: is TMPDIR below a private folder?"
    return str(copy), checkout


def _give(source: Path, target: Path) -> None:
    """Put a folder at another place, for everybody; files that everybody may read are links."""
    shutil.copytree(
        source, target, ignore=_LEFT_OUT, symlinks=True, dirs_exist_ok=True, copy_function=_link
    )


def _link(source: str, target: str) -> None:
    mode = os.stat(source).st_mode & 0o777
    wanted = 0o755 if mode & 0o100 else 0o644
    if mode & wanted & 0o055 == wanted & 0o055:
        try:
            os.link(source, target)
        except OSError:  # on another file system
            pass
        else:
            return
    shutil.copyfile(source, target)
    os.chmod(target, wanted)


def _copy_of_base(folder: Path, program: Path) -> Path:
    """Copy an interpreter and its library; it finds them from where it lies itself."""
    prefix, name = Path(sys.base_prefix), f"python{sys.version_info[0]}.{sys.version_info[1]}"
    (folder / "bin").mkdir(parents=True)
    _link(os.fspath(program), os.fspath(folder / "bin" / name))
    _give(prefix / "lib" / name, folder / "lib" / name)
    modules = (folder / "lib" / name / "lib-dynload").glob("*.so")
    for file in (folder / "bin" / name, *modules):
        _bring_libraries(file, folder / "lib" / "private")
    return folder / "bin" / name


def _bring_libraries(module: Path, folder: Path) -> None:
    """Put libraries of a program or module that lie in private folders beside the copy."""
    told = subprocess.run(["ldd", module], stdout=subprocess.PIPE, text=True, check=False).stdout
    found = [row.split(" => ") for row in told.splitlines() if " => /" in row]
    private = {
        name.strip(): Path(rest.split(" (")[0])
        for name, rest in found
        if not rest.startswith(("/usr/", "/lib"))
    }
    if not private:
        return
    folder.mkdir(exist_ok=True)
    original = module.read_bytes()
    module.unlink()  # it may be a link to the original
    module.write_bytes(original)
    for name, path in private.items():
        shutil.copyfile(path, folder / name)
    for path in (module, *(folder / name for name in private)):
        subprocess.run(["patchelf", "--set-rpath", folder, path], check=True, timeout=_TIMEOUT_S)
        path.chmod(0o755)
