"""The rules of the house, as far as a program can check them (CODING_STYLE.md says why)."""

from __future__ import annotations

import ast
import collections
import importlib.metadata
import itertools
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from housefiles import (
    C_FILES,
    MODULES,
    PACKAGE,
    PROGRAMS,
    ROOT,
    TEST_FILES,
    Function,
    broken,
    name,
    tool,
    tracked,
    tree,
)  # fmt: skip
from stackproof import cli

# The only folders with effects.
EFFECTS = {"effects", "cli", "__main__.py"}

MODULE_LINES = 500
FUNCTION_LINES = 60
PARAMETERS = 6
C_LINES = 400
COLUMNS = 100


def functions(path: Path) -> Iterator[Function]:
    return (node for node in ast.walk(tree(path)) if isinstance(node, Function))


def long_parts(path: Path) -> Iterator[str]:
    """Yield what has too many lines or parameters."""
    if (lines := len(path.read_text().splitlines())) > MODULE_LINES:
        yield f"{lines} lines"
    for function in functions(path):
        if (lines := (function.end_lineno or 0) - function.lineno + 1) > FUNCTION_LINES:
            yield f"{function.name} has {lines} lines"
        every = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
        if (count := len([a for a in every if a.arg not in {"self", "cls"}])) > PARAMETERS:
            yield f"{function.name} takes {count} parameters"


@pytest.mark.battery
def test_modules_and_functions_are_short_and_take_few_parameters():
    assert broken(long_parts, PROGRAMS) == []


def long_c(path: Path) -> Iterator[str]:
    """Yield what is long in a file of C; one for tests may be as long as a module."""
    lines = path.read_text().splitlines()
    for_tests = "tests" in Path(name(path)).parts or path.name.startswith("test_")
    if len(lines) > (MODULE_LINES if for_tests else C_LINES):
        yield f"{len(lines)} lines"
    for number, line in enumerate(lines, 1):
        if len(line) > COLUMNS:
            yield f"line {number} has {len(line)} characters"


def test_files_of_c_are_short():
    assert broken(long_c, C_FILES) == []
    found = {name(path.parent) for path in C_FILES}
    assert {"native/core", "src/stackproof/pack/csrc", "tests/csrc"} <= found


def without_docstring(path: Path) -> Iterator[str]:
    """Yield what is public and does not say what it is."""
    owners: list[ast.Module | ast.ClassDef] = [tree(path)]
    owners += [n for n in owners[0].body if isinstance(n, ast.ClassDef) and n.name[0] != "_"]
    if not ast.get_docstring(owners[0]):
        yield "the module"
    for node in (node for owner in owners for node in owner.body):
        public = isinstance(node, Function | ast.ClassDef) and node.name[0] != "_"
        if public and not ast.get_docstring(node):
            yield node.name


def test_what_is_public_has_a_docstring():
    assert broken(without_docstring, PROGRAMS) == []


def test_a_public_class_has_its_name_alone():
    """A reader who meets a name looks it up once."""
    counts = collections.Counter(
        node.name
        for path in MODULES
        for node in tree(path).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert {name: count for name, count in counts.items() if count > 1} == {}


def given_twice(path: Path) -> Iterator[str]:
    """Yield the names that a module gives a value a second time, of which only the last counts."""
    plain = (ast.Assign, ast.AnnAssign)
    names = (
        target.id
        for node in tree(path).body
        if isinstance(node, plain)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    )
    yield from (name for name, count in collections.Counter(names).items() if count > 1)


def test_a_name_of_a_module_has_one_value(tmp_path):
    """As it happens where two add a limit side by side."""
    assert broken(given_twice, PROGRAMS) == []
    wrong = tmp_path / "wrong.py"
    wrong.write_text("A = 1\nB: int = 2\nA = 3\n", encoding="utf-8")
    assert list(given_twice(wrong)) == ["A"]


ROOMS = sorted(path.parent for path in PACKAGE.glob("*/__init__.py"))


def test_the_package_is_rooms_only():
    files = {path.name for path in PACKAGE.iterdir() if path.is_file()}
    assert files == {"__init__.py", "__main__.py", "py.typed"}
    crowded = {
        name(folder): count
        for folder in {path.parent for path in MODULES}
        if (count := len([*folder.glob("*.py")])) > 25
    }
    assert crowded == {}


def test_the_page_has_a_row_for_every_room():
    """It says what the room itself says, so that neither is behind."""
    text = (ROOT / "docs" / "explanation" / "architecture.md").read_text()
    shown = dict(re.findall(r"^\| `([a-z]+)/` \| (.+) \|$", text, re.MULTILINE))
    own = {
        room.name: " ".join(
            (ast.get_docstring(tree(room / "__init__.py")) or "").split("\n\n")[0].split()
        )
        for room in ROOMS
    }
    assert shown == own


def test_what_the_security_rules_find_has_its_reason_at_the_line():
    """No rule of security is off for a whole folder of what users run."""
    lint = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]["lint"]
    off = {word for word in lint["ignore"] if re.fullmatch(r"S\d*", word)} - {"S404"}
    for folder, words in lint["per-file-ignores"].items():
        if not folder.startswith(("tests/", "benchmarks/")):
            off |= {word for word in words if re.fullmatch(r"S\d*", word)}
    assert off == set()
    bare = [
        f"{name(path)}:{number}"
        for path in PROGRAMS
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if re.search(r"# noqa: [A-Z\d, ]*\bS\d{3}\b", line)
        and not re.search(r"# noqa: [A-Z\d, ]+ - [\w`]", line)
    ]
    assert bare == []


def test_importing_changes_nothing():
    """A module that runs as a program does its work under `__main__` only."""
    names = [".".join(path.relative_to(ROOT / "src").with_suffix("").parts) for path in MODULES]
    names = [word.removesuffix(".__init__") for word in names if not word.endswith("__main__")]
    script = (
        "import sys, os, importlib\n"
        "before = (list(sys.path), dict(os.environ), os.getcwd())\n"
        f"for name in {names!r}:\n    importlib.import_module(name)\n"
        "print(before == (sys.path, dict(os.environ), os.getcwd()))"
    )
    done = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, check=True)
    assert done.stdout == b"True\n"


# What reaches the machine. `os` itself is allowed for paths and constants.
_MODULES_WITH_EFFECTS = {
    "subprocess", "socket", "shutil", "tempfile", "urllib.request", "http", "ftplib", "ssl", "ctypes",
    "signal", "fcntl", "mmap", "multiprocessing", "concurrent", "asyncio", "threading", "logging",
    "glob", "requests", "getpass", "pwd", "platform", "time",
}  # fmt: skip
_CALLS_WITH_EFFECTS = {"open", "print", "input", "exec", "eval", "breakpoint"}
_METHODS_WITH_EFFECTS = {
    "write_text", "write_bytes", "read_text", "read_bytes", "mkdir", "unlink", "rmdir", "touch",
    "symlink_to", "chmod", "exists", "is_file", "is_dir", "iterdir", "rglob", "resolve", "expanduser",
    "stat", "getcwd", "environ", "getenv", "system", "today", "utcnow",
}  # fmt: skip


def effects(path: Path) -> Iterator[str]:
    for node in ast.walk(tree(path)):
        match node:
            case ast.Import(names=names):
                found = {alias.name for alias in names}
            case ast.ImportFrom(module=str(module)):
                found = {module}
            case ast.Call(func=ast.Name(id=called)):
                if called in _CALLS_WITH_EFFECTS:
                    yield f"line {node.lineno}: {called}()"
                continue
            case ast.Attribute(attr=attribute):
                if attribute in _METHODS_WITH_EFFECTS:
                    yield f"line {node.lineno}: .{attribute}"
                continue
            case _:
                continue
        for module in found:
            if module in _MODULES_WITH_EFFECTS or module.split(".")[0] in _MODULES_WITH_EFFECTS:
                yield f"line {node.lineno}: import {module}"


def effects_but_own_data(path: Path) -> Iterator[str]:
    """Yield effects; data inside the package never change."""
    own = "importlib.resources" in path.read_text()
    return (found for found in effects(path) if not (own and found.endswith(".read_text")))


def test_only_effects_and_verbs_have_effects():
    pure = [path for path in MODULES if not EFFECTS & set(path.relative_to(PACKAGE).parts)]
    assert broken(effects_but_own_data, pure) == []


# Names of packages that are not those by which they are imported.
_PACKAGES = {
    "cyclonedx": "cyclonedx-python-lib", "elftools": "pyelftools", "packageurl": "packageurl-python",
    "yaml": "pyyaml",
}  # fmt: skip
_ASKED = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def declared(*extras: str) -> set[str]:
    """Return the packages that pyproject.toml asks for: always, or with the extras."""
    lists = [_ASKED["optional-dependencies"][extra] for extra in extras]
    every = [text for one in lists or [_ASKED["dependencies"]] for text in one]
    return {canonicalize_name(Requirement(text).name) for text in every}


def imported(paths: Iterable[Path]) -> set[str]:
    """Return the packages that files import, but for Python's own and files of this project."""
    paths = list(paths)
    found = set()
    for node in itertools.chain.from_iterable(ast.walk(tree(path)) for path in paths):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    found -= {"stackproof", *sys.stdlib_module_names, *(path.stem for path in paths)}
    return {_PACKAGES.get(word, word) for word in found}


def test_what_is_imported_is_declared_and_the_other_way_round():
    """Pip is run; what belongs to Spack is there in Spack's own Python, or with the extra."""
    assert imported(MODULES) - declared("spack") - {"spack"} | {"pip"} == declared()


@pytest.mark.battery
def test_what_tests_and_tools_import_is_declared():
    folders = [ROOT / name for name in ("tests", "tools", "benchmarks")]
    files = [path for folder in folders for path in folder.rglob("*.py")]
    files = [path for path in files if "documents" not in path.parts]  # Spack's, for Spack
    assert imported([*files, ROOT / "noxfile.py"]) <= declared() | declared("test", "lint")


def installed(names: Iterable[str]) -> set[str]:
    """Return packages with all that they need, as they are installed here."""
    found: set[str] = set()
    left = list(names)
    while left:
        word = left.pop()
        if word not in found:
            found.add(word)
            needs = map(Requirement, importlib.metadata.requires(word) or [])
            here = (one for one in needs if not one.marker or one.marker.evaluate({"extra": ""}))
            left += [canonicalize_name(one.name) for one in here]
    return found


def test_an_installation_is_small():
    """Stackproof with all that it needs has less than 140 MB; numpy and pip are most of it."""
    sizes = {
        word: sum(
            Path(file.locate()).stat().st_size
            for file in importlib.metadata.files(word) or ()
            if Path(file.locate()).exists()
        )
        for word in installed(declared())
    }
    sizes["stackproof"] = sum(p.stat().st_size for p in PACKAGE.rglob("*") if p.is_file())
    assert sizes["numpy"] > 10_000_000
    assert sum(sizes.values()) < 140_000_000, sorted(sizes.items(), key=lambda item: -item[1])[:5]


# What everybody calls so: their own documentation does.
_CONVENTIONS = {
    "collections.abc.Set as AbstractSet", "datetime as dt", "hypothesis.strategies as st",
    "numpy as np", "numpy.typing as npt", "xml.etree.ElementTree as ET",
}  # fmt: skip


def renamed(path: Path) -> Iterator[str]:
    """Yield the imports that give something another name than its own.

    A module may have the name of one of its folders in front (`cluster_up`), where its own alone
    would not say enough, or an `s` behind (`documents`), where a value has its name.
    """
    for node in ast.walk(tree(path)):
        if not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        above = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
        for alias in node.names:
            folders = above.split(".")[1:-1]
            named = alias.name.rpartition(".")[2]
            allowed = {named, f"{named}s", *(f"{folder}_{named}" for folder in folders)}
            written = f"{above}{alias.name} as {alias.asname}"
            if alias.asname and alias.asname not in allowed and written not in _CONVENTIONS:
                yield f"line {node.lineno}: {written}"


@pytest.mark.battery
def test_a_module_is_called_by_its_name():
    tests = [path for path in TEST_FILES if "documents" not in path.parts]  # Spack's, for Spack
    assert broken(renamed, [*PROGRAMS, *tests]) == []


def test_an_old_name_is_found(tmp_path):
    lines = {
        "from stackproof.cluster.effects import up as cluster_up": True,
        "from stackproof.core import document as documents": True,
        "import numpy as np": True,
        "from stackproof.cluster.effects import up as host_cluster": False,
        "from stackproof.mpi.families import REGISTRY as MPIS": False,
        "import slurm_endings as endings": False,
    }
    for number, (line, good) in enumerate(lines.items()):
        path = tmp_path / f"{number}.py"
        path.write_text(f"{line}\n")
        assert (list(renamed(path)) == []) == good, line


# Rooms, and parts of rooms, that read what others wrote.
_OF_READERS = (
    "bench/import_outputs.py", "mpi/path_logs/", "build/engines/spack/stackinator/",
    "core/document.py", "image/", "knowledge/evidence.py", "linking/",
)  # fmt: skip
# What is no limit of foreign input: how much is kept, shown, waited for or downloaded.
_OTHER_LIMITS = {
    "_MAX_CACHED_BYTES", "_LONGEST", "_LONGEST_S", "_LONGEST_CUT", "_BYTES_AT_LEAST", "_MOST_SHOWN",
}  # fmt: skip


def own_limits(path: Path) -> list[str]:
    """Return the numbers that a module says itself, under names of limits."""
    own = [
        target.id
        for node in tree(path).body
        if isinstance(node, ast.Assign)
        and not any(isinstance(inner, ast.Name | ast.Attribute) for inner in ast.walk(node.value))
        for target in node.targets
        if isinstance(target, ast.Name) and re.match(r"_?(MAX|MOST|LARGEST|LONGEST)", target.id)
    ]
    return [word for word in own if word not in _OTHER_LIMITS]


def test_limits_of_readers_are_in_one_place():
    readers = [
        path
        for path in MODULES
        if "effects" in path.parts or path.relative_to(PACKAGE).as_posix().startswith(_OF_READERS)
    ]
    assert broken(own_limits, readers) == []


def texts_without_encoding(path: Path) -> Iterator[str]:
    """Yield the lines where a text file is opened in whatever encoding the user's locale has."""
    for node in ast.walk(tree(path)):
        if not isinstance(node, ast.Call) or any(
            k.arg in {"encoding", None} for k in node.keywords
        ):
            continue
        match node:
            case ast.Call(func=ast.Attribute(attr="read_text"), args=[]):
                yield f"line {node.lineno}"
            case ast.Call(func=ast.Attribute(attr="write_text"), args=[_]):
                yield f"line {node.lineno}"
            case ast.Call(func=ast.Attribute(attr="fdopen") | ast.Name(id="open"), args=[_, *more]):
                modes = [*more[:1], *(k.value for k in node.keywords if k.arg == "mode")]
                if not modes or (isinstance(modes[0], ast.Constant) and "b" not in modes[0].value):
                    yield f"line {node.lineno}"


def test_texts_are_read_and_written_as_utf_8():
    assert broken(texts_without_encoding, MODULES) == []


def _pattern(*words: tuple[str, ...]) -> re.Pattern[str]:
    """Return a pattern of words that this file itself must not hold in one piece."""
    return re.compile("|".join(re.escape("".join(pieces)) for pieces in words))


_HOSTS = _pattern(
    ("pypi", ".org"), ("python", "hosted.org"), ("registry.", "npmjs"), ("crates", ".io"),
    ("proxy.", "golang"), ("deb.", "debian.org"), ("archive.", "ubuntu.com"), ("repo", ".maven"),
    ("docker", ".io"), ("quay", ".io"), ("ghcr", ".io"), ("nvcr", ".io"),
)  # fmt: skip
# Absolute paths of somebody's own folders, where a path of the system or a relative one belongs.
_FOLDERS = re.compile(
    "|".join(
        (
            r"/ho" + r"me/(?!me/|user/|alice\b|bob\b|NAME\b)\w",
            r"(?<!self)/ro" + r"ot/[.\w]",
            r"/wo" + r"rk/\w",
            r"/t" + r"mp/exp\b",
        )
    )
)


def test_no_file_names_a_package_host_or_a_folder_of_one_machine():
    found = []
    for path in tracked():
        # What was recorded on a machine has its folders; hosts are taken out of it all the same.
        recorded = "captures" in path.parts
        try:
            lines = path.read_text().splitlines()
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(lines, start=1):
            if _HOSTS.search(line) or (not recorded and _FOLDERS.search(line)):
                found.append(f"{name(path)}:{number}: {line.strip()[:100]}")
    assert found == []


def test_nothing_large_or_built_is_tracked():
    ends = (".pyc", ".so", ".o", ".a", ".whl", ".squashfs", ".egg-info")
    assert [name(path) for path in tracked() if path.name.endswith(ends)] == []
    assert [name(path) for path in tracked() if path.stat().st_size > 2 << 20] == []


@pytest.mark.parametrize("verb", cli.VERBS)
def test_every_verb_is_in_the_reference(verb):
    module, _, kind = cli.VERBS[verb][0].partition(":")
    assert hasattr(importlib.import_module(f"stackproof.{module}"), kind)
    assert f"## stackproof {verb}\n" in (ROOT / "docs" / "reference" / "commands.md").read_text()


@pytest.mark.parametrize("path", [".ci/run", "tools/bootstrap"])
def test_shell_scripts_are_well_formed_and_stop_at_the_first_error(path):
    text = (ROOT / path).read_text()
    assert text.startswith("#!/bin/bash\n")
    assert "\nset -euo pipefail\n" in text
    assert (ROOT / path).stat().st_mode & 0o111
    subprocess.run(["bash", "-n", ROOT / path], check=True)


def test_continuous_integration_runs_what_a_person_runs():
    lines = (ROOT / ".ci" / "run").read_text().splitlines()
    assert lines[-1] == "exec make test"
    assert "tools/count_tests.py build/tests.xml;" in (ROOT / "Makefile").read_text()


def test_a_namespace_goes_no_further_than_the_function_that_makes_options_of_it():
    verbs = tool("thin_verbs")
    assert len(verbs.entries()) > 40
    assert verbs.entries() <= verbs.of_options()
    assert verbs.of_namespace() == verbs.OF_ALL_VERBS


def test_three_quarters_of_a_verb_print_or_declare():
    total, silent = tool("thin_verbs").lines()
    assert silent <= total / 4
