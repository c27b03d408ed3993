"""What Stackinator's recipes mean: every key, in every version that has it."""

from __future__ import annotations

import pytest

from stackinators import SMALL, cluster, folder, stack_of, understand
from stackproof.build.engines.spack.stack import (
    GitSource,
    PackageRepository,
    SpackStack,
)
from stackproof.build.engines.spack.stackinator.cluster import (
    local_repositories,
    package_names,
    shadowed,
)
from stackproof.build.engines.spack.stackinator.compilers import satisfies
from stackproof.build.engines.spack.stackinator.config import version_of
from stackproof.build.engines.spack.stackinator.findings import FindingsList
from stackproof.core.errors import Reason
from stackproof.core.noun import from_json, to_json
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


@pytest.mark.parametrize("version", [1, 2, 3])
def test_smallest_recipe(version):
    stack = stack_of({}, version=version)
    assert (stack.name, stack.generation, stack.mount) == ("small", version, "/user-environment")
    assert (stack.description, stack.default_view, stack.cleanup) == ("", None, "none")
    assert stack.architecture == "x86_64"
    assert [e.name for e in stack.environments] == ["tools"]
    found = stack.environments[0]
    assert (found.unify, found.deprecated, found.duplicates) == ("true", False, "minimal")
    assert (found.mpi, found.variants, found.find_external) == (None, (), ())
    view = found.views[0]
    assert (view.name, view.link, view.add_compilers, view.changes) == ("all", "roots", True, ())
    assert from_json(SpackStack, to_json(stack)) == stack


def test_a_recipe_without_a_version_is_of_version_1():
    texts = {"config.yaml": SMALL[1]["config.yaml"].replace("version: 1\n", "")}
    assert stack_of(texts, version=1).generation == 1


@pytest.mark.parametrize("number", ["2", "2.0"])
def test_version_is_a_number(number):
    text = SMALL[2]["config.yaml"].replace("version: 2", f"version: {number}")
    assert stack_of({"config.yaml": text}).generation == 2


def test_mount_point_of_the_recipe():
    assert stack_of(config(2, "store: /user-tools/")).mount == "/user-tools"


def test_spack_and_its_packages():
    stack = stack_of({})
    assert stack.spack == GitSource(url="https://example.org/spack.git", commit="releases/v1.0")
    source = GitSource(url="https://example.org/packages.git", commit="develop")
    assert stack.package_repositories == (PackageRepository(name="builtin", source=source),)
    assert stack_of({}, version=1).package_repositories == ()


@pytest.mark.parametrize("version", [2, 3])
def test_several_repositories_in_their_order(version):
    several = (
        "  packages:\n    zoo: {repo: https://example.org/zoo.git, commit: main}\n"
        "    builtin: {repo: ../local, commit: v1, path: deep/er}\n"
    )
    one = "  packages:\n    repo: https://example.org/packages.git\n    commit: develop\n"
    text = SMALL[version]["config.yaml"].replace(one, several)
    found = stack_of({"config.yaml": text}, version=version).package_repositories
    assert [(r.name, r.source.url, r.source.commit, r.path) for r in found] == [
        ("zoo", "https://example.org/zoo.git", "main", "repos/spack_repo/zoo"),
        ("builtin", "../local", "v1", "deep/er"),
    ]


def test_version_3_needs_no_commit_of_packages():
    text = SMALL[3]["config.yaml"].replace("    commit: develop\n", "")
    found = stack_of({"config.yaml": text}, version=3).package_repositories
    assert found[0].source.commit is None


def test_cleanup_of_version_3():
    assert stack_of(config(3, "cleanup: build"), version=3).cleanup == "build"


@pytest.mark.parametrize("name", ["all", "spack", "modules"])
def test_default_view_is_a_view_or_one_of_every_image(name):
    texts = {**config(2, f"default-view: {name}"), "modules.yaml": "modules: {}\n"}
    assert stack_of(texts).default_view == name


# compilers


def compilers(text: str, version: int = 2) -> dict[str, tuple[tuple[str, ...], str | None]]:
    stack = stack_of({"compilers.yaml": text}, version=version)
    return {c.name: (c.specs, c.needs) for c in stack.compilers}


ALL_KINDS = (
    'llvm: {version: "18"}\nnvhpc: {version: "25.1"}\ngcc: {version: "13"}\n'
    'intel-oneapi-compilers: {version: "2025.1"}\nllvm-amdgpu: {version: "6.3"}\n'
)


@pytest.mark.parametrize("version", [2, 3])
def test_every_compiler_with_its_default_variants(version):
    assert compilers(ALL_KINDS, version) == {
        "gcc": (("gcc@13 +bootstrap",), None),
        "nvhpc": (("nvhpc@25.1 ~mpi~blas~lapack",), "gcc"),
        "llvm": (("llvm@18 +clang ~gold",), "gcc"),
        "llvm-amdgpu": (("llvm-amdgpu@6.3",), "gcc"),
        "intel-oneapi-compilers": (("intel-oneapi-compilers@2025.1",), "gcc"),
    }


def test_version_2_profiles_gcc_and_version_3_does_not():
    two, three = (stack_of({}, version=v).compilers[0].variants for v in (2, 3))
    assert set(two) - set(three) == {"+profiled"}
    assert {"build_type=Release", "+bootstrap", "+strip", "~binutils"} <= set(three)


def test_a_compiler_that_is_null_is_not_there():
    assert set(compilers('gcc: {version: "13"}\nllvm: null\n')) == {"gcc"}


def test_own_variants_take_the_place_of_the_defaults_in_version_3():
    text = 'gcc: {version: "13", spec: ~bootstrap+nvptx}\nnvhpc: {version: "25.1", spec: null}\n'
    found = compilers(text, 3)
    assert found["gcc"] == (("gcc@13 ~bootstrap+nvptx",), None)
    assert found["nvhpc"] == (("nvhpc@25.1 ~mpi~blas~lapack",), "gcc")


def test_the_gcc_of_the_system_in_version_3():
    text = 'gcc: {version: system}\nnvhpc: {version: "25.1"}\n'
    stack = stack_of({"compilers.yaml": text}, version=3)
    gcc, nvhpc = stack.compilers
    assert (gcc.external, gcc.specs, nvhpc.needs) == (True, (), None)
    assert stack.environments[0].prefer == (
        "%[when=%c] c=gcc %[when=%cxx] cxx=gcc %[when=%fortran] fortran=gcc",
    )


def test_stages_of_version_1():
    text = (
        "bootstrap: {spec: gcc@11}\ngcc: {specs: [gcc@12.3, gcc@13]}\n"
        "llvm: {requires: gcc@13, specs: [nvhpc@23.3, llvm@16.0]}\n"
    )
    stack = stack_of({"compilers.yaml": text}, version=1)
    first, gcc, llvm = stack.compilers
    assert (first.name, first.specs, first.needs) == (
        "bootstrap", ("gcc@11 languages=c,c++",), None,
    )  # fmt: skip
    assert "~bootstrap" in first.variants
    assert (gcc.specs, gcc.needs, gcc.needs_spec) == (("gcc@12.3", "gcc@13"), "bootstrap", "gcc@11")
    assert gcc.package_variants["zlib"] == ("~shared",)
    assert "perl" in gcc.find_external
    assert (llvm.needs, llvm.needs_spec) == ("gcc", "gcc@13")
    assert llvm.specs == (
        "nvhpc@23.3~mpi~blas~lapack",
        "llvm@16.0 +clang targets=x86 ~gold ^ninja@kitware",
    )


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


def test_the_first_compiler_is_preferred():
    text = "tools:\n  compiler: [intel-oneapi-compilers, gcc]\n  specs: [cmake]\n"
    texts = {"compilers.yaml": ALL_KINDS, "environments.yaml": text}
    two = stack_of(texts).environments[0]
    assert two.compilers == ("intel-oneapi-compilers", "gcc")
    assert two.prefer == (
        "%[when=%c] c=oneapi %[when=%cxx] cxx=oneapi %[when=%fortran] fortran=oneapi",
    )
    three = stack_of(texts, version=3).environments[0]
    assert "c=oneapi@2025.1" in three.prefer[0]


FIRST_C = "%[when=%c] c=gcc %[when=%cxx] cxx=gcc %[when=%fortran] fortran=gcc"


@pytest.mark.parametrize(
    ("versions", "body", "expected", "notes"),
    [
        ("2", "prefer: [+shared]", {"prefer": ("+shared",)}, 0),
        ("2", "prefer: []", {"prefer": ()}, 0),
        ("2", "prefer: null", {"prefer": (FIRST_C,)}, 0),
        ("123", "unify: true", {"unify": "true"}, 0),
        ("123", "unify: false", {"unify": "false"}, 0),
        ("123", "unify: when_possible", {"unify": "when_possible"}, 0),
        ("23", "duplicates: {strategy: minimal}", {"duplicates": "minimal"}, 0),
        ("23", "duplicates: {strategy: full}", {"duplicates": "full"}, 0),
        ("23", "duplicates: {strategy: none}", {"duplicates": "none"}, 0),
        ("123", "deprecated: true", {"deprecated": True}, 0),
        ("123", "variants: [+mpi, cuda_arch=90]", {"variants": ("+mpi", "cuda_arch=90")}, 0),
        ("12", "packages: [perl]", {"find_external": ("perl",)}, 0),
        ("3", "packages: [perl]", {"find_external": ()}, 1),
        # What the cluster says comes along, unless there are specs; an empty list is none.
        ("23", "network: {mpi: openmpi@5 +cuda}", {
            "specs": ("cmake", "openmpi@5 +cuda", "libfabric@2.2: fabrics=lnx,shm"),
            "mpi": "openmpi", "mpi_requirement": "openmpi"}, 0),
        ("23", "network: {mpi: openmpi, specs: [libfabric@1.22]}",
         {"specs": ("cmake", "openmpi", "libfabric@1.22")}, 0),
        ("23", "network: {mpi: mpich, specs: []}", {"specs": ("cmake", "mpich", "libfabric@2.2:")}, 1),
        ("23", "network: {mpi: fjord-mpi}", {"specs": ("cmake", "fjord-mpi")}, 0),
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


def test_several_compilers_of_version_1():
    text = (
        "tools:\n  compiler:\n  - {toolchain: gcc, spec: gcc@12.3}\n"
        "  - {toolchain: llvm, spec: nvhpc@23.3}\n  specs: [netcdf-c, netcdf-fortran%nvhpc]\n"
        "  mpi: {spec: cray-mpich@8.1.30%nvhpc}\n"
    )
    built = (
        "bootstrap: {spec: gcc@12.3}\ngcc: {specs: [gcc@12.3]}\n"
        "llvm: {requires: gcc@12.3, specs: [nvhpc@23.3]}\n"
    )
    texts = {"compilers.yaml": built, "environments.yaml": text}
    found = stack_of(texts, version=1).environments[0]
    assert (found.compilers, found.compiler_specs) == (("gcc", "llvm"), ("gcc@12.3", "nvhpc@23.3"))
    assert found.require_one_of == (
        "%gcc@12.3", "netcdf-fortran%nvhpc", "cray-mpich@8.1.30%nvhpc",
    )  # fmt: skip
    assert stack_of({}, version=1).environments[0].require_one_of == ()


def test_a_spec_for_a_compiler_that_is_not_listed_is_noted():
    texts = {**environment("specs: [cmake, 'hdf5 %fortran=nvhpc', zlib %gcc]")}
    _, findings = understand(texts)
    assert ["nvhpc" in note.message for note in findings.notes] == [True]
    assert (findings.notes[0].where.line, findings.notes[0].where.column) == (3, 18)


# views


def view(body: str, version: int = 2, name: str = "mine"):
    text = SMALL[version]["environments.yaml"].replace(
        "    all:\n", f"    {name}:\n" + "".join(f"      {x}\n" for x in body.strip().split("\n"))
    )
    stack = stack_of({"environments.yaml": text}, version=version)
    return stack.environments[0].views[0]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_every_key_of_a_view(version):
    found = view(
        "link: run\nselect: [a]\nexclude: [b, c]\nprojections: {all: '{name}'}\n"
        "uenv: {add_compilers: false, prefix_paths: {LD_LIBRARY_PATH: [lib, lib64]}}",
        version,
    )
    assert (found.link, found.select, found.exclude) == ("run", ("a",), ("b", "c"))
    assert found.projections == {"all": "{name}"}
    assert found.add_compilers is False
    assert found.prefix_paths == {"LD_LIBRARY_PATH": ("lib", "lib64")}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{append_path: [PATH: /a, PATH: /b/], prepend_path: [CPATH: /c//d/../e], set: [A: '1', B: null]}",
         [("set", "A", "1"), ("unset", "B", ""), ("prepend", "CPATH", "/c/e"),
          ("append", "PATH", "/a"), ("append", "PATH", "/b")]),
        # The last value of a variable counts; a list of paths that is null is unset.
        ("{set: [A: '1', B: x, A: null]}", [("set", "B", "x"), ("unset", "A", "")]),
        ("{set: [PYTHONPATH: null]}", [("unset", "PYTHONPATH", "")]),
        ("{set: [A: '$@mount@ $@view_name@ $@view_path@ ${@HOME@}']}",
         [("set", "A", "/user-environment mine /user-environment/env/mine ${@HOME@}")]),
    ],
)  # fmt: skip
def test_variables_of_a_view(text, expected):
    found = view(f"uenv: {{env_vars: {text}}}").changes
    assert [(change.op, change.variable, change.value) for change in found] == expected


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


def test_other_settings_of_modules_stay():
    text = "modules: {prefix_inspections: {bin: [PATH]}, default: {tcl: {all: {}}}}\n"
    found = stack_of({**config(2), "modules.yaml": text}).modules
    assert found["prefix_inspections"] == {"bin": ["PATH"]}


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


def test_configuration_of_a_cluster_for_spack_up_to_0_23():
    stack = stack_of({}, version=1)
    assert stack.compilers_yaml[0]["compiler"]["spec"] == "gcc@7.5.0"
    assert stack.concretizer == {"reuse": False}
    assert stack_of({}).compilers_yaml == ()
    assert "openmpi" not in stack.packages


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


def test_files_go_along():
    others = ("extra/reframe.yaml", "scripts/run.py")
    stack = stack_of({}, others=others)
    assert set(stack.extra_files) == {"reframe.yaml"}
    assert set(stack.recipe_files) == {*SMALL[2], *others}


def test_facts_of_the_site():
    assert stack_of({}).site_facts == {
        "cluster": "fjord",
        "external.gcc": "gcc@12.3.0 languages='c,c++,fortran'",
        "external.libfabric": "libfabric@1.22.0 fabrics=cxi,rxm,tcp",
        "external.slurm": "slurm@24-05-4",
    }


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


def test_a_cluster_merges_packages_by_name():
    assert cluster().merged_packages({"slurm": {}})["slurm"] == {}


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


def test_later_versions_say_where_the_system_is_named() -> None:
    text = SMALL[2]["config.yaml"] + "system: hohgant\n"
    _, findings = understand({**SMALL[2], "config.yaml": text})
    (problem,) = findings.problems
    assert problem.reason is Reason.UNKNOWN_KEY
    assert "--site" in problem.hint
