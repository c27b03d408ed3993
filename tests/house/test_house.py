"""The rules of the house, as far as a program can check them (CODING_STYLE.md says why)."""

from __future__ import annotations

import ast
import collections
import importlib.metadata
import importlib.util
import itertools
import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import jsonschema
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from stackproof import cli

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "stackproof"
MODULES = sorted(PACKAGE.rglob("*.py"))
PROGRAMS = sorted(
    [
        *MODULES,
        ROOT / "noxfile.py",
        *(ROOT / "tools").glob("*.py"),
        *(ROOT / "benchmarks").glob("*.py"),
    ]
)
SCHEMAS = sorted((PACKAGE / "core" / "schemas").glob("*.json"))
# The only folders with effects.
EFFECTS = {"effects", "cli", "__main__.py"}

MODULE_LINES = 500
FUNCTION_LINES = 60
PARAMETERS = 6

Function = ast.FunctionDef | ast.AsyncFunctionDef


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def functions(path: Path) -> Iterator[Function]:
    return (node for node in ast.walk(tree(path)) if isinstance(node, Function))


def tracked() -> list[Path]:
    """Return the files of the project, or skip where this is no checkout."""
    if not (ROOT / ".git").exists() or not shutil.which("git"):
        pytest.skip("not a git checkout")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, stdout=subprocess.PIPE, check=True)
    paths = [ROOT / word for word in listed.stdout.decode().split("\0") if word]
    return [path for path in paths if path.is_file()]


@pytest.mark.parametrize("path", PROGRAMS, ids=name)
def test_modules_are_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= MODULE_LINES


@pytest.mark.parametrize("path", PROGRAMS, ids=name)
def test_functions_are_short(path: Path) -> None:
    lengths = {f.name: (f.end_lineno or 0) - f.lineno + 1 for f in functions(path)}
    assert {name: lines for name, lines in lengths.items() if lines > FUNCTION_LINES} == {}


@pytest.mark.parametrize("path", PROGRAMS, ids=name)
def test_functions_take_few_parameters(path: Path) -> None:
    counts = {}
    for function in functions(path):
        every = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
        counts[function.name] = len([a for a in every if a.arg not in {"self", "cls"}])
    assert {name: count for name, count in counts.items() if count > PARAMETERS} == {}


@pytest.mark.parametrize("path", PROGRAMS, ids=name)
def test_what_is_public_has_a_docstring(path: Path) -> None:
    module = tree(path)
    assert ast.get_docstring(module)
    owners: list[ast.Module | ast.ClassDef] = [module]
    owners += [n for n in module.body if isinstance(n, ast.ClassDef) and not n.name.startswith("_")]
    bare = [
        node.name
        for owner in owners
        for node in owner.body
        if isinstance(node, Function | ast.ClassDef)
        and not node.name.startswith("_")
        and not ast.get_docstring(node)
    ]
    assert bare == []


def test_a_public_class_has_its_name_alone() -> None:
    """A reader who meets a name looks it up once."""
    counts = collections.Counter(
        node.name
        for path in MODULES
        for node in tree(path).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert {name: count for name, count in counts.items() if count > 1} == {}


ROOMS = sorted(path.parent for path in PACKAGE.glob("*/__init__.py"))


def test_the_package_is_rooms_only() -> None:
    files = {path.name for path in PACKAGE.iterdir() if path.is_file()}
    assert files == {"__init__.py", "__main__.py", "py.typed"}
    crowded = {
        name(folder): count
        for folder in {path.parent for path in MODULES}
        if (count := len([*folder.glob("*.py")])) > 25
    }
    assert crowded == {}


def test_the_page_has_a_row_for_every_room() -> None:
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


def test_what_the_security_rules_find_has_its_reason_at_the_line() -> None:
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


def test_importing_changes_nothing() -> None:
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


@pytest.mark.parametrize(
    "path",
    [path for path in MODULES if not EFFECTS & set(path.relative_to(PACKAGE).parts)],
    ids=name,
)
def test_only_effects_and_verbs_have_effects(path: Path) -> None:
    found = list(effects(path))
    if "importlib.resources" in path.read_text():  # data inside the package never change
        found = [effect for effect in found if not effect.endswith(".read_text")]
    assert found == []


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


def test_what_is_imported_is_declared_and_the_other_way_round() -> None:
    """Pip is run; what belongs to Spack is there in Spack's own Python, or with the extra."""
    assert imported(MODULES) - declared("spack") - {"spack"} | {"pip"} == declared()


def test_what_tests_and_tools_import_is_declared() -> None:
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


def test_an_installation_is_small() -> None:
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


# Rooms, and parts of rooms, that read what others wrote.
_OF_READERS = (
    "bench/import_outputs.py", "bench/path_logs/", "build/engines/spack/stackinator/",
    "core/document.py", "doctor/bundle.py", "image/", "knowledge/evidence.py", "linking/",
)  # fmt: skip
# What is no limit of foreign input: how much is kept, shown, waited for or downloaded.
_OTHER_LIMITS = {
    "_MAX_CACHED_BYTES", "_LONGEST", "_LONGEST_S", "_LONGEST_CUT", "_BYTES_AT_LEAST", "_MOST_SHOWN",
}  # fmt: skip


@pytest.mark.parametrize(
    "path",
    [
        path
        for path in MODULES
        if "effects" in path.parts or path.relative_to(PACKAGE).as_posix().startswith(_OF_READERS)
    ],
    ids=name,
)
def test_limits_of_readers_are_in_one_place(path: Path) -> None:
    """A number that a module says itself, under a name of a limit, is one that the table lacks."""
    own = [
        target.id
        for node in tree(path).body
        if isinstance(node, ast.Assign)
        and not any(isinstance(inner, ast.Name | ast.Attribute) for inner in ast.walk(node.value))
        for target in node.targets
        if isinstance(target, ast.Name) and re.match(r"_?(MAX|MOST|LARGEST|LONGEST)", target.id)
    ]
    assert [word for word in own if word not in _OTHER_LIMITS] == []


def texts_without_encoding(path: Path) -> Iterator[int]:
    """Yield the lines where a text file is opened in whatever encoding the user's locale has."""
    for node in ast.walk(tree(path)):
        if not isinstance(node, ast.Call) or any(
            k.arg in {"encoding", None} for k in node.keywords
        ):
            continue
        match node:
            case ast.Call(func=ast.Attribute(attr="read_text"), args=[]):
                yield node.lineno
            case ast.Call(func=ast.Attribute(attr="write_text"), args=[_]):
                yield node.lineno
            case ast.Call(func=ast.Attribute(attr="fdopen") | ast.Name(id="open"), args=[_, *more]):
                modes = [*more[:1], *(k.value for k in node.keywords if k.arg == "mode")]
                if not modes or (isinstance(modes[0], ast.Constant) and "b" not in modes[0].value):
                    yield node.lineno


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_texts_are_read_and_written_as_utf_8(path: Path) -> None:
    assert list(texts_without_encoding(path)) == []


def keys_of(node: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every schema of a key: below `properties`, wherever that stands."""
    if isinstance(node, list):
        for index, inner in enumerate(node):
            yield from keys_of(inner, f"{path}[{index}]")
    elif isinstance(node, dict):
        properties = node.get("properties", {})
        for key, value in properties.items():
            yield f"{path}.{key}", value
        for key, inner in node.items():
            yield from keys_of(inner, f"{path}.{key}")


@pytest.mark.parametrize("path", SCHEMAS, ids=lambda path: path.stem)
def test_schemas(path: Path) -> None:
    schema = json.loads(path.read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["description"]
    bare = [place for place, value in keys_of(schema) if not value.get("description")]
    assert bare == []


def closed(node: Any) -> bool:
    """Return whether every mapping of a schema says what else it may hold."""
    if isinstance(node, list):
        return all(closed(inner) for inner in node)
    if not isinstance(node, dict):
        return True
    if isinstance(node.get("properties"), dict) and isinstance(node.get("type"), str):
        open_ended = node["type"] == "object" and "additionalProperties" not in node
        if open_ended:
            return False
    return all(closed(inner) for inner in node.values())


@pytest.mark.parametrize("path", SCHEMAS, ids=lambda path: path.stem)
def test_schemas_refuse_unknown_keys(path: Path) -> None:
    assert closed(json.loads(path.read_text()))


def test_there_are_schemas() -> None:
    assert {path.stem for path in SCHEMAS} >= {"recipe", "site"}


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


def test_no_file_names_a_package_host_or_a_folder_of_one_machine() -> None:
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


def test_nothing_large_or_built_is_tracked() -> None:
    ends = (".pyc", ".so", ".o", ".a", ".whl", ".squashfs", ".egg-info")
    assert [name(path) for path in tracked() if path.name.endswith(ends)] == []
    assert [name(path) for path in tracked() if path.stat().st_size > 2 << 20] == []


TEST_FILES = sorted((ROOT / "tests").rglob("*.py"))


@pytest.mark.parametrize("path", TEST_FILES, ids=name)
def test_every_test_is_collected(path: Path) -> None:
    """A file whose name pytest does not look for holds no test, and none hides behind another."""
    tests = [
        f.name for f in tree(path).body if isinstance(f, Function) and f.name.startswith("test_")
    ]
    if path.name.startswith("test_"):
        assert tests
        assert len(tests) == len(set(tests)), "two tests of one name: the first one never runs"
    else:
        assert tests == []


def test_pytest_looks_everywhere(pytestconfig: pytest.Config) -> None:
    assert pytestconfig.getini("testpaths") == ["tests"]
    hidden = set(pytestconfig.getini("norecursedirs"))
    folders = {path.parent for path in TEST_FILES}
    assert not any(folder.name in hidden for folder in folders)


@pytest.mark.parametrize("verb", cli.VERBS)
def test_every_verb_is_in_the_reference(verb: str) -> None:
    assert importlib.util.find_spec(f"stackproof.{cli.VERBS[verb][0]}_arguments") is not None
    assert f"## stackproof {verb}\n" in (ROOT / "docs" / "reference" / "commands.md").read_text()


def test_the_reference_is_up_to_date() -> None:
    argv = [sys.executable, str(ROOT / "tools" / "generate_reference.py"), "--check"]
    done = subprocess.run(argv, stderr=subprocess.PIPE, text=True, check=False)
    assert done.stderr == ""
    assert done.returncode == 0


@pytest.mark.parametrize("path", [".ci/run", "tools/bootstrap"])
def test_shell_scripts_are_well_formed_and_stop_at_the_first_error(path: str) -> None:
    text = (ROOT / path).read_text()
    assert text.startswith("#!/bin/bash\n")
    assert "\nset -euo pipefail\n" in text
    assert (ROOT / path).stat().st_mode & 0o111
    subprocess.run(["bash", "-n", ROOT / path], check=True)


def test_continuous_integration_runs_what_a_person_runs() -> None:
    lines = (ROOT / ".ci" / "run").read_text().splitlines()
    assert "make test || status=$?" in lines
    assert lines[-1] == 'exit "$status"'
    counted = "count_tests.py build/tests-abreast.xml build/tests-in-turn.xml"
    assert f"{counted} build/fresh.xml" in lines[-2]
    assert f"{counted};" in (ROOT / "Makefile").read_text()


def test_every_test_is_run_by_one_session() -> None:
    """Those with a marker and those without it are all."""
    text = (ROOT / "noxfile.py").read_text()
    assert 'ABREAST, IN_TURN = ("-m", "not in_turn"), ("-m", "in_turn")\n' in text
    for name in ("abreast", "in_turn"):
        body = text.partition(f"def {name}(")[2].partition("@nox.session")[0]
        assert f"*{name.upper()})" in body


def test_tests_stand_where_the_code_stands() -> None:
    """Below tests/ is a folder for each room, one for native/ and one for the whole project."""
    rooms = {path.parent.name for path in MODULES if path.parent.parent == PACKAGE}
    tests = [path for path in TEST_FILES if path.name.startswith("test_")]
    assert {path.parent.parent for path in tests} == {ROOT / "tests"}
    assert {path.parent.name for path in tests} <= {*rooms, "native", "house"}
    names = [path.name for path in tests]
    assert len(names) == len(set(names)), "a page names a test by its file alone"


def links(text: str) -> Iterator[str]:
    without_code = re.sub(r"(`+).+?\1", "", text)
    for target in re.findall(r"\]\(([^)\s]+)\)", without_code):
        if not target.startswith(("http:", "https:", "#", "mailto:")):
            yield target.partition("#")[0]


def test_links_between_pages_lead_somewhere() -> None:
    pages = [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")]
    broken = [
        f"{name(page)}: {target}"
        for page in pages
        for target in links(page.read_text())
        if not (page.parent / target).exists()
    ]
    assert broken == []


def test_decisions_are_numbered_without_a_gap() -> None:
    numbers = sorted(int(path.name[:3]) for path in (ROOT / "docs" / "decisions").glob("*.md"))
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) >= 6


def test_every_page_can_be_found_from_the_index() -> None:
    docs = ROOT / "docs"
    found: set[Path] = set()
    left = [docs / "index.md"]
    while left:
        page = left.pop()
        if page not in found and page.suffix == ".md":
            found.add(page)
            left += [(page.parent / target).resolve() for target in links(page.read_text())]
    assert sorted(name(page) for page in set(docs.rglob("*.md")) - found) == []


def tool(name: str) -> ModuleType:
    """Return a module of `tools/`, which is no part of the package."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_namespace_goes_no_further_than_the_function_that_makes_options_of_it() -> None:
    verbs = tool("thin_verbs")
    assert len(verbs.entries()) > 40
    assert verbs.entries() <= verbs.of_namespace()
    assert set(verbs.beyond_entries()) == set()


def test_three_quarters_of_a_verb_print_or_declare() -> None:
    total, silent = tool("thin_verbs").lines()
    assert silent <= total / 4


def test_no_module_is_without_a_test() -> None:
    """A test imports it, or is of its verb and says so; what is said is there and is tested there."""
    untested = tool("untested")
    assert untested.untested() == []
    said = [path for file in TEST_FILES for path in untested.covers(tree(file))]
    assert sorted(set(said) - untested.modules()) == []
    assert len(said) == len(set(said)), "two files say that they cover one module"
