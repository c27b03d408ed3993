"""The hooks that EasyBuild loads: what they make of its scripts before compilers."""

from __future__ import annotations

import os
import random
import subprocess
import tarfile
from pathlib import Path

import pytest

from need import need
from stackproof.build.effects import executor
from stackproof.build.engines.easybuild import tool
from stackproof.build.engines.easybuild.effects import hooks
from stackproof.build.engines.easybuild.effects.sources import SourceFinder
from stackproof.core.monitor import null_monitor

COVERS = ("build/engines/easybuild/effects/hooks.py",)

# The form of EasyBuild 5.4's scripts (easybuild/scripts/rpath_wrapper_template.sh.in), in short.
_SCRIPT = """\
#!/bin/bash
function log {{
    echo "($$) [$(date "+%Y")] $1" >> '{log}'
}}
log "original command"
readarray -d '' -t CMD_ARGS < <( slow "$RPATH_ARGS_PY" "$CMD" '{passed_over}' '{included}' "$@" )
'{compiler}' "${{CMD_ARGS[@]}}"
"""


def _compiler(folder: Path) -> Path:
    path = folder / "compiler with a space"
    path.write_text('#!/bin/sh\nprintf "%s\\n" "$PATH" "$@"\n')
    path.chmod(0o755)
    return path


def _place(folder: Path, name: str, text: str) -> Path:
    path = folder / "rpath_wrappers" / f"{name}_wrapper" / name
    path.parent.mkdir(parents=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def _script(folder: Path, name: str, log: str = "/dev/null", included: str = "") -> Path:
    words = {"passed_over": f"/lib.*,/usr.*,{folder}/build.*", "included": included}
    return _place(folder, name, _SCRIPT.format(log=log, compiler=_compiler(folder), **words))


def _quicken(monkeypatch: pytest.MonkeyPatch, *scripts: Path) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("PATH", os.pathsep.join(str(path.parent) for path in scripts))
        hooks.post_prepare_hook()


def _said(path: Path, *words: str, library_path: str = "") -> list[str]:
    """Return PATH and the words that the compiler is given."""
    environment = {"PATH": f"/bin:{path.parent}:/usr/bin", "LIBRARY_PATH": library_path}
    argv = [path, *words]
    return subprocess.check_output(argv, text=True, timeout=600, env=environment).splitlines()


def test_a_script_says_what_easybuilds_says_and_starts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gcc = _script(tmp_path, "gcc", included="$ORIGIN/../lib,$ORIGIN/../lib64")
    ld = _script(tmp_path, "ld", included="$ORIGIN/../lib")
    _quicken(monkeypatch, gcc, ld)
    there, other, build = (tmp_path / name for name in ("a b", "other", "build"))
    for folder in (there, other, build):
        folder.mkdir()
    (tmp_path / "link").symlink_to(other)
    bare = "/bin:/usr/bin"
    assert _said(gcc, "-O2", "-c", "a b.c", f"-L{there}") == [
        bare, "-O2", "-c", "a b.c", f"-L{there}",
    ]  # fmt: skip
    wanted = [f"-L{there}", f"-L{build}", "-L/usr/lib", "-Lnear", f"-L{tmp_path}/none"]
    libraries = f"{tmp_path}/link:{other}:{there}:"
    assert _said(gcc, "a.o", *wanted, "-Wl,-rpath=/none", library_path=libraries) == [
        bare,
        *("-Wl,-rpath=$ORIGIN/../lib", "-Wl,-rpath=$ORIGIN/../lib64", "-Wl,--disable-new-dtags"),
        *(f"-Wl,-rpath={there}", f"-Wl,-rpath={tmp_path}/link", "a.o", *wanted),
    ]
    assert _said(ld, "-E", f"-rpath={there}", "a.o") == [
        bare, "-rpath=$ORIGIN/../lib", "--disable-new-dtags", f"-rpath={there}", "-E", "a.o",
    ]  # fmt: skip
    assert gcc.stat().st_mode & 0o111


@pytest.mark.parametrize(
    ("name", "system", "passes_by"),
    [
        ("gcc", True, True),
        ("gcc", False, False),  # its own folders are for the linker's script to add
        ("mpicc", True, False),  # starts a compiler that may have no script
    ],
)
def test_a_compiler_of_the_system_starts_the_linker_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, system: bool, passes_by: bool
) -> None:
    ld = _script(tmp_path, "ld")
    passed_over = f"{tmp_path}.*" if system else "/usr.*"
    words = {"log": "/dev/null", "passed_over": passed_over, "included": ""}
    one = _place(tmp_path, name, _SCRIPT.format(compiler=_compiler(tmp_path), **words))
    _quicken(monkeypatch, one, ld)
    environment = {"PATH": f"{one.parent}:{ld.parent}:/usr/bin:/bin"}
    said = subprocess.check_output([one, "a.o"], text=True, timeout=600, env=environment)
    bare = "/usr/bin:/bin"
    assert said.splitlines()[0] == (bare if passes_by else f"{ld.parent}:{bare}")


def test_a_script_asks_for_its_shell_by_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gcc = _script(tmp_path, "gcc")
    gcc.write_text(gcc.read_text().replace("#!/bin/bash", "#!/usr/bin/env bash"))
    with monkeypatch.context() as patch:
        patch.setenv("PATH", f"{gcc.parent}:/usr/bin")
        hooks.post_prepare_hook()
    assert gcc.read_text().startswith("#!/usr/bin/bash\n")


@pytest.mark.parametrize(
    "word",
    [
        "-x", "-L", "-Xlinker", "-Wl,--enable-new-dtags", "@file", "-B/opt/lib", "-specs=file",
        "--specs=file", "--sysroot=/opt", "--library-directory=/opt/lib", "-Wl,@file",
        "-Wl,-z,now,-L/opt/lib", "-Wl,--library-path=/opt/lib",
    ],
)  # fmt: skip
def test_what_is_rare_is_left_to_easybuilds_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    gcc = _script(tmp_path, "gcc")
    slow = tmp_path / "bin" / "slow"
    slow.parent.mkdir()
    slow.write_text('#!/bin/sh\nprintf "slow\\0%s\\0" "$PATH"\n')
    slow.chmod(0o755)
    _quicken(monkeypatch, gcc)
    path = f"{slow.parent}:{gcc.parent}:/usr/bin:/bin"
    argv = [gcc, word, "c++"]
    said = subprocess.check_output(argv, text=True, timeout=600, env={"PATH": path})
    assert said.splitlines() == [path, "slow", path]


def test_a_log_that_is_read_is_kept_and_another_form_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gcc = _script(tmp_path, "gcc", log=str(tmp_path / "log"))
    other = _place(tmp_path, "g++", '#!/bin/sh\nexec /usr/bin/g++ "$@"\n')
    before = gcc.read_text(), other.read_text()
    _quicken(monkeypatch, gcc, other)
    assert (gcc.read_text(), other.read_text()) == before


def _wrappers(folder: Path, source: Path) -> list[Path]:
    """Return EasyBuild's own scripts as EasyBuild fills them in, before our own compiler."""
    scripts = source / "easybuild" / "scripts"
    text = (scripts / "rpath_wrapper_template.sh.in").read_text()
    made = []
    for name in ("gcc", "g++", "ld"):
        filled = text % {
            "orig_cmd": _compiler(folder),
            "python": "/usr/bin/python3",
            "rpath_args_py": f"'{scripts}/rpath_args.py'",
            "rpath_filter": f"/lib.*,/usr.*,.*/lib(64)?/stubs/?,{source.parent}/lib/build.*",
            "rpath_include": "" if name == "g++" else "$ORIGIN/../lib,$ORIGIN/../lib64",
            "rpath_wrapper_log": "/dev/null",
            "wrapper_dir": folder / "rpath_wrappers" / f"{name}_wrapper",
        }
        made.append(_place(folder, name, filled))
    return made


@pytest.mark.battery
def test_the_words_are_those_of_easybuilds_own_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nothing is linked, search paths mean nothing, and what is there of them is not held."""
    need("easybuild")
    framework, _ = SourceFinder((), null_monitor).tool("5.4.1")
    source = tmp_path / "easybuild_framework-5.4.1"
    archive = executor.fetch(framework, tool.fetch_command, null_monitor)
    with tarfile.open(archive) as files:
        inside = f"{source.name}/easybuild/scripts/"
        # Without a word Python 3.13 warns; before 3.11.4 there is none.
        files.extraction_filter = getattr(tarfile, "data_filter", None)
        files.extractall(tmp_path, [one for one in files if one.name.startswith(inside)])
    (tmp_path / "new").mkdir()
    (tmp_path / "old").mkdir()
    quick, slow = _wrappers(tmp_path / "new", source), _wrappers(tmp_path / "old", source)
    before = quick[0].read_text()
    _quicken(monkeypatch, *quick)
    assert quick[0].read_text() != before  # it is the form that is known

    folders = [tmp_path / "lib" / name for name in ("a", "b c", "x/lib64/stubs", "build/q", "d+e")]
    for folder in folders:
        folder.mkdir(parents=True)
    (tmp_path / "lib" / "link").symlink_to(folders[0])
    near = [*map(str, folders), f"{tmp_path}/lib/link", f"{folders[0]}/", "/usr/lib", "/no", "."]
    plain = ["-O2", "a b.c", "-lm", "-Wl,-rpath", "*", "$HOME", "-E", "-v", "-x", "-r", "-L"]
    plain += ["-Xlinker", "--enable-new-dtags", "-Wl,--enable-new-dtags"]
    chance = random.Random(7)
    for _ in range(60):
        words = chance.choices(plain, k=3)
        words += (f"-L{one}" for one in chance.choices(near, k=3))
        words += (f"{chance.choice(('-Wl,', ''))}-rpath={chance.choice(near)}" for _ in range(2))
        chance.shuffle(words)
        words.append("end")
        number = chance.randrange(len(quick))
        if number < 2:
            words = [one for one in words if one not in {"-E", "-v"}]
        libraries = ":".join(chance.choices(near, k=2))
        said = _said(quick[number], *words, library_path=libraries)
        theirs = _said(slow[number], *words, library_path=libraries)
        assert [said[0].strip(":"), *said[1:]] == [theirs[0].strip(":"), *theirs[1:]], words
