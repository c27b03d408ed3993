"""Every problem of a Stackinator recipe: its reason, its place, and that all come at once."""

from __future__ import annotations

import pytest

from stackinators import SMALL, cluster, cluster_folder, folder, understand
from stackproof.build.engines.spack.stackinator.cluster import (
    ClusterConfig,
    read_cluster,
    repository_paths,
)
from stackproof.build.engines.spack.stackinator.findings import FindingsList
from stackproof.core.errors import Reason

R = Reason


def changed(version: int, file: str, old: str, new: str) -> dict[str, str]:
    text = SMALL[version].get(file, "")
    assert old in text
    return {file: text.replace(old, new, 1)}


def found(texts, **options):
    _, findings = understand(texts, **options)
    return [(p.reason, p.where.file, p.where.line, p.where.column) for p in findings.problems]


ENVIRONMENT = "tools:\n  compiler: [gcc]\n  specs: [cmake]\n"
VIEW = "tools:\n  compiler: [gcc]\n  specs: [cmake]\n  views:\n    a:\n      uenv:\n        "

# version, file, what is replaced, by what -> reason, line, column
CASES = [
    # config.yaml
    (2, "config.yaml", "name: small\n", "", R.MISSING_KEY, 1, 1),
    (2, "config.yaml", "name: small", "name: a/b", R.INVALID_VALUE, 1, 7),
    (2, "config.yaml", "name: small", "name: ..", R.INVALID_VALUE, 1, 7),
    (2, "config.yaml", "name: small", "name: 7", R.WRONG_TYPE, 1, 7),
    (2, "config.yaml", "name: small", "naem: small", R.UNKNOWN_KEY, 1, 1),
    (2, "config.yaml", "version: 2", "version: '2'", R.WRONG_TYPE, 8, 10),
    (2, "config.yaml", "version: 2", "version: 4", R.INVALID_VALUE, 8, 10),
    (2, "config.yaml", "version: 2", "version: true", R.INVALID_VALUE, 8, 10),
    (2, "config.yaml", "name: small", "name: small\nstore: relative", R.BAD_MOUNT_POINT, 2, 8),
    (2, "config.yaml", "name: small", "name: small\nstore: /usr", R.BAD_MOUNT_POINT, 2, 8),
    (2, "config.yaml", "name: small", "name: small\nstore: /a/../b", R.BAD_MOUNT_POINT, 2, 8),
    (2, "config.yaml", "  repo: https://example.org/spack.git\n", "", R.MISSING_KEY, 3, 3),
    (2, "config.yaml", "commit: releases/v1.0", "commit: 1.0", R.WRONG_TYPE, 4, 11),
    (2, "config.yaml", "commit: releases/v1.0", "commit: v0.23.1", R.UNSUPPORTED, 4, 11),
    (3, "config.yaml", "commit: releases/v1.2", "commit: releases/v0.23", R.UNSUPPORTED, 4, 11),
    (1, "config.yaml", "commit: releases/v0.23", "commit: v0.20.1", R.UNSUPPORTED, 4, 11),
    (1, "config.yaml", "commit: releases/v0.23", "commit: releases/v1.0", R.UNSUPPORTED, 4, 11),
    (2, "config.yaml", "    commit: develop\n", "", R.MISSING_KEY, 6, 5),
    (2, "config.yaml", "    commit: develop\n", "    commit: develop\n    path: ../x\n", R.INVALID_VALUE, 8, 11),
    (2, "config.yaml", "    commit: develop\n", "    commit: develop\n    path: /etc\n", R.INVALID_VALUE, 8, 11),
    (2, "config.yaml", "    repo: https://example.org/packages.git\n    commit: develop", "    alps: {repo: x, commit: y}", R.INVALID_VALUE, 6, 5),
    (2, "config.yaml", "    repo: https://example.org/packages.git\n    commit: develop", "    recipe: {repo: x, commit: y}", R.INVALID_VALUE, 6, 5),
    (2, "config.yaml", "    repo: https://example.org/packages.git\n    commit: develop", "    a.b: {repo: x, commit: y}", R.INVALID_VALUE, 6, 5),
    (2, "config.yaml", "    repo: https://example.org/packages.git\n    commit: develop", "    x: {repo: x}", R.MISSING_KEY, 6, 8),
    (2, "config.yaml", "version: 2", "version: 2\ndefault-view: nothing", R.UNKNOWN_VIEW, 9, 15),
    (2, "config.yaml", "version: 2", "version: 2\ndefault-view: modules", R.UNKNOWN_VIEW, 9, 15),
    (2, "config.yaml", "version: 2", "version: 2\nmodules: true", R.INVALID_VALUE, 9, 10),
    (3, "config.yaml", "version: 3", "version: 3\ncleanup: all", R.INVALID_VALUE, 9, 10),
    (2, "config.yaml", "name: small", "name: !!python/object/apply:os.getcwd []", R.UNSAFE_TAG, 1, 7),
    (2, "config.yaml", "name: small", "name: [}", R.YAML_SYNTAX, 1, 8),
    # keys of another version
    (2, "config.yaml", "version: 2", "version: 2\nmirror: {enable: true}", R.UNKNOWN_KEY, 9, 1),
    (2, "config.yaml", "version: 2", "version: 2\ncleanup: none", R.UNKNOWN_KEY, 9, 1),
    (1, "config.yaml", "version: 1", "version: 1\ndefault-view: all", R.UNKNOWN_KEY, 6, 1),
    (2, "environments.yaml", "  specs", "  mpi: {spec: openmpi}\n  specs", R.UNKNOWN_KEY, 3, 3),
    (1, "environments.yaml", "  specs", "  network: {mpi: openmpi}\n  specs", R.UNKNOWN_KEY, 5, 3),
    (1, "environments.yaml", "  specs", "  prefer: []\n  specs", R.UNKNOWN_KEY, 5, 3),
    (1, "environments.yaml", "    all:\n", "    all: {uenv: {env_vars: {}}}\n", R.UNKNOWN_KEY, 7, 18),
    (2, "compilers.yaml", '"13"', '"13"\n  spec: +x', R.UNKNOWN_KEY, 3, 3),
    (2, "compilers.yaml", "gcc:", "bootstrap: {spec: gcc@12}\ngcc:", R.UNKNOWN_KEY, 1, 1),
    # compilers.yaml
    (2, "compilers.yaml", '"13"', "13", R.WRONG_TYPE, 2, 12),
    (2, "compilers.yaml", '"13"', "13 +x", R.INVALID_VALUE, 2, 12),
    (2, "compilers.yaml", '"13"', "system", R.INVALID_VALUE, 2, 12),
    (2, "compilers.yaml", "gcc:", "gnu:", R.MISSING_KEY, 1, 1),
    (1, "compilers.yaml", "[gcc@12.3]", "[gcc]", R.INVALID_VALUE, 4, 11),
    (1, "compilers.yaml", "[gcc@12.3]", "[gcc@12.3]\nllvm: {requires: gcc@13, specs: [llvm@16]}", R.INVALID_VALUE, 5, 18),
    # environments.yaml: compilers
    (2, "environments.yaml", "[gcc]", "[gcc, llvm]", R.INVALID_VALUE, 2, 19),
    (2, "environments.yaml", "[gcc]", "[gcc, gcc]", R.DUPLICATE_KEY, 2, 19),
    (2, "environments.yaml", "[gcc]", "[gnu]", R.INVALID_VALUE, 2, 14),
    (2, "environments.yaml", "[gcc]", "[]", R.INVALID_VALUE, 2, 13),
    (2, "environments.yaml", "[gcc]", "gcc", R.WRONG_TYPE, 2, 13),
    (1, "environments.yaml", "toolchain: gcc", "toolchain: llvm", R.INVALID_VALUE, 3, 16),
    (1, "environments.yaml", "spec: gcc@12.3", "spec: gcc@13", R.INVALID_VALUE, 4, 11),
    (1, "environments.yaml", "\n  - toolchain: gcc\n    spec: gcc@12.3", " []", R.INVALID_VALUE, 2, 13),
    # environments.yaml: the rest
    (2, "environments.yaml", "  specs: [cmake]\n", "", R.MISSING_KEY, 2, 3),
    (2, "environments.yaml", "[cmake]", "[{matrix: []}]", R.WRONG_TYPE, 3, 11),
    (2, "environments.yaml", "tools:", "uenv_tools:", R.INVALID_VALUE, 1, 1),
    (2, "environments.yaml", "tools:", "../up:", R.INVALID_VALUE, 1, 1),
    (2, "environments.yaml", "tools:", "/abs:", R.INVALID_VALUE, 1, 1),
    (2, "environments.yaml", "tools:", "two words:", R.INVALID_VALUE, 1, 1),
    (2, "environments.yaml", "  specs", "  unify: maybe\n  specs", R.INVALID_VALUE, 3, 10),
    (2, "environments.yaml", "  specs", "  duplicates: {strategy: most}\n  specs", R.INVALID_VALUE, 3, 26),
    (2, "environments.yaml", "  specs", "  network: {specs: [libfabric]}\n  specs", R.MISSING_KEY, 3, 20),
    (2, "environments.yaml", "  specs", "  network: {mpi: cray-mpich}\n  specs", R.SITE_INCOMPLETE, 3, 18),
    (2, "environments.yaml", "  specs", "  network: {mpi: lam}\n  specs", R.INVALID_VALUE, 3, 18),
    (2, "environments.yaml", "  specs", "  network: {mpi: '@5'}\n  specs", R.INVALID_VALUE, 3, 18),
    (1, "environments.yaml", "  specs", "  mpi: {spec: lam}\n  specs", R.INVALID_VALUE, 5, 15),
    (2, "environments.yaml", "[cmake]", "[cmake, slurm@25]", R.INVALID_VALUE, 3, 18),
    (1, "environments.yaml", "[cmake]", "[libfabric@2.2]", R.INVALID_VALUE, 5, 11),
    # views
    (2, "environments.yaml", "    all:", "    ../all:", R.INVALID_VALUE, 5, 5),
    (2, "environments.yaml", "    all:", "    spack:", R.INVALID_VALUE, 5, 5),
    (2, "environments.yaml", "    all:", "    all: {links: roots}", R.UNKNOWN_KEY, 5, 11),
    (2, "environments.yaml", "    all:", "    all: {link: some}", R.INVALID_VALUE, 5, 17),
    (2, "environments.yaml", "", "more: {compiler: [gcc], specs: [], views: {all: }}\n", R.DUPLICATE_KEY, 6, 5),
    # modules.yaml and packages.yaml
    (2, "modules.yaml", "", "modules: {default: {arch_folder: true}}", R.INVALID_VALUE, 1, 34),
    (2, "modules.yaml", "", "modules: {default: {enable: [dotkit]}}", R.INVALID_VALUE, 1, 30),
    (2, "modules.yaml", "", "modules: {default: {roots: {dotkit: /x}}}", R.UNKNOWN_KEY, 1, 29),
    (2, "modules.yaml", "", "default: {}", R.MISSING_KEY, 1, 1),
    (2, "packages.yaml", "", "slurm: {}", R.MISSING_KEY, 1, 1),
    (2, "packages.yaml", "", "packages: [slurm]", R.WRONG_TYPE, 1, 11),
    (1, "mirrors.yaml", "", "{}", R.UNSUPPORTED, 0, 0),
]  # fmt: skip


@pytest.mark.parametrize(
    ("version", "file", "old", "new", "reason", "line", "column"),
    CASES,
    ids=[f"{case[0]}-{case[1]}-{case[3][:50]!r}" for case in CASES],
)
def test_problem_and_place(version, file, old, new, reason, line, column):
    problems = found(changed(version, file, old, new), version=version)
    assert (reason, f"recipe/{file}", line, column) in problems


VARIABLES = [
    ("env_vars: {set: [PATH: /x]}", R.INVALID_VALUE, 32),
    ("env_vars: {set: [A: $@nothing@]}", R.INVALID_VALUE, 29),
    ("env_vars: {prepend_path: [A: /x]}", R.INVALID_VALUE, 35),
    ("env_vars: {append_path: [MANPATHS: /x]}", R.INVALID_VALUE, 34),
    ("env_vars: {append_path: [PATH: null]}", R.WRONG_TYPE, 40),
    ("env_vars: {set: [A: 1]}", R.WRONG_TYPE, 29),
    ("env_vars: {set: [{A: x, B: y}]}", R.INVALID_VALUE, 26),
    ("env_vars: {set: ['A B': x]}", R.UNKNOWN_KEY, 26),
    ("env_vars: {unset: []}", R.UNKNOWN_KEY, 20),
    ("prefix_paths: {PATH: [/bin]}", R.INVALID_VALUE, 31),
    ("prefix_paths: {PATH: [../bin]}", R.INVALID_VALUE, 31),
    ("prefix_paths: {PATH: ['a:b']}", R.INVALID_VALUE, 31),
    ("prefix_paths: {PATH: lib}", R.WRONG_TYPE, 30),
]


@pytest.mark.parametrize(("text", "reason", "column"), VARIABLES, ids=[v[0] for v in VARIABLES])
def test_problems_of_variables(text, reason, column):
    texts = {"environments.yaml": VIEW + text + "\n"}
    assert (reason, "recipe/environments.yaml", 7, column) in found(texts)


@pytest.mark.parametrize("name", ["config.yaml", "compilers.yaml", "environments.yaml"])
def test_a_needed_file_that_is_missing(name):
    _, findings = understand({name: b""})
    assert findings.problems
    recipe = {key: text for key, text in SMALL[2].items() if key != name}
    findings = FindingsList()
    assert findings.parse(folder("recipe", recipe), name, "a recipe") is None
    assert [p.reason for p in findings.problems] == [R.FILE_MISSING]


def test_a_needed_file_that_has_nearly_its_name():
    """The CUG 2023 paper says `environment.yaml`."""
    findings = FindingsList()
    there = folder("recipe", {"config.yaml": "", "environment.yaml": ""})
    assert findings.parse(there, "environments.yaml", "a recipe") is None
    assert findings.problems[0].hint == "rename `environment.yaml`, which is there"


@pytest.mark.parametrize("name", ["config.yaml", "environments.yaml", "modules.yaml"])
def test_a_binary_file_where_text_is_expected(name):
    assert found({name: b"\x7fELF\xff\xfe\0"})[0][0] is R.YAML_SYNTAX


def test_a_key_that_stands_twice_is_noted_and_the_last_value_counts():
    text = SMALL[2]["environments.yaml"] + "  packages:\n  packages: [perl]\n"
    stack, findings = understand({"environments.yaml": text})
    assert findings.problems == []
    assert stack.environments[0].find_external == ("perl",)
    assert [(n.reason, n.where.line) for n in findings.notes] == [(R.DUPLICATE_KEY, 7)]


def test_all_problems_come_at_once():
    texts = {
        "config.yaml": SMALL[2]["config.yaml"] + "default-view: nothing\nmodules: true\n",
        "compilers.yaml": 'gcc:\n  version: "13 +x"\n',
        "environments.yaml": "tools:\n  compiler: []\n  specs: [slurm@99]\n"
        "more:\n  compiler: [llvm]\n  specs: []\n  network: {specs: [a]}\n",
        "modules.yml": "",
        "post-install": "{% if %}",
    }
    reasons = [reason for reason, *_ in found(texts)]
    assert sorted(reasons) == sorted(
        [R.UNKNOWN_VIEW, R.INVALID_VALUE, R.INVALID_VALUE, R.INVALID_VALUE, R.INVALID_VALUE,
         R.INVALID_VALUE, R.MISSING_KEY, R.INVALID_VALUE]
    )  # fmt: skip


def test_an_invalid_config_keeps_nobody_from_hearing_of_the_rest():
    texts = {
        "config.yaml": SMALL[2]["config.yaml"].replace("name: small", "nmae: small"),
        "environments.yaml": "tools:\n  compiler: [llvm]\n  specs: []\n",
    }
    files = {file for _, file, *_ in found(texts)}
    assert files == {"recipe/config.yaml", "recipe/environments.yaml"}


def test_a_key_of_another_version_says_which_has_it():
    texts = changed(2, "environments.yaml", "  specs", "  mpi: {spec: openmpi}\n  specs")
    _, findings = understand(texts)
    assert "version 1" in findings.problems[0].hint
    assert "network" in findings.problems[0].hint


def test_hints_name_what_there_is():
    texts = changed(2, "environments.yaml", "  specs", "  network: {mpi: lam}\n  specs")
    _, findings = understand(texts)
    assert "openmpi, mpich, fjord-mpi" in findings.problems[0].hint
    _, findings = understand(texts, on=ClusterConfig(name="empty"))
    assert "network.yaml" in findings.problems[0].hint


def test_a_wrong_compiler_and_a_wrong_mpi_come_at_once():
    texts = changed(2, "environments.yaml", "[gcc]", "[gcx]\n  network: {mpi: openmp@5}")
    _, findings = understand(texts)
    hints = [problem.hint or "" for problem in findings.problems]
    assert [hint.partition("?")[0] for hint in hints] == [
        "did you mean `gcc`", "did you mean `openmpi`",
    ]  # fmt: skip


def test_an_older_spack_than_stackinators_is_noted():
    texts = changed(3, "config.yaml", "releases/v1.2", "releases/v1.1")
    _, findings = understand(texts, version=3)
    assert findings.problems == []
    assert [note.where.line for note in findings.notes] == [4]


def test_a_recipe_without_an_environment_is_noted():
    _, findings = understand({"environments.yaml": "{}\n"})
    assert findings.problems == []
    assert len(findings.notes) == 1


# clusters


def of_cluster(texts: dict[str, str | None], version: int = 2):
    findings = FindingsList()
    own = {name: text.decode() for name, text in cluster_folder(version).texts.items()}
    merged = {name: text for name, text in {**own, **texts}.items() if text is not None}
    place = folder("fjord", merged)
    repository_paths(place, findings)
    read_cluster(place, (), version, findings)
    return findings


@pytest.mark.parametrize(
    ("texts", "reason"),
    [
        ({"packages.yaml": None}, R.FILE_MISSING),
        ({"packages.yaml": "packages: {}\n"}, R.MISSING_KEY),
        ({"packages.yaml": "packages: {gcc: {externals: []}}\n"}, R.MISSING_KEY),
        ({"packages.yaml": "packages: {gcc: {externals: [{spec: gcc@12, prefix: /usr}]}}\n"}, R.MISSING_KEY),
        ({"packages.yaml": "gcc: {}\n"}, R.MISSING_KEY),
        ({"network.yaml": "mpi: [openmpi]\n"}, R.WRONG_TYPE),
        ({"network.yaml": "mpi: {openmpi: {spec: []}}\n"}, R.UNKNOWN_KEY),
        ({"network.yaml": "mpis: {}\n"}, R.UNKNOWN_KEY),
        ({"repos.yaml": "- a\n"}, R.WRONG_TYPE),
        ({"mirrors.yaml": "{}\n"}, R.UNSUPPORTED),
    ],
)  # fmt: skip
def test_problems_of_a_cluster(texts, reason):
    findings = of_cluster(texts)
    assert reason in {p.reason for p in findings.problems}
    assert all(p.where.file.startswith("fjord/") for p in findings.problems)


@pytest.mark.parametrize(
    ("texts", "reason"),
    [
        ({"compilers.yaml": "compilers: {}\n"}, R.WRONG_TYPE),
        ({"concretizer.yaml": "reuse: false\n"}, R.MISSING_KEY),
    ],
)
def test_problems_of_a_cluster_for_version_1(texts, reason):
    assert reason in {p.reason for p in of_cluster(texts, 1).problems}


def test_a_cluster_for_version_1_needs_no_gcc_and_its_compilers_are_noted_when_missing():
    findings = of_cluster({"packages.yaml": None, "compilers.yaml": None}, 1)
    assert findings.problems == []
    assert len(findings.notes) == 1


def test_a_network_may_be_empty():
    for text in ("mpi:\npackages:\n", "{}\n"):
        assert of_cluster({"network.yaml": text}).problems == []


def test_a_package_that_may_not_be_built_and_has_no_external():
    base = cluster()
    place = ClusterConfig(name="x", packages={**base.packages, "egl": {"buildable": False}})
    _, findings = understand(changed(2, "environments.yaml", "[cmake]", "[egl]"), on=place)
    assert [p.where.line for p in findings.problems] == [3]


def test_an_external_of_another_package_is_none():
    """Spack takes an external by its own name, whatever it stands below."""
    base = cluster()
    for spec, lines in (("cray-mpich@8.1.7", [3]), ("egl@1.5", [])):
        below = {"buildable": False, "externals": [{"spec": spec, "prefix": "/opt/egl"}]}
        place = ClusterConfig(name="x", packages={**base.packages, "egl": below})
        _, findings = understand(changed(2, "environments.yaml", "[cmake]", "[egl]"), on=place)
        assert [p.where.line for p in findings.problems] == lines
        assert all("move it below `cray-mpich`" in p.hint for p in findings.problems)
