"""`mirror`: sources of the operating system from an archive of our own; what is refused, and how."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import documented
import spackstacks
from aptarchive import AptArchive, tarball
from need import need
from stackproof import cli
from stackproof.build.effects import source_mirror, stacks
from stackproof.build.engines import spack as build_spack
from stackproof.build.engines.spack import os_sources as spack_os_sources
from stackproof.build.engines.spack.effects import accepted_sources
from stackproof.build.engines.spack.effects import build as spack_build
from stackproof.build.engines.spack.stack import SpackLock
from stackproof.build.options import RecipeOptions
from stackproof.core import ids
from stackproof.core.cli.examples import OUTPUTS
from stackproof.core.monitor import null_monitor
from stackproof.core.noun import to_json

COVERS = (
    "build/cli/mirror.py",
    "build/cli/os_sources.py",
    "build/engines/spack/effects/source_search.py",
)

FJORD = Path(__file__).parents[1] / "documents" / "stackinator" / "clusters" / "fjord"
UPSTREAM = tarball("configure", "thing.c")
PACKAGES = {
    "libthing": f"""
class Libthing(AutotoolsPackage):
    version("1.3", sha256="{"c" * 64}")
    version("1.2", sha256="{"d" * 64}")
    version("1.1", sha256="{hashlib.sha256(UPSTREAM).hexdigest()}")
""",
    "other": """
class Other(Package):
    version("2.0", sha256="e")
""",
}
RECIPE = """\
name: small
engine: spack
spack:
  repo: {spack}
  commit: main
  packages: {{repo: {packages}, commit: main}}
compilers: {{gcc: {{version: "13"}}}}
environments: {{tools: {{compiler: [gcc], specs: [libthing@1.2]}}}}
"""
Run = Callable[..., tuple[int, str, str]]


def git(folder: Path, files: dict[str, str]) -> Path:
    """Make a repository with one commit on `main`."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    who = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    for words in (("init", "-q", "-b", "main"), ("add", "."), (*who, "commit", "-qm", "x")):
        subprocess.run(["git", *words], cwd=folder, check=True, timeout=600)
    return folder


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    """Return a recipe with repositories of its own: Spack (nothing in it) and two packages."""
    base = "repos/spack_repo/builtin/packages"
    texts = {f"{base}/{name}/package.py": text for name, text in PACKAGES.items()}
    spack = git(tmp_path / "clones" / "spack", {"README": "x"})
    packages = git(tmp_path / "clones" / "packages", texts)
    path = tmp_path / "recipes" / "small.yaml"
    path.parent.mkdir()
    path.write_text(RECIPE.format(spack=spack, packages=packages))
    return path


@pytest.fixture
def stackproof(capsys, monkeypatch, tmp_path) -> Run:
    """Return a function that runs a command line and gives exit code, output and messages."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STACKPROOF_CACHE", str(tmp_path / "cache"))

    def run(*words: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stopped:
            cli.main([str(word) for word in words])
        found = capsys.readouterr()
        return int(stopped.value.code or 0), found.out, found.err

    return run


@pytest.fixture
def archive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AptArchive]:
    need("apt")
    made = AptArchive(tmp_path_factory.mktemp("apt"))
    made.publish()
    yield made
    made.close()


@pytest.fixture
def add(stackproof: Run, archive: AptArchive, recipe: Path) -> Run:
    """Return a function that accepts sources of the archive for the recipe."""

    def run(*words: object) -> tuple[int, str, str]:
        site = ("--site", FJORD)
        return stackproof("mirror", "add-os-sources", recipe, *words, *site, *archive.options())

    return run


def sources_file(recipe: Path) -> Path:
    return recipe.with_name("small.os-sources.json")


def test_a_source_is_accepted_with_its_provenance(
    add: Run, stackproof: Run, archive: AptArchive, recipe: Path, tmp_path: Path
):
    digest = archive.add("libthing", "1.2-3", tarball("configure.ac", "thing.c"))
    code, out, err = add("libthing")
    assert code == 0, err
    shown = [row.replace("libfabric", "libthing") for row in OUTPUTS["mirror add-os-sources"][1:]]
    shown = [
        re.sub(r" +([0-9.]+ MB)", r" \1", row).replace("trixie", "debian testing") for row in shown
    ]
    assert documented.is_like(shown, out)
    [source] = accepted_sources.load(sources_file(recipe))
    assert source.sha256 == digest
    assert source.version == "1.2"
    assert source.suite == "debian testing"
    assert source.source_version == "1.2-3"
    assert source.url.endswith("/pool/main/l/libthing/libthing_1.2.orig.tar.gz")
    assert source.needs == spack_os_sources.TOOLS  # no `configure` in it
    dsc = archive.folder / "pool/main/l/libthing/libthing_1.2-3.dsc"
    assert source.dsc == hashlib.sha256(dsc.read_bytes()).hexdigest()
    assert source_mirror.holds(tmp_path / "cache" / "spack" / "sources", digest)
    code, out, _ = stackproof("plan", recipe, "--site", FJORD)
    assert code == 0
    assert f"libthing 1.2  debian testing: libthing 1.2-3, {ids.short(digest)}" in out
    code, out, err = stackproof("check", recipe, "--site", FJORD)
    assert code == 0, err


def test_the_newest_that_a_suite_really_has(add: Run, archive: AptArchive, recipe: Path):
    archive.add("libthing", "1.1-1", tarball("configure"))
    archive.add("libthing", "1.2-3", tarball("configure"))
    archive.add("libthing", "1.3-1", tarball("configure"), "Extra-Source-Only: yes")
    assert add("libthing")[0] == 0
    assert accepted_sources.load(sources_file(recipe))[0].version == "1.2"


def test_a_second_time_changes_nothing(add: Run, archive: AptArchive, recipe: Path):
    archive.add("libthing", "1.2-3", tarball("configure"))
    assert add("libthing")[0] == 0
    before = sources_file(recipe).stat()
    code, _, err = add("libthing")
    assert code == 0
    assert "written" not in err
    assert sources_file(recipe).read_bytes()
    assert accepted_sources.load(sources_file(recipe))[0].needs == ()  # `configure` is in it
    assert before.st_size == sources_file(recipe).stat().st_size


def test_upstreams_own_file_needs_no_second_digest(
    add: Run, archive: AptArchive, recipe: Path, tmp_path: Path
):
    digest = archive.add("libthing", "1.1-1", UPSTREAM)
    code, out, err = add("libthing", "--to", tmp_path / "mirror", "--json")
    assert code == 0, err
    data = json.loads(out)
    assert data["accepted"]["sources"] == []
    assert data["files"][0]["accepted"] is False
    assert not sources_file(recipe).exists()
    stored = tmp_path / "mirror" / source_mirror.ARCHIVES / digest[:2] / f"{digest}.tar.gz"
    assert stored.read_bytes() == UPSTREAM


def test_a_source_package_of_another_name(add: Run, archive: AptArchive, recipe: Path):
    archive.add("thing", "1.2-1", tarball("configure"))
    code, _, err = add("libthing")
    assert code == 3
    assert "libthing=" in err or "PACKAGE=SOURCE" in err
    assert add("libthing=thing")[0] == 0
    assert accepted_sources.load(sources_file(recipe))[0].source == "thing"


def test_all_that_cannot_be_had_is_said_at_once_and_nothing_written(
    add: Run, archive: AptArchive, recipe: Path, tmp_path: Path
):
    archive.add("libthing", "1.7-1", tarball("configure"))
    archive.add("other", "2.0-1", tarball("configure"))
    code, out, err = add("libthing", "libthnig", "other", "--json")
    assert code == 3
    said = json.loads(out)  # the problems, and no source of any
    assert said["schema"] == "stackproof/problems/1"
    assert len(said["problems"]) == 2
    assert err.count("error: ") == 2
    assert "1.7, which Spack's package does not know" in err
    assert "1.2" in err  # the versions that it does know
    assert "did you mean `libthing`" in err
    assert not sources_file(recipe).exists()
    assert not source_mirror.contents(tmp_path / "cache" / "spack" / "sources").sources


def test_an_archive_that_is_not_signed_is_refused(
    add: Run, archive: AptArchive, recipe: Path, tmp_path_factory: pytest.TempPathFactory
):
    archive.add("libthing", "1.2-3", tarball("configure"))
    archive.publish(signed=False)
    code, _, err = add("libthing")
    assert code == 5
    assert "not signed" in err
    archive.publish()
    other = AptArchive(tmp_path_factory.mktemp("x"))  # its socket's path must be short
    other.close()
    archive.keyring.write_bytes(other.keyring.read_bytes())
    code, _, err = add("libthing")
    assert code == 5
    assert "--keyring" in err
    assert not sources_file(recipe).exists()


def test_a_file_that_is_not_the_one_of_the_index_is_refused(
    add: Run, archive: AptArchive, recipe: Path
):
    archive.add("libthing", "1.2-3", tarball("configure"))
    pool = archive.folder / "pool/main/l/libthing/libthing_1.2.orig.tar.gz"
    pool.write_bytes(b"x" * len(pool.read_bytes()))
    code, _, err = add("libthing")
    assert code == 5
    assert "Hash Sum mismatch" in err or "not the file" in err
    assert not sources_file(recipe).exists()


def test_no_archive_no_keys_no_apt(add: Run, archive: AptArchive, stackproof: Run, recipe, monkeypatch):  # fmt: skip
    given = ("mirror", "add-os-sources", recipe, "libthing", "--site", FJORD)
    code, _, err = stackproof(*given, *archive.options()[:4], "--keyring", "nowhere.gpg")
    assert code == 4
    assert "nowhere.gpg" in err
    options = archive.options()
    code, _, err = stackproof(*given, "--archive", "file:///nowhere/debian", *options[2:])
    assert code == 4
    assert "--archive" in err
    monkeypatch.setenv("PATH", "/nowhere")
    code, _, err = stackproof(*given, *options)
    assert code == 4
    assert "apt-get" in err or "git" in err


def test_without_a_lock_packages_must_be_named(add: Run):
    code, _, err = add()
    assert code == 3
    assert "--stop-after lock" in err


def test_a_recipe_for_wheels_needs_no_sources(stackproof: Run, tmp_path: Path):
    (tmp_path / "wheel.yaml").write_text("name: a\nmpi: {family: mpich}\n")
    for words in (("create", "m", "wheel.yaml"), ("add-os-sources", "wheel.yaml", "x")):
        code, _, err = stackproof("mirror", *words)
        assert code == 3
        assert "wheels" in err
    assert not (tmp_path / "m").exists()


def test_a_list_edited_by_hand_is_checked(add: Run, archive: AptArchive, stackproof: Run, recipe: Path):  # fmt: skip
    archive.add("libthing", "1.2-3", tarball("configure"))
    assert add("libthing")[0] == 0
    good = sources_file(recipe).read_text()
    for old, new, code in (
        ('"libthing"', '"../x"', 3),
        ("stackproof/os-sources/1", "stackproof/os-sources/2", 3),
        ('"sources": [', '"sources": 7, "x": [', 3),
        ("{", "", 3),
    ):
        sources_file(recipe).write_text(good.replace(old, new, 1))
        found, _, err = stackproof("check", recipe, "--site", FJORD)
        assert found == code
        assert "small.os-sources.json" in err
    sources_file(recipe).write_text(good)
    assert stackproof("check", recipe, "--site", FJORD)[0] == 0


def test_a_digest_that_the_archive_states_no_more_is_a_problem(
    add: Run, archive: AptArchive, stackproof: Run, recipe: Path
):
    archive.add("libthing", "1.2-3", tarball("configure"))
    assert add("libthing")[0] == 0
    text = sources_file(recipe).read_text()
    digest = accepted_sources.load(sources_file(recipe))[0].sha256
    sources_file(recipe).write_text(text.replace(digest, "f" * 64))
    code, _, err = stackproof("check", recipe, "--site", FJORD)
    assert code == 5
    assert digest in err
    assert "f" * 64 in err


def test_what_a_lock_does_without_is_noted(add: Run, archive: AptArchive, recipe: Path):
    archive.add("libthing", "1.2-3", tarball("configure"))
    assert add("libthing")[0] == 0
    [loaded] = stacks.load_recipes(RecipeOptions(recipe=str(recipe), site=str(FJORD)))
    lock = SpackLock(wants="", clones=(), environments={})
    of_it = (loaded.stack, loaded.os_sources_path)
    problems, [note] = accepted_sources.accepted_problems(*of_it, lock)
    assert problems == ()
    assert "libthing 1.2" in note.message
    assert accepted_sources.accepted_problems(*of_it, None) == ((), ())


@pytest.mark.parametrize("content", ["file", "other"])
def test_a_mirror_is_not_made_of_something_else(
    stackproof: Run, recipe: Path, tmp_path: Path, content: str
):
    place = tmp_path / "place"
    if content == "file":
        place.write_text("x")
    else:
        place.mkdir()
        (place / "thesis.txt").write_text("x")
    code, _, err = stackproof("mirror", "create", place, recipe, "--site", FJORD)
    assert code == 3
    assert "place" in err


def write_lock(recipe: Path, namespace: str = "builtin") -> None:
    """Write a lock that answers the recipe: libthing 1.2 and other 2.0, gcc of the machine."""
    [loaded] = stacks.load_recipes(RecipeOptions(recipe=str(recipe), site=str(FJORD)))
    clones = spack_build.resolve_clones(loaded.stack, null_monitor)
    outside = {"external": {"path": "/usr", "module": None, "extra_attributes": {}}}
    content = spackstacks.content(
        ("libthing",),
        {**spackstacks.node("libthing", "1.2", ("other", "link")), "namespace": namespace},
        spackstacks.node("other", "2.0", ("gcc", "build")),
        spackstacks.node("gcc", "13.2.0", **outside),
    )
    every = {
        path.removesuffix("/spack.lock"): content for path in build_spack.lock_files(loaded.stack)
    }
    lock = SpackLock(wants=build_spack.wants(loaded.stack), clones=clones, environments=every)
    loaded.lock_path.write_text(to_json(lock))


def test_all_that_a_lock_wants_is_looked_for(
    add: Run, stackproof: Run, archive: AptArchive, recipe: Path, tmp_path: Path
):
    digest = archive.add("libthing", "1.2-3", tarball("configure"))
    archive.add("other", "2.1-1", tarball("configure"))
    write_lock(recipe)
    code, out, err = add()
    assert code == 0, err
    assert "libthing 1.2" in out
    assert "other 2.1, the lock wants 2.0" in err
    assert "the lock is stale now" in err
    assert "LOCK" not in err
    code, out, err = stackproof("check", recipe, "--site", FJORD)
    assert "small.fjord.lock.json" in err  # it is stale
    write_lock(recipe, spack_os_sources.NAMESPACE)
    assert stackproof("check", recipe, "--site", FJORD)[0] == 0
    code, _, err = add("--json")
    assert code == 0
    assert "written" not in err
    code, out, _ = add("--to", "mirror", "--json")
    assert [entry["package"] for entry in json.loads(out)["files"]] == ["libthing"]
    assert source_mirror.holds(tmp_path / "mirror", digest)


def test_an_accepted_source_that_the_suite_has_no_more_is_named(
    add: Run, archive: AptArchive, recipe: Path, tmp_path: Path
):
    archive.add("libthing", "1.2-3", tarball("configure"))
    assert add("libthing")[0] == 0
    accepted = sources_file(recipe).read_bytes()
    write_lock(recipe, spack_os_sources.NAMESPACE)
    archive.clear()
    archive.add("libthing", "1.2-4", tarball("configure", "another"))
    shutil.rmtree(tmp_path / "cache" / "apt")
    code, _, err = add("--to", "mirror")
    assert code == 0
    assert "has not the accepted source of libthing 1.2" in err
    assert sources_file(recipe).read_bytes() == accepted


def test_no_solver(stackproof: Run, recipe: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "clingo", None)
    code, _, err = stackproof("mirror", "create", "m", recipe, "--site", FJORD)
    assert code == 4
    assert "pip install clingo" in err


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--archive", "[trusted=yes] http://x/debian"),
        ("--archive", "ftp://x/debian"),
        ("--suite", "trixie main\ndeb-src [trusted=yes] http://x y"),
        ("--suite", "../x"),
        ("--keyring", "a.gpg trusted=yes"),
    ],
)
def test_what_would_be_another_line_of_apts_list(
    stackproof: Run, recipe: Path, archive: AptArchive, option: str, value: str
):
    options = archive.options()
    options[options.index(option) + 1] = value
    add = ("mirror", "add-os-sources", recipe, "libthing", "--site", FJORD)
    code, _, err = stackproof(*add, *options)
    assert code == 2
    assert "of an archive" in err


def test_a_stackinator_recipe_has_its_list_beside_the_folder(
    stackproof: Run, archive: AptArchive, recipe: Path, tmp_path: Path
):
    clones = tmp_path / "clones"
    folder = tmp_path / "theirs"
    folder.mkdir()
    (folder / "config.yaml").write_text(
        f"name: small\nversion: 2\nspack:\n  repo: {clones / 'spack'}\n  commit: main\n"
        f"  packages: {{repo: {clones / 'packages'}, commit: main}}\n"
    )
    (folder / "compilers.yaml").write_text('gcc: {version: "13"}\n')
    (folder / "environments.yaml").write_text(
        "tools:\n  compiler: [gcc]\n  specs: [libthing@1.2]\n  views: {all: }\n"
    )
    digest = archive.add("libthing", "1.2-3", tarball("configure"))
    words = ("mirror", "add-os-sources", folder, "libthing", "--site", FJORD)
    code, _, err = stackproof(*words, *archive.options())
    assert code == 0, err
    assert (tmp_path / "theirs.os-sources.json").exists()
    code, out, _ = stackproof("plan", folder, "--site", FJORD)
    assert code == 0
    assert ids.short(digest) in out
    assert "os_sources  libthing" in out
