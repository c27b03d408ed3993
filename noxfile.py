"""Every check of this project, in order; `make test` prepares the machine and runs the gate.

The sessions run in the environment that nox itself was started from: `.venv`, made by
`tools/bootstrap`, or any other that has the extras `test` and `lint`.

Besides those that `nox` runs by itself: `tests` (some, by name), `fresh` (README's commands on
machines that nobody prepared), `lowest` and `newest` (the oldest and the latest of what the package
depends on) and `renew` (the locks, once a week), `attacks`, `races` and `fuzz` (what somebody
hostile tries: by itself, for a minute each, for ten minutes each). What the gate leaves out is the
battery (tools/battery.py, `make test-all`).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

import nox

nox.options.default_venv_backend = "none"
nox.options.sessions = ["lint", "types", "layers", "docs", "package", "gate"]

ROOT = Path(__file__).parent
# What travels in the wheel besides src/ (pyproject.toml, force-include).
DATA_FOLDERS = ("sites", "recipes", "knowledge")
# The locks, and what of pyproject.toml is in them besides the package's own dependencies.
LOCKS = {"test": ("--extra", "test", "--extra", "lint"), "demo": ()}
# The tests of `make test`; the battery has the others.
GATE = ("-m", "not battery and not machine")
# The tests that need nothing of the machine: enough to see whether a library still fits.
WITHOUT_TOOLS = ("-m", "not needs and not battery and not machine")
# What a user would notice: predictions, recipes of others, causes, pages, files, other programs.
FROZEN = (
    "inject/test_predictions.py", "inject/test_fresh_cells.py", "inject/test_values.py",
    "build/test_stackinator_golden.py", "build/test_spack_golden.py", "build/test_plan_golden.py",
    "build/test_same_golden.py", "build/test_containerfile_golden.py", "build/test_guix.py",
    "build/test_easybuild_chains.py", "build/test_engine_contract.py", "doctor/test_corpus.py",
    "doctor/test_public_cases.py", "report/test_report_golden.py", "image/test_uenv_contract.py",
    "share/test_labels.py", "share/test_manifests.py", "share/test_registry_images.py",
    "share/test_remote_verbs.py", "mpi/test_transport_profiles.py", "core/test_errors.py",
    "cluster/test_slurm_conf_golden.py",
)  # fmt: skip
# How much attacks by chance do in `nox -s attacks`; in the battery each does a tenth, or less.
ALL_ATTACKS = {
    "STACKPROOF_ATTACK_ROUNDS": "40",  # hostile trees through each verb (tests/house)
    "STACKPROOF_TREES": "2000",  # through what unpacks them (tests/core)
    "STACKPROOF_FUZZ_CASES": "2500",  # malformed answers of registries (tests/share)
    "STACKPROOF_KILLS": "100",  # of each verb at a random moment (tests/killing.py)
}
# A file on each core, in the order of tests/conftest.py: xdist's own begins with the file that has
# most tests. The first file goes the whole road and mostly waits for programs: it has one more.
ON_EACH_CORE = (
    "-n", str(min(os.cpu_count() or 1, 4) + 1), "--dist", "loadfile", "--no-loadscope-reorder",
)  # fmt: skip


def python(
    session: nox.Session, *arguments: str, success_codes: Sequence[int] = (0,), **options: str
) -> None:
    """Run this Python with arguments and more environment variables.

    Bytecode is kept, also where the user's own Python keeps none: tests are compiled on each core,
    and start hundreds of Pythons.
    """
    kept = {"PYTHONDONTWRITEBYTECODE": "", **options}
    session.run(sys.executable, *arguments, env=kept, external=True, success_codes=success_codes)


@nox.session
def lint(session: nox.Session) -> None:
    """Ruff: every rule but the commented list in pyproject.toml, the formatter; plain words."""
    python(session, "-m", "ruff", "check", ".")
    python(session, "-m", "ruff", "format", "--check", ".")
    python(session, "tools/plain_words.py")


@nox.session
def types(session: nox.Session) -> None:
    """Mypy, strict."""
    python(session, "-m", "mypy")


@nox.session
def layers(session: nox.Session) -> None:
    """Import-linter: nouns know no arrows, arrows no effects."""
    session.run(str(Path(sys.executable).parent / "lint-imports"), external=True)


@nox.session
def docs(session: nox.Session) -> None:
    """The generated reference pages say what the code says."""
    python(session, "tools/generate_reference.py", "--check")


@nox.session
def gate(session: nox.Session) -> None:
    """The tests that have what they use to themselves, and the whole road once; minutes."""
    told = "--junit-xml=build/tests.xml"
    python(session, "-m", "pytest", "-q", *ON_EACH_CORE, told, *GATE, *session.posargs)


@nox.session
def tests(session: nox.Session) -> None:
    """Tests by name: arguments after `--` go to pytest."""
    python(session, "-m", "pytest", *session.posargs)


@nox.session
def freeze(session: nox.Session) -> None:
    """What must not change while code goes: FROZEN with its battery, and the generated pages."""
    python(session, "tools/generate_reference.py", "--check")
    python(session, "-m", "pytest", "-q", *(f"tests/{name}" for name in FROZEN), *session.posargs)


@nox.session
def attacks(session: nox.Session) -> None:
    """The attacks of the suite alone, all of each; as root again as a user, who has a copy."""
    with tempfile.TemporaryDirectory(prefix="stackproof-attacks-") as folder:
        told = Path(folder, "attacks.xml")
        python(
            session, "-m", "pytest", "-q", "-m", "attack", f"--junit-xml={told}", *session.posargs,
            **ALL_ATTACKS, success_codes=_FAILURES_AS_WELL,
        )  # fmt: skip
        files = [str(told)]
        if os.geteuid() == 0:
            files.append(_attacks_of_a_user(session, Path(folder)))
        # Its exit code is that of the session.
        python(session, "tools/count_tests.py", "--attacks", *files)


# Of pytest: a test that fails is an attack that succeeded. When all were tried they are counted.
_FAILURES_AS_WELL = (0, 1)
# A Python that everybody may start: that of the tests, or a copy of it.
_PYTHON = "import pathlib, sys, everybody; print(everybody.python(pathlib.Path(sys.argv[1]))[0])"
# Many machines let users mount by FUSE; one that does not is to have the attacks all the same.
_WITH_FUSE = """
mknod -m 666 "$0/fuse" c 10 229 && mount --bind "$0/fuse" /dev/fuse || echo "no /dev/fuse" >&2
exec "$@"
"""


def _attacks_of_a_user(session: nox.Session, folder: Path) -> str:
    """Run the attacks as a user without rights, in a copy of this checkout below a folder.

    Returns the file that says how each ended.
    """
    folder.chmod(0o755)
    home, private = folder / "home", folder / "python"
    private.mkdir(mode=0o755)
    env = {"PYTHONPATH": str(ROOT / "tests")}
    told = session.run(
        sys.executable, "-c", _PYTHON, str(private), env=env, external=True, silent=True
    )
    session.run("git", "clone", "--quiet", str(ROOT), f"{home}/copy", external=True)
    session.run("chown", "-R", "65534:65534", str(home), external=True)
    alone = ("unshare", "--mount", "--propagation", "private", "sh", "-c", _WITH_FUSE, str(folder))
    # By env(1): the first program after setpriv(1) may still be found with root's rights.
    nobody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "env")
    env = {"HOME": str(home), "TMPDIR": str(home), "PYTHONPATH": f"{home}/copy/src", **ALL_ATTACKS}
    with session.chdir(home / "copy"):
        session.run(
            *alone, *nobody, str(told).strip(), "-m", "pytest", "-q", "-m", "attack",
            # No attack is there, and the copy of Python may lack what drives a browser.
            "--ignore=tests/report/test_report_browser.py", "-p", "no:cacheprovider",
            f"--junit-xml={home}/attacks.xml", *session.posargs,
            env=env, external=True, success_codes=_FAILURES_AS_WELL,
        )  # fmt: skip
    return f"{home}/attacks.xml"


@nox.session
def races(session: nox.Session) -> None:
    """Each race of an attacker, with the mount helper or a verb, for 60 seconds instead of two."""
    python(session, "-m", "pytest", "-q", "-m", "race", *session.posargs, STACKPROOF_RACE_S="60")


@nox.session
def fuzz(session: nox.Session) -> None:
    """Each target of libFuzzer for ten minutes, side by side; `-- 30 elf json`: how long, which."""
    with tempfile.TemporaryDirectory(prefix="stackproof-fuzz-") as folder:
        words = session.posargs or ["600"]
        session.run("native/tests/fuzz.sh", folder, *words, external=True)


@nox.session
def fresh(session: nox.Session) -> None:
    """README's two commands on new machines; `-- --list` shows the cases, words choose some."""
    python(session, "tools/fresh.py", *session.posargs)


def _uv(session: nox.Session, *arguments: str) -> None:
    """Run uv in the session's own environment, with the index and certificates that pip has."""
    names = {"PIP_INDEX_URL": "UV_DEFAULT_INDEX", "PIP_CERT": "SSL_CERT_FILE"}
    env = {new: os.environ[old] for old, new in names.items() if os.environ.get(old)}
    session.run("uv", *arguments, env={**env, "UV_NO_PROGRESS": "1"})


@nox.session(venv_backend="venv")
def renew(session: nox.Session) -> None:
    """Take the newest versions of everything into tools/locks, for every Python since 3.11."""
    session.install("--quiet", "uv")
    for name, extras in LOCKS.items():
        _uv(
            session, "pip", "compile", "--quiet", "pyproject.toml", *extras, "--group", "install",
            "--universal", "--python-version", "3.11", "--generate-hashes", "--no-annotate",
            "--upgrade", "--custom-compile-command", "nox -s renew",
            # One version everywhere: what is in both locks is the same.
            *(() if name == "test" else ("--constraint", "tools/locks/test.txt")),
            "--output-file", f"tools/locks/{name}.txt",
        )  # fmt: skip


@nox.session(venv_backend="venv")
def lowest(session: nox.Session) -> None:
    """Run the tests that need no tool with the oldest versions that pyproject.toml allows."""
    _with_versions(session, "lowest-direct")


@nox.session(venv_backend="venv")
def newest(session: nox.Session) -> None:
    """Run the tests that need no tool with the latest versions that there are."""
    _with_versions(session, "highest")


def _with_versions(session: nox.Session, resolution: str) -> None:
    """Install the package with such dependencies and the locked test tools; run the tests."""
    session.install("--quiet", "uv")
    chosen = Path(session.create_tmp(), f"{resolution}.txt")
    # Only what has wheels: an old numpy has none for a new Python, and is no use there.
    _uv(
        session, "pip", "compile", "--quiet", "pyproject.toml", "--only-binary", ":all:",
        "--resolution", resolution, "--python", session.virtualenv.location,
        "--output-file", str(chosen),
    )  # fmt: skip
    session.install("--quiet", "--constraint", str(chosen), "--editable", ".[test]")
    session.run("python", "-m", "pytest", "-q", *WITHOUT_TOOLS, *session.posargs)


@nox.session
def package(session: nox.Session) -> None:
    """The wheel is pure and whole, the sdist builds the same wheel, and the wheel runs."""
    with tempfile.TemporaryDirectory(prefix="stackproof-package-") as folder:
        first, second = Path(folder, "first"), Path(folder, "second")
        python(session, "-m", "hatchling", "build", "-d", str(first))
        wheel, sdist = next(first.glob("*.whl")), next(first.glob("*.tar.gz"))
        names = _names(wheel)
        for fault in _wheel_faults(wheel.name, names):
            session.error(fault)
        # By tar: what Python has for it needs an argument that 3.11.2, Debian 12's, does not know.
        session.run("tar", "-C", folder, "-xf", str(sdist), external=True)
        with session.chdir(Path(folder, sdist.name.removesuffix(".tar.gz"))):
            python(session, "-m", "hatchling", "build", "-t", "wheel", "-d", str(second))
        different = names ^ _names(next(second.glob("*.whl")))
        if different:
            session.error(f"checkout and sdist build different wheels: {sorted(different)}")
        site = str(Path(folder, "site"))
        pip = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps")
        python(session, *pip, "--target", site, str(wheel))
        with session.chdir(folder):
            python(session, "-P", "-m", "stackproof", "--version", PYTHONPATH=site)


def _names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if not name.endswith("/")}


def _wheel_faults(wheel: str, names: set[str]) -> list[str]:
    """Return what is wrong with a wheel: compiled parts, or files of the project left out."""
    faults = [] if wheel.endswith("-py3-none-any.whl") else [f"{wheel} is not a pure wheel"]
    faults += [f"a compiled file: {name}" for name in names if name.endswith((".so", ".a", ".o"))]
    listed = subprocess.run(  # noqa: S603 - one list, of names in this file
        ["git", "ls-files", "-z", "src/stackproof", *DATA_FOLDERS],  # noqa: S607 - the caller's git
        cwd=ROOT, check=True, stdout=subprocess.PIPE, env=dict(os.environ),
    ).stdout.decode()  # fmt: skip
    for path in filter(None, listed.split("\0")):
        inside = path.removeprefix("src/") if path.startswith("src/") else f"stackproof/data/{path}"
        if inside not in names and Path(ROOT, path).name != ".gitkeep":
            faults.append(f"the wheel lacks {path}")
    return faults
