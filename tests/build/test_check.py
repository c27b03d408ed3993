"""`check` on recipes for Spack, in every format: each problem has its place and says what to do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import gitfolders

COVERS = ("build/cli/check.py", "build/engines/spack/engine.py")

DOCUMENTS = Path(__file__).parents[1] / "documents"
FJORD = DOCUMENTS / "stackinator" / "clusters" / "fjord"
OLD = DOCUMENTS / "stackinator" / "clusters" / "fjord-spack-0.23"
PACKAGES = "from spack.package import *\n"

CONFIG = """\
name: small
spack:
  repo: https://example.org/spack.git
  commit: releases/v1.0
  packages:
    repo: https://example.org/packages.git
    commit: develop
version: 2
"""
FOLDER = {
    "config.yaml": CONFIG,
    "compilers.yaml": 'gcc:\n  version: "13"\n',
    "environments.yaml": "tools:\n  compiler: [gcc]\n  specs: [cmake]\n  views:\n    all:\n",
}
FILE = """\
name: small
engine: spack
spack:
  repo: https://example.org/spack.git
  commit: releases/v1.0
  packages:
    repo: https://example.org/packages.git
    commit: develop
compilers:
  gcc: {version: "13"}
environments:
  tools:
    compiler: [gcc]
    specs: [cmake]
    views:
      all:
"""


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def changed(text: str, old: str, new: str) -> str:
    assert old in text
    return text.replace(old, new, 1)


def problems(stackproof, recipe, site=FJORD):
    code, out, _ = stackproof("check", recipe, "--site", site, "--json")
    found = [p for p in json.loads(out)["problems"] if p["severity"] == "error"]
    assert (code == 0) == (not found)
    return found


def test_both_formats_are_valid(stackproof, tmp_path):
    write(tmp_path / "small", FOLDER)
    (tmp_path / "small.yaml").write_text(FILE)
    for recipe in ("small", "small.yaml"):
        code, out, err = stackproof("check", recipe, "--site", FJORD)
        assert (code, out) == (0, f"{recipe}: valid, no lock for this site\n"), err
        assert f"build --site {FJORD} --update --stop-after lock {recipe}" in err


# What is wrong, in a Stackinator recipe and in one of our own: file, old, new, line, column.
FAULTS = {
    "compiler-that-is-not-there": (
        ("environments.yaml", "[gcc]", "[llvm]", 2, 14), ("[gcc]", "[llvm]", 13, 16), "gcc",
    ),
    "external-that-the-site-lacks": (
        ("environments.yaml", "[cmake]", "[slurm@25]", 3, 11), ("[cmake]", "[slurm@25]", 14, 13),
        "slurm@24-05-4",
    ),
    "yaml-tag": (
        ("environments.yaml", "[cmake]", "!!python/object/apply:os.getcwd []", 3, 10),
        ("[cmake]", "!!python/object/apply:os.getcwd []", 14, 12),
        "plain value",
    ),
    "dots-in-a-repository": (
        ("config.yaml", "    commit: develop", "    commit: develop\n    path: ../../etc", 8, 11),
        ("    commit: develop", "    commit: develop\n    path: ../../etc", 9, 11),
        "without `..`",
    ),
    "system-mount-point": (
        ("config.yaml", "version: 2", "version: 2\nstore: /usr", 9, 8),
        ("engine: spack", "engine: spack\nmount: /usr", 3, 8),
        "/user-environment",
    ),
    "unknown-key": (
        ("environments.yaml", "  specs", "  spces: []\n  specs", 3, 3),
        ("    specs", "    spces: []\n    specs", 14, 5),
        "`specs`",
    ),
}  # fmt: skip


@pytest.mark.parametrize("recipe", ["small", "small.yaml"])
@pytest.mark.parametrize("name", FAULTS)
def test_each_problem_of_a_folder_and_of_a_file(stackproof, tmp_path, name, recipe):
    in_folder, in_file, hint = FAULTS[name]
    file, old, new, line, column = in_folder if recipe == "small" else (recipe, *in_file)
    folder = FOLDER if recipe == "small" else {recipe: FILE}
    place = tmp_path / recipe if recipe == "small" else tmp_path
    write(place, {**folder, file: changed(folder[file], old, new)})
    found = problems(stackproof, recipe)
    places = {(Path(p["file"]).name, p["line"], p["column"]): p["hint"] for p in found}
    assert hint in places[file, line, column]


def test_all_problems_of_all_files_at_once(stackproof, tmp_path):
    files = dict(FOLDER)
    for name in ("compiler-that-is-not-there", "system-mount-point", "unknown-key"):
        (file, old, new, *_), _, _ = FAULTS[name]
        files[file] = changed(files[file], old, new)
    write(tmp_path / "small", files)
    found = problems(stackproof, "small")
    assert {Path(p["file"]).name for p in found} == {"config.yaml", "environments.yaml"}
    assert len(found) >= 2


def test_a_link_that_leaves_the_folder_of_a_recipe_file(stackproof, tmp_path):
    (tmp_path / "outside").write_text("secret\n")
    write(tmp_path / "own", {"small.yaml": FILE + "extra: more\n", "more/x": ""})
    (tmp_path / "own" / "more" / "y").symlink_to("../../outside")
    (problem,) = problems(stackproof, "own/small.yaml")
    assert problem["file"].endswith("more/y")
    assert "git checkout" in problem["hint"]


# versions that do not work together


def test_a_known_conflict_is_refused_with_reason_and_source_and_can_be_accepted(
    stackproof, tmp_path
):
    bad = changed(FILE, "[cmake]", '["libfabric@2.4.0 fabrics=cxi,lnx"]')
    (tmp_path / "small.yaml").write_text(bad)
    (problem,) = problems(stackproof, "small.yaml")
    assert (problem["line"], problem["reason"]) == (14, "unsupported")
    assert "https://github.com/ofiwg/libfabric/issues/11900" in problem["message"]
    assert "2.5.1" in problem["hint"]
    code, out, err = stackproof("build", "small.yaml")
    assert (code, out) == (3, ""), err
    assert problem["message"] in err
    assert [path.name for path in tmp_path.iterdir() if path.name != "cache"] == ["small.yaml"]
    (tmp_path / "small.yaml").write_text(bad + "accept: [libfabric-2.4.0-lnx-cxi]\n")
    assert problems(stackproof, "small.yaml") == []
    (tmp_path / "small.yaml").write_text(bad + "accept: [libfabric-2.4.0-lnx]\n")
    places = {(p["line"], p["hint"]) for p in problems(stackproof, "small.yaml")}
    assert (17, "did you mean `libfabric-2.4.0-lnx-cxi`?") in places
    (tmp_path / "small.yaml").write_text(FILE + "accept: [quite-other]\n")
    (problem,) = problems(stackproof, "small.yaml")
    assert "libcxi-fuse-3" in problem["hint"]


def test_a_known_conflict_of_a_folder_is_a_note(stackproof, tmp_path):
    bad = changed(FOLDER["environments.yaml"], "[cmake]", '["libfabric@2.4.0 fabrics=cxi,lnx"]')
    write(tmp_path / "small", {**FOLDER, "environments.yaml": bad})
    code, out, err = stackproof("check", "small", "--site", FJORD)
    assert (code, out) == (0, "small: valid, no lock for this site\n")
    assert "note: libfabric@2.4.0 in `tools`: linkx over cxi hangs" in err
    assert "  --> small/environments.yaml:3:10\n" in err


# packages that hide others


def repository(folder: Path, path: str, names: tuple[str, ...]) -> str:
    """Make a repository of packages with one commit, and return its address."""
    gitfolders.commit(folder, {f"{path}/{name}/package.py": PACKAGES for name in names})
    gitfolders.call(folder, "tag", "v1")
    return str(folder)


BUILTIN = "repos/spack_repo/builtin/packages"


@pytest.mark.parametrize("commit", ["v1", "HEAD"])
@pytest.mark.parametrize("recipe", ["own", "own/small.yaml"])
def test_packages_of_the_recipe_that_hide_others_are_named(stackproof, tmp_path, commit, recipe):
    url = repository(tmp_path / "packages", BUILTIN, ("zlib", "cp2k", "_7zip"))
    own = {f"repo/packages/{n}/package.py": PACKAGES for n in ("cp2k", "_7zip", "mine")}
    texts = {**FOLDER, "small.yaml": FILE + "repo: repo\n"}
    for name in ("config.yaml", "small.yaml"):
        text = changed(texts[name], "https://example.org/packages.git", url)
        texts[name] = changed(text, "commit: develop", f"commit: {commit}")
    write(tmp_path / "own", {**texts, **own})
    code, _, err = stackproof("check", recipe, "--site", FJORD)
    assert code == 0
    assert "take the place of those in `builtin`: _7zip, cp2k\n" in err
    assert "own/repo/packages/_7zip" in err


def test_packages_of_the_first_generation_that_hide_spacks_own(stackproof, tmp_path):
    url = repository(tmp_path / "spack", "var/spack/repos/builtin/packages", ("zlib", "hello"))
    files = {
        "config.yaml": f"name: x\nspack: {{repo: {url}, commit: v1}}\nversion: 1\n",
        "compilers.yaml": "bootstrap:\n  spec: gcc@12.3\ngcc:\n  specs: [gcc@12.3]\n",
        "environments.yaml": "tools:\n  compiler: [{toolchain: gcc, spec: gcc@12.3}]\n"
        "  specs: [cmake]\n",
        "repo/packages/hello/package.py": PACKAGES,
    }
    write(tmp_path / "small", files)
    code, _, err = stackproof("check", "small", "--site", OLD)
    assert code == 0, err
    assert "in `builtin`: hello\n" in err


def test_packages_that_hide_the_sites_and_a_repository_that_this_machine_lacks(
    stackproof, tmp_path
):
    own = {f"repo/packages/{name}/package.py": PACKAGES for name in ("fjord_mpi", "zlib")}
    write(tmp_path / "small", {**FOLDER, **own})
    code, _, err = stackproof("check", "small", "--site", FJORD)
    assert (code, err.count("take the place")) == (0, 1)
    assert "in `alps`: fjord_mpi\n" in err


# usage


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("small.yaml", "--site", "nowhere"), 3, "no site `nowhere`"),
        (("small.yaml", "--site", "missing/"), 3, "missing"),
        (("small.yaml", "--fact", "gpu=nvidia"), 2, "cuda"),
        (("small.yaml", "--fact", "gpus=4"), 2, "`gpus` is not a fact"),
        (("small.yaml", "--fact", "gpu"), 2, "NAME=VALUE"),
        (("small.yaml", "--choose", "a=b"), 2, "no matrix"),
        (("small.yaml", "--mirror", "none.yaml"), 3, "none.yaml"),
        (("mpich", "--mirror", "nosuch"), 2, "PIP_FIND_LINKS"),
        (("libfabric", "--mirror", "nosuch"), 3, "the folder `nosuch` does not exist"),
        (("small.yaml", "--matrix", "--choose", "a=b"), 2, "exclude each other"),
        (("folder",), 3, "config.yaml"),
        (("nothing",), 3, "nothing"),
    ],
)
def test_wrong_usage_says_what_to_do(stackproof, tmp_path, words, code, said):
    (tmp_path / "small.yaml").write_text(FILE)
    (tmp_path / "folder").mkdir()
    found = stackproof("check", *words)
    assert found[0] == code
    assert said in found[2]


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        ("name: x\nengine: spak\n", "x.yaml:2:9", "did you mean `spack`?"),
        ("name: x\nengine: conda\n", "x.yaml:2:9", "spack, easybuild, wheel, vendor, guix, auto"),
        ("name: x\nenvironments: {}\n", "x.yaml:2:1", "add `engine: spack`"),
        ("engine: spack\ninherit: nothing.yaml\n", "x.yaml:2:10", "`nothing.yaml` does not exist"),
    ],
)
def test_first_mistakes(stackproof, tmp_path, text, place, said):
    (tmp_path / "x.yaml").write_text(text)
    code, _, err = stackproof("check", "x.yaml")
    assert code == 3
    assert place in err
    assert said in err


def test_a_folder_that_is_no_recipe_is_not_read(stackproof, tmp_path):
    (tmp_path / "big").mkdir()
    (tmp_path / "big" / "link").symlink_to("/etc/passwd")
    code, _, err = stackproof("plan", "big")
    assert code == 3
    assert "config.yaml" in err
    assert "name the file" in err
    assert "link" not in err
    write(tmp_path / "small", FOLDER)
    code, _, err = stackproof("plan", "small", "--site", "big")
    assert (code, "spack-config" in err) == (3, True)


WHEEL = "name: small\nmpi:\n  family: {}\n"


@pytest.mark.parametrize("family", ["mpich", "openmpi", "intel-mpi"])
def test_a_wheel_for_slingshot_would_take_tcp(stackproof, tmp_path: Path, family: str) -> None:
    (tmp_path / "small.yaml").write_text(WHEEL.format(family))
    code, out, err = stackproof("check", "--offline", "--site", "lumi-g", "small.yaml")
    assert (code, out) == (0, "small.yaml: valid, no lock for this site\n")
    assert "has no cxi" in err
    assert "`lumi-g`" in err
    assert "small.yaml:3:" in err
    assert "no cxi" not in stackproof("check", "--offline", "small.yaml")[2]


def test_a_shipped_recipe_has_a_lock_that_answers_or_says_that_it_has_none(stackproof) -> None:
    for recipe, site, locked in (
        ("mpich", "lumi-c", True),
        ("openmpi", "alps-gh200", False),  # its lock is of x86_64
        ("eessi-openmpi", "olivia-cpu", True),
    ):
        _, out, err = stackproof("check", "--offline", recipe, "--site", site)
        assert out == f"{recipe}: valid{'' if locked else ', no lock for this site'}\n"
        made = f"stackproof build --site {site} --update --stop-after lock {recipe}\n"
        assert (made in err) is not locked
        data = json.loads(stackproof("check", "--offline", recipe, "--site", site, "--json")[1])
        assert data["locked"] is locked


def test_a_recipe_without_lock_says_what_was_not_looked_up(stackproof, tmp_path: Path) -> None:
    named = changed(FOLDER["environments.yaml"], "[cmake]", "[hdf55, cmake@99]")
    write(tmp_path / "small", {**FOLDER, "environments.yaml": named})
    for words in ((), ("--site", FJORD)):
        code, out, err = stackproof("check", "small", *words)
        assert (code, out) == (0, "small: valid, no lock for this site\n")
        assert err.count("--stop-after lock") == 1
        assert "note: names and versions of packages were not looked up: making the lock" in err
    (tmp_path / "small.yaml").write_text(WHEEL.format("mpich"))
    assert "names and versions" not in stackproof("check", "--offline", "small.yaml")[2]
