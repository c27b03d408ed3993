"""`tools/bootstrap` in a folder of its own, with fake programs on PATH: nothing is installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from need import need

ROOT = Path(__file__).resolve().parents[2]
TABLE = [
    line.split()
    for line in (ROOT / "tools" / "packages.txt").read_text().splitlines()
    if line and not line.startswith("#")
]
SYSTEMS = ("apt", "dnf", "zypper")
# What the script itself uses, and nothing of what it looks for.
_TOOLS = ("dirname", "env", "cat", "sha256sum", "sort", "rm", "mkdir", "tail", "nproc")


@pytest.fixture
def bootstrap(tmp_path):
    """Return a function that runs the script and returns how it ended and what apt was asked."""
    checkout, path, log = tmp_path / "checkout", tmp_path / "bin", tmp_path / "log"
    path.mkdir()
    (checkout / "tools").mkdir(parents=True)
    for name in ("bootstrap", "packages.txt"):
        shutil.copy(ROOT / "tools" / name, checkout / "tools")
    shutil.copytree(ROOT / "tools" / "locks", checkout / "tools" / "locks")
    shutil.copy(ROOT / "pyproject.toml", checkout)

    def fake(name: str, script: str) -> None:
        (path / name).write_text(f"#!/bin/bash\n{script}\n")
        (path / name).chmod(0o755)

    for name in _TOOLS:
        found = shutil.which(name)
        assert found
        (path / name).symlink_to(found)
    fake("apt-get", f'echo "$DEBIAN_FRONTEND $*" >> {log}')
    fake("id", "echo 0")
    # Python 3.11 with pip; its environments hold a Python that does nothing.
    fake(
        "python3",
        'case "$*" in "-m venv .venv") '
        f"{shutil.which('mkdir')} -p .venv/bin; "
        "printf '#!/bin/bash\\n"
        f'[ "$1" = --version ] && echo Python 3.11.0 || echo pip "$@" >> {log}'
        "\\n' > .venv/bin/python; "
        f"{shutil.which('chmod')} +x .venv/bin/python;; --version) echo Python 3.11.0;; esac",
    )

    def run(
        *words: str, fakes: dict[str, str] | None = None, without: tuple[str, ...] = (), **env: str
    ) -> tuple[subprocess.CompletedProcess[str], list[str]]:
        log.unlink(missing_ok=True)
        for name in without:
            (path / name).unlink()
        for name, script in (fakes or {}).items():
            fake(name, script)
        done = subprocess.run(
            ["/bin/bash", checkout / "tools" / "bootstrap", *words],
            env={"PATH": os.fspath(path), **env},
            capture_output=True, text=True, timeout=600, check=False,
        )  # fmt: skip
        lines = log.read_text().splitlines() if log.exists() else []
        return done, lines

    return run


def test_what_is_missing_is_installed_once(bootstrap):
    done, log = bootstrap("demo")
    assert done.returncode == 0, done.stderr
    update, install, locked, editable = log
    assert update.startswith("noninteractive")
    assert update.split()[-1] == "update"
    assert {
        "--yes",
        "--no-install-recommends",
        "bubblewrap",
        "squashfs-tools",
        "squashfuse",
        "gcc",
        "libc6-dev",
        "xz-utils",
    } <= set(install.split())
    assert "chromium" not in install
    assert locked.endswith("--require-hashes --requirement tools/locks/demo.txt")
    assert editable.endswith("--no-deps --no-build-isolation --editable .")


def test_the_second_time_nothing_is_installed(bootstrap):
    everything = {row[1]: "exit 0" for row in TABLE if not row[1].startswith("@")}
    everything["dpkg-query"] = "printf installed"
    lmod = {"LMOD_CMD": "/bin/sh"}  # any program that is there
    done, log = bootstrap("test", fakes=everything, **lmod)
    assert done.returncode == 0, done.stderr
    assert [line.split()[-1] for line in log] == ["tools/locks/test.txt", "."]
    for word in ("test", "demo"):
        assert bootstrap(word, **lmod)[1] == []


def test_another_python_or_another_lock_is_a_new_environment(bootstrap, tmp_path):
    assert len(bootstrap("demo")[1]) == 4
    assert [line for line in bootstrap("demo")[1] if line.startswith("pip")] == []
    with (tmp_path / "checkout" / "tools" / "locks" / "demo.txt").open("a") as lock:
        lock.write("# renewed\n")
    assert len([line for line in bootstrap("demo")[1] if line.startswith("pip")]) == 2
    mark = tmp_path / "checkout" / ".venv" / "mark"
    mark.touch()
    program = tmp_path / "bin" / "python3"
    newer = program.read_text().replace("3.11.0", "3.13.5").removeprefix("#!/bin/bash\n")
    bootstrap("demo", fakes={"python3": newer})
    assert not mark.exists()


def test_the_lock_can_be_left_out(bootstrap):
    _, log = bootstrap("test", STACKPROOF_NO_LOCK="1")
    assert [line for line in log if line.startswith("pip")] == [
        "pip -m pip --quiet --disable-pip-version-check install --editable .[test,lint]"
    ]


def test_an_index_without_what_is_locked_is_said(bootstrap, tmp_path):
    program = tmp_path / "bin" / "python3"
    bootstrap("demo")
    failing = program.read_text().replace("echo pip", "exit 1 # echo pip")
    shutil.rmtree(tmp_path / "checkout" / ".venv")
    done, _ = bootstrap("demo", fakes={"python3": failing.removeprefix("#!/bin/bash\n")})
    assert done.returncode == 4
    assert "STACKPROOF_NO_LOCK=1" in done.stderr


def test_lmod_is_no_program_on_path(bootstrap):
    _, log = bootstrap("demo", LMOD_CMD="/nonexistent/lmod")
    assert "lmod" in log[1].split()
    _, log = bootstrap("demo", LMOD_CMD="/bin/sh")
    assert "lmod" not in log[1].split()


@pytest.mark.parametrize(
    ("package", "said"),
    [
        ("chromium", "browser"), ("libslurm-dev", "Slurm"), ("clang", "clang"),
        ("debhelper", "debhelper"),
    ],
)  # fmt: skip
def test_what_some_tests_need_is_no_condition(bootstrap, package, said):
    fails = f'case "$*" in *{package}*) exit 100;; esac'
    gcc = {"gcc": "exit 1"} if said == "Slurm" else {}  # which finds the header
    done, log = bootstrap("test", fakes={"apt-get": fails, **gcc})
    assert done.returncode == 0, done.stderr
    assert said in done.stderr
    assert log[-2].endswith("tools/locks/test.txt")


def test_a_package_that_was_only_heard_of_is_not_there(bootstrap):
    """dpkg knows a name that another package recommends, and says so with exit code 0."""
    _, log = bootstrap("test", fakes={"dpkg-query": "printf not-installed"})
    assert any("build-essential" in line.split() for line in log)
    _, log = bootstrap("test", fakes={"dpkg-query": "printf installed"})
    assert not any("build-essential" in line.split() for line in log)


def test_what_apt_prints_is_in_a_file_and_its_last_lines_are_told_when_it_fails(
    bootstrap, tmp_path
):
    chatty = "for n in {1..300}; do echo Unpacking package-$n; done; echo W: of apt >&2"
    done, _ = bootstrap("demo", fakes={"apt-get": chatty})
    assert done.returncode == 0, done.stderr
    assert "build/apt.log" in done.stderr
    assert "Unpacking" not in done.stdout + done.stderr
    assert len(done.stderr.splitlines()) < 6
    log = tmp_path / "checkout" / "build" / "apt.log"
    assert log.read_text().splitlines()[-2:] == ["Unpacking package-300", "W: of apt"]
    broken = f"{chatty}; echo E: no space left; exit 100"
    done, _ = bootstrap("demo", fakes={"apt-get": broken})
    assert done.returncode == 4
    assert "E: no space left\nerror: apt could not" in done.stderr
    assert "package-300" in done.stderr
    assert "package-100" not in done.stderr


def _loadavg(line: str, cpus: int) -> dict[str, str]:
    real = shutil.which("cat")
    return {
        "cat": f'case "$1" in /proc/loadavg) echo "{line}";; *) exec {real} "$@";; esac',
        "nproc": f"echo {cpus}",
    }


@pytest.mark.parametrize(
    ("line", "cpus", "factor"),
    [
        ("14.00 13.50 9.00 15/234 999", 2, 8),
        ("14.00 13.50 9.00 1/234 999", 2, None),  # they have ended: the average still counts them
        ("0.40 0.30 0.20 15/234 999", 2, None),  # only at this moment
        ("14.00 13.50 9.00 15/234 999", 64, None),
        ("80.00 80.00 80.00 81/999 999", 64, 2),
    ],
)
@pytest.mark.parametrize("word", ["demo", "test"])
def test_a_busy_machine_is_told_before_anything_is_installed(bootstrap, word, line, cpus, factor):
    """The load figure is replaced; nothing of Python is there yet, and tests time nothing."""
    done, _ = bootstrap(word, fakes=_loadavg(line, cpus), without=("cat", "nproc"))
    assert done.returncode == 0, done.stderr
    first = done.stderr.splitlines()[0]
    told = word == "demo" and factor is not None
    assert (f"about {factor} times longer" in first) is told
    assert ("INCONCLUSIVE" in done.stderr) is told
    assert ("--wait-for-quiet 30m" in first) is told


def test_sudo_where_there_is_no_root(bootstrap):
    done, log = bootstrap("demo", fakes={"id": "echo 1000", "sudo": 'exec "$@"'})
    assert done.returncode == 0, done.stderr
    assert len(log) == 4


@pytest.mark.parametrize(
    ("fakes", "without", "env", "words"),
    [
        ({"id": "echo 1000"}, (), {}, ["bubblewrap", "administrator"]),
        ({}, ("apt-get",), {}, ["bubblewrap"]),
        ({}, (), {"PYTHON": "python9"}, ["python9", "3.11"]),
        ({"python3": 'case "$*" in --version) echo Python 3.9.2;; *) exit 1;; esac'}, (), {}, ["3.9.2", "3.11"]),
        ({"python3": 'case "$*" in "-m venv .venv") exit 1;; esac'}, (), {}, ["python3-venv"]),
    ],
    ids=["no-root", "no-apt", "no-python", "old-python", "no-venv"],
)  # fmt: skip
def test_what_cannot_be_helped_is_said(bootstrap, fakes, without, env, words):
    done, _ = bootstrap("demo", fakes=fakes, without=without, **env)
    assert done.returncode == 4
    assert "error: " in done.stderr
    assert "hint: " in done.stderr
    assert all(word in done.stderr for word in words)


def test_apt_can_be_kept_out(bootstrap):
    done, log = bootstrap("test", STACKPROOF_NO_APT="1")
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in log] == ["pip", "pip"]
    assert "bubblewrap" in done.stderr


@pytest.mark.parametrize(
    "words", [("nonsense",), (), ("--print",), ("--print", "demo", "pacman"), ("--print", "all")]
)
def test_usage(bootstrap, words):
    done, log = bootstrap(*words)
    assert done.returncode == 4
    assert "usage: " in done.stderr
    assert log == []


# ------------------------------------------------------------------------- packages, by system


def test_the_table_of_packages_has_a_word_in_every_column():
    name = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+-]*(,[A-Za-z0-9][A-Za-z0-9.+-]*)*")
    assert TABLE
    for row in TABLE:
        assert len(row) == 2 + len(SYSTEMS), row
        assert all(word == "-" or name.fullmatch(word) for word in row[2:]), row
    whats = [row[1] for row in TABLE]
    assert len(whats) == len(set(whats))
    assert [row[1] for row in TABLE if "-" in row[2:] and row[0] == "system"] == []
    text = (ROOT / "tools" / "bootstrap").read_text()
    groups = re.search(r"^GROUPS_OF_TEST=\((.*)\)", text, re.MULTILINE)
    assert groups
    assert {row[0] for row in TABLE} == set(groups[1].split())
    assert {row[1][1:] for row in TABLE if row[1].startswith("@")} == set(
        re.findall(r"^has_(\w+)\(\)", text, re.MULTILINE)
    )


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("word", ["demo", "test"])
def test_packages_are_named_for_every_system(bootstrap, word, system):
    done, log = bootstrap("--print", word, system)
    assert (done.returncode, log) == (0, [])
    groups = {"system"} if word == "demo" else {row[0] for row in TABLE}
    column = 2 + SYSTEMS.index(system)
    expected = {name for row in TABLE if row[0] in groups for name in row[column].split(",")}
    assert done.stdout.splitlines() == sorted(expected - {"-"}, key=os.fsencode)
    assert {"bubblewrap", "squashfuse", "gcc"} <= expected


@pytest.mark.battery
def test_packages_of_apt_are_there():
    """Every name that is asked of apt is one that this machine's apt can install."""
    need("apt")
    argv = [ROOT / "tools" / "bootstrap", "--print", "test", "apt"]
    names = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    done = subprocess.run(
        ["apt-get", "install", "--simulate", "--no-install-recommends", *names],
        capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C"},
    )  # fmt: skip
    if "Unable to locate package" in done.stderr and not any(
        Path("/var/lib/apt/lists").glob("*Pack*")
    ):
        pytest.skip("this machine's apt has no lists (`apt-get update` was never run)")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("system", ["dnf", "zypper"])
def test_a_system_without_apt_is_told_its_own_names(bootstrap, system):
    done, log = bootstrap("demo", fakes={system: "exit 1"}, without=("apt-get",))
    assert done.returncode == 4
    assert log == []
    assert f"{system} install" in done.stderr
    assert {"dnf": "glibc-devel", "zypper": "squashfs"}[system] in done.stderr.split()
    done, _ = bootstrap("--print", "demo")
    assert {"dnf": "iproute-tc", "zypper": "lua-lmod"}[system] in done.stdout.split()


# --------------------------------------------------------------------------------------- locks


@pytest.mark.parametrize("name", ["demo", "test"])
def test_the_locks_have_a_digest_for_everything_and_no_address(name):
    text = (ROOT / "tools" / "locks" / f"{name}.txt").read_text().replace("\\\n", "")
    rows = [line for line in text.splitlines() if not line.startswith("#")]
    assert len(rows) > 20
    for row in rows:
        assert re.match(r"[a-z0-9-]+==[^ ]+ .*--hash=sha256:[0-9a-f]{64}", row), row
    assert "://" not in text
    assert "index" not in text


def test_the_locks_fit_the_project():
    """What pyproject.toml asks for is in them, in a version that it accepts, and once."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    own = project["project"]["dependencies"] + project["dependency-groups"]["install"]
    extras = project["project"]["optional-dependencies"]
    for name, wanted in (("demo", own), ("test", [*own, *extras["test"], *extras["lint"]])):
        locked: dict[str, set[str]] = {}
        for row in (ROOT / "tools" / "locks" / f"{name}.txt").read_text().splitlines():
            found = re.match(r"([a-z0-9-]+)==([^ ]+)", row)
            if found:
                locked.setdefault(found[1], set()).add(found[2])
        for requirement in map(Requirement, wanted):
            versions = locked[canonicalize_name(requirement.name)]
            assert all(version in requirement.specifier for version in versions), requirement
        if name == "demo":
            demo = locked
    assert {name: locked[name] for name in demo} == demo
