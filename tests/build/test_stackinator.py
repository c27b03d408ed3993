"""What Stackinator's recipes mean: the forms of a key that the recipes with a golden do not have.

Those have every key, in every version that has it (test_stackinator_golden.py).
"""

from __future__ import annotations

import pytest

from stackinators import SMALL, folder, stack_of, understand
from stackproof.build.engines.spack.stackinator.cluster import (
    local_repositories,
    package_names,
    shadowed,
)
from stackproof.build.engines.spack.stackinator.compilers import satisfies
from stackproof.build.engines.spack.stackinator.config import version_of
from stackproof.build.engines.spack.stackinator.findings import FindingsList
from stackproof.core.errors import Reason
from stackproof.core.value import replace

COVERS = (
    "build/engines/spack/stackinator/environments.py",
    "build/engines/spack/stackinator/network.py",
    "build/engines/spack/stackinator/versions.py",
)


def environment(body: str, version: int = 2) -> dict[str, str]:
    head = "compiler: [gcc]" if version > 1 else "compiler: [{toolchain: gcc, spec: gcc@12.3}]"
    lines = [head, *body.strip("\n").split("\n")]
    if not any(line.startswith("specs:") for line in lines):
        lines.append("specs: [cmake]")
    return {"environments.yaml": "tools:\n" + "".join(f"  {line}\n" for line in lines)}


def config(version: int, *lines: str) -> dict[str, str]:
    return {"config.yaml": SMALL[version]["config.yaml"] + "".join(f"{line}\n" for line in lines)}


def test_a_recipe_without_a_version_is_of_version_1():
    texts = {"config.yaml": SMALL[1]["config.yaml"].replace("version: 1\n", "")}
    assert stack_of(texts, version=1).generation == 1


@pytest.mark.parametrize("number", ["2", "2.0"])
def test_version_is_a_number(number):
    text = SMALL[2]["config.yaml"].replace("version: 2", f"version: {number}")
    assert stack_of({"config.yaml": text}).generation == 2


def test_mount_point_of_the_recipe():
    assert stack_of(config(2, "store: /user-tools/")).mount == "/user-tools"


@pytest.mark.parametrize("name", ["all", "spack", "modules"])
def test_default_view_is_a_view_or_one_of_every_image(name):
    texts = {**config(2, f"default-view: {name}"), "modules.yaml": "modules: {}\n"}
    assert stack_of(texts).default_view == name


# compilers


def compilers(text: str, version: int = 2) -> dict[str, tuple[tuple[str, ...], str | None]]:
    stack = stack_of({"compilers.yaml": text}, version=version)
    return {c.name: (c.specs, c.needs) for c in stack.compilers}


def test_a_compiler_that_is_null_is_not_there():
    assert set(compilers('gcc: {version: "13"}\nllvm: null\n')) == {"gcc"}


def test_own_variants_take_the_place_of_the_defaults_in_version_3():
    text = 'gcc: {version: "13", spec: ~bootstrap+nvptx}\nnvhpc: {version: "25.1", spec: null}\n'
    found = compilers(text, 3)
    assert found["gcc"] == (("gcc@13 ~bootstrap+nvptx",), None)
    assert found["nvhpc"] == (("nvhpc@25.1 ~mpi~blas~lapack",), "gcc")


@pytest.mark.parametrize(
    ("spec", "asked", "answer"),
    [
        ("gcc@12.3", "gcc", True), ("gcc@12.3", "gcc@12", True), ("gcc@12.3", "gcc@12.3", True),
        ("gcc@12.31", "gcc@12.3", False), ("gcc@12", "gcc@12.3", False), ("gcc@1", "gcc@12", False),
        ("nvhpc@23.3~mpi", "nvhpc@23.3", True), ("gcc@13 +x", "gcc@=13", True), ("gcc@13", "llvm", False),
    ],
)  # fmt: skip
def test_satisfies(spec, asked, answer):
    assert satisfies(spec, asked) is answer


# environments


FIRST_C = "%[when=%c] c=gcc %[when=%cxx] cxx=gcc %[when=%fortran] fortran=gcc"


@pytest.mark.parametrize(
    ("versions", "body", "expected", "notes"),
    [
        ("2", "prefer: []", {"prefer": ()}, 0),
        ("2", "prefer: null", {"prefer": (FIRST_C,)}, 0),
        ("123", "unify: true", {"unify": "true"}, 0),
        ("123", "unify: when_possible", {"unify": "when_possible"}, 0),
        ("23", "duplicates: {strategy: minimal}", {"duplicates": "minimal"}, 0),
        ("3", "packages: [perl]", {"find_external": ()}, 1),
        # What the cluster says comes along, unless there are specs; an empty list is none.
        ("23", "network: {mpi: openmpi@5 +cuda}", {
            "specs": ("cmake", "openmpi@5 +cuda", "libfabric@2.2: fabrics=lnx,shm"),
            "mpi": "openmpi", "mpi_requirement": "openmpi"}, 0),
        ("23", "network: {mpi: openmpi, specs: [libfabric@1.22]}",
         {"specs": ("cmake", "openmpi", "libfabric@1.22")}, 0),
        ("23", "network: {mpi: mpich, specs: []}", {"specs": ("cmake", "mpich", "libfabric@2.2:")}, 1),
        ("23", "network: {}", {"mpi": None, "specs": ("cmake",)}, 0),
        ("23", "network: {mpi: null, specs: null}", {"mpi": None, "specs": ("cmake",)}, 0),
        ("1", "mpi: null", {"mpi": None, "specs": ("cmake",)}, 0),
        ("1", "mpi: false", {"mpi": None}, 0),
        ("1", "mpi: {}", {"mpi": None}, 0),
    ],
)  # fmt: skip
def test_keys_of_an_environment(versions, body, expected, notes):
    for version in map(int, versions):
        stack, findings = understand(environment(body, version), version=version)
        found = stack.environments[0]
        assert {name: getattr(found, name) for name in expected} == expected
        assert (findings.problems, len(findings.notes)) == ([], notes)


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ("openmpi", "openmpi"), ("mpich@4.3+rocm", "mpich"), (" mpich ~cuda", "mpich"),
        ("mpich@9.1.0+cuda %c,cxx,fortran=nvhpc", "mpich"), ("mpich@9.1.0+cuda %oneapi", "mpich"),
    ],
)  # fmt: skip
def test_forms_of_an_mpi(spec, name):
    found = stack_of(environment(f"network: {{mpi: '{spec}'}}")).environments[0]
    assert found.mpi == name
    assert spec.strip() in found.specs


@pytest.mark.parametrize(
    ("mpi", "spec", "requirement"),
    [
        ("{spec: cray-mpich}", "cray-mpich", "cray-mpich"),
        ("{spec: cray-mpich@8.1.30, gpu: cuda}", "cray-mpich@8.1.30 +cuda", "cray-mpich@8.1.30"),
        ("{spec: cray-mpich@8.1.30%nvhpc, gpu: rocm}", "cray-mpich@8.1.30%nvhpc +rocm", "cray-mpich@8.1.30%nvhpc"),
        ("{spec: cray-mpich%nvhpc, gpu: false}", "cray-mpich%nvhpc", "cray-mpich%nvhpc"),
        ("{spec: openmpi@4.1, gpu: null}", "openmpi@4.1 +internal-pmix +legacylaunchers +orterunprefix fabrics=cma,ofi,xpmem schedulers=slurm", "openmpi@4.1"),
        ("{spec: mpich}", "mpich@4.1 device=ch4 netmod=ofi +slurm", "mpich"),
        ("{spec: mvapich2}", "mvapich2@3.0a +xpmem fabrics=ch4ofi ch4_max_vcis=4 process_managers=slurm", "mvapich2"),
    ],
)  # fmt: skip
def test_mpi_of_version_1(mpi, spec, requirement):
    found = stack_of(environment(f"mpi: {mpi}", 1), version=1).environments[0]
    assert found.specs == ("cmake", spec)
    assert found.mpi_requirement == requirement
    assert found.mpi == requirement.partition("@")[0].partition("%")[0]


def test_a_spec_for_a_compiler_that_is_not_listed_is_noted():
    texts = {**environment("specs: [cmake, 'hdf5 %fortran=nvhpc', zlib %gcc]")}
    _, findings = understand(texts)
    assert ["nvhpc" in note.message for note in findings.notes] == [True]
    assert (findings.notes[0].where.line, findings.notes[0].where.column) == (3, 18)


# modules


WHERE = "/user-environment/modules"


@pytest.mark.parametrize(
    ("versions", "text", "lines", "expected"),
    [
        ("23", "{default: {}}", (), {"roots": {"tcl": WHERE}, "arch_folder": False}),
        ("23", "{default: {enable: [lmod]}}", (), {"roots": {"lmod": WHERE}}),
        ("23", "{default: {enable: [lmod, tcl]}}", (), {"roots": {"lmod": WHERE, "tcl": WHERE}}),
        ("23", "{default: {roots: {lmod: /x}}}", (), {"roots": {"lmod": WHERE}}),
        ("23", "{default: {roots: {}, enable: []}}", (), {"roots": {"tcl": WHERE}}),
        ("23", "{default: {tcl: {all: {}}}}", (), {"tcl": {"all": {}}}),
        ("23", None, (), None),
        ("1", None, (), {"roots": {"tcl": WHERE}}),
        ("1", "{default: {roots: {tcl: /x}, tcl: {}}}", (), {"roots": {"tcl": WHERE}, "tcl": {}}),
        ("1", "{}", (), {"roots": {"tcl": WHERE}}),
        ("1", "{}", ("modules: false",), None),
    ],
)
def test_modules(versions, text, lines, expected):
    for version in map(int, versions):
        texts = config(version, *lines)
        if text is not None:
            texts["modules.yaml"] = f"modules: {text}\n"
        found = stack_of(texts, version=version).modules
        assert (found is None) is (expected is None)
        assert found is None or expected.items() <= found["default"].items()


def test_version_3_notes_modules_that_do_not_agree():
    stack, findings = understand(config(3, "modules: true"), version=3)
    assert findings.problems == []
    assert stack.modules is None
    assert len(findings.notes) == 1


# packages, repositories, files


def test_packages_of_recipe_replace_those_of_network_and_cluster():
    texts = {"packages.yaml": "packages: {libfabric: {require: '@2'}, slurm: {buildable: true}}\n"}
    found = stack_of(texts).packages
    assert found["libfabric"] == {"require": "@2"}
    assert found["slurm"] == {"buildable": True}
    assert found["openmpi"]["prefer"] == ["@5.0.9:", "+cuda"]
    assert found["gcc"]["externals"][0]["spec"].startswith("gcc@12.3.0")


def test_packages_of_the_recipe():
    others = (
        "repo/packages/a/package.py", "repo/packages/a/x/fix.patch", "repo/repo.yaml",
        "repo/packages/README", "repo/packages/a/__pycache__/package.pyc", "repo/packages/b/readme",
    )  # fmt: skip
    stack, findings = understand({}, others=others)
    (repository,) = stack.local_repositories
    assert repository.namespace == "recipe"
    assert sorted(repository.files) == [
        "packages/a/package.py", "packages/a/x/fix.patch", "packages/b/readme",
    ]  # fmt: skip
    assert package_names(repository.files) == ("a",)
    assert ["`b`" in note.message for note in findings.notes] == [True]


def test_version_1_has_one_repository_of_recipe_and_site():
    recipe = folder("r", {}, ("repo/packages/a/package.py",))
    site = folder("s", {}, ("a/package.py", "a/more", "c/package.py")).files
    (one,) = local_repositories(recipe, dict(site), 1, FindingsList())
    assert one.namespace == "alps"
    assert sorted(one.files) == ["packages/a/package.py", "packages/c/package.py"]
    assert one.files["packages/a/package.py"] == recipe.files["repo/packages/a/package.py"]
    two = local_repositories(recipe, dict(site), 2, FindingsList())
    assert [repository.namespace for repository in two] == ["recipe", "alps"]


def test_shadowed_packages():
    builtin = ["libfabric", "py_torch", "_3dtk", "openmpi"]
    assert shadowed(["py-torch", "hello", "libfabric"], builtin) == ("libfabric", "py-torch")
    assert shadowed(["3dtk"], builtin) == ("3dtk",)
    assert shadowed([], builtin) == ()


@pytest.mark.parametrize(
    ("commit", "version"),
    [
        ("releases/v1.0", (1, 0)), ("v1.1.2", (1, 1)), ("1.2", (1, 2)), ("v0.20.0", (0, 20)),
        ("develop", None), (None, None), ("13b711f", None), ("e2727a73233d46e40d0657020a067947afcca640", None),
        ("v1.1.0.post1", (1, 1)), ("develop-2025-11-23", None), ("my-v0.1-branch", None),
    ],
)  # fmt: skip
def test_version_of_a_commit(commit, version):
    assert version_of(commit) == version


PAPER = """\
name: arbor-dev
store: /user-environment
system: hohgant
spack:
  repo: https://github.com/spack/spack.git
  commit: releases/v0.19
mirror:
  enable: false
"""
"""As printed in "Deploying Alternative User Environments on Alps" (CUG 2023), II.A."""


def test_the_recipe_of_the_paper_says_what_to_take_in_the_place_of_its_spack() -> None:
    _, findings = understand({**SMALL[1], "config.yaml": PAPER})
    (problem,) = findings.problems
    assert (problem.reason, problem.where.line) == (Reason.UNSUPPORTED, 6)
    assert problem.hint == "ask for a newer Spack, such as releases/v0.23"
    texts = {**SMALL[1], "config.yaml": PAPER.replace("v0.19", "v0.21")}
    stack, findings = understand(texts)
    assert findings.problems == []
    (note,) = findings.notes
    assert note.message.startswith("`system: hohgant` names the cluster")
    assert (note.where.line, note.where.column) == (3, 1)
    # It changes nothing of the stack: the cluster is that of the command line.
    text = texts["config.yaml"].replace("system: hohgant\n", "")
    other, _ = understand({**texts, "config.yaml": text})
    assert replace(other, recipe_files={}) == replace(stack, recipe_files={})


def test_the_printed_page_lost_an_indentation() -> None:
    """In print `spec` and `gpu` are beside `mpi`."""
    text = f"{SMALL[1]['environments.yaml']}  mpi:\n  spec: cray-mpich@8.1.18.4\n  gpu: cuda\n"
    _, findings = understand({"environments.yaml": text}, version=1)
    assert [p.reason for p in findings.problems] == [Reason.UNKNOWN_KEY] * 2
    assert {p.hint for p in findings.problems} == {
        "indent it below `mpi:`, which is empty and has this key"
    }


def test_later_versions_say_where_the_system_is_named() -> None:
    text = SMALL[2]["config.yaml"] + "system: hohgant\n"
    _, findings = understand({**SMALL[2], "config.yaml": text})
    (problem,) = findings.problems
    assert problem.reason is Reason.UNKNOWN_KEY
    assert "--site" in problem.hint
