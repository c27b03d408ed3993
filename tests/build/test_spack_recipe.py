"""A recipe of our own format for Spack to the stack it means, and everything wrong with one."""

from __future__ import annotations

import pytest

from stackinators import cluster
from stackproof.build.engines.spack.recipe import (
    generation_of,
    problems,
    read,
    split,
)
from stackproof.build.engines.spack.stackinator.findings import Folder
from stackproof.core.document import parse
from stackproof.core.errors import Reason
from stackproof.recipe.composition import compose

R = Reason
SMALL = """\
name: small
engine: spack
spack:
  repo: https://example.org/spack.git
  commit: v1.1.0
  packages: {repo: https://example.org/packages.git, commit: develop}
compilers: {gcc: {version: "13"}}
environments:
  tools: {compiler: [gcc], specs: [cmake], views: {all: }}
"""


def composed(*texts: str, choice=None, **facts: str):
    chain = tuple(parse(text, file=f"{n}.yaml") for n, text in enumerate(texts))
    return compose(chain, {k.replace("_", "-"): v for k, v in facts.items()}, choice or {}), chain


def stack(text: str, *, generation: int = 2, **facts: str):
    known = {"architecture": "aarch64", **{k.replace("_", "-"): v for k, v in facts.items()}}
    whole, chain = composed(text, **known)
    assert problems(whole, chain) == ()
    folder = Folder(path="0.yaml", files={}, texts={})
    found, findings = read(whole, folder, cluster(generation), known)
    return found, findings


def found(*texts: str, **facts: str):
    whole, chain = composed(*texts, **facts)
    return [(p.reason, p.where.file, p.where.line, p.where.column) for p in problems(whole, chain)]


def test_a_small_recipe():
    one, findings = stack(SMALL)
    assert findings.problems == []
    assert (one.name, one.version, one.generation) == ("small", "0", 2)
    assert one.environments[0].specs == ("cmake",)
    assert one.architecture == "aarch64"
    assert one.source.startswith("stackproof recipe")


def test_keys_that_only_our_format_has():
    more = 'version: "2026.1"\ntarget: zen3\nimage: {compression: gzip, level: 9}\n'
    one, _ = stack(SMALL + more)
    assert (one.version, one.target) == ("2026.1", "zen3")
    assert (one.compression, one.compression_level) == ("gzip", 9)


def test_the_target_of_the_site():
    one, findings = stack(SMALL + "target: site\n", microarchitecture="neoverse_v2")
    assert (one.target, findings.problems) == ("neoverse_v2", [])
    _, findings = stack(SMALL + "target: site\n")
    (problem,) = findings.problems
    assert (problem.reason, problem.where.line) == (R.SITE_INCOMPLETE, 10)
    assert "--fact microarchitecture=" in problem.hint


def test_the_fabric_of_the_site_where_transports_ask_for_it():
    one, _ = stack(SMALL + "transports: [shm]\n", fabric="slingshot-11")
    assert one.site_facts["fabric"] == "slingshot-11"
    for text, facts in ((SMALL, {"fabric": "slingshot-11"}), (SMALL + "transports: [shm]\n", {})):
        assert "fabric" not in stack(text, **facts)[0].site_facts


@pytest.mark.parametrize(
    ("text", "expected"),
    [("modules: true\n", {}), ("modules: {default: {enable: [tcl]}}\n", {"enable": ["tcl"]}),
     ("", None), ("modules: false\n", None)],
)  # fmt: skip
def test_modules(text, expected):
    one, _ = stack(SMALL + text)
    if expected is None:
        assert one.modules is None
    else:
        assert expected.items() <= one.modules["default"].items()


FIRST = """\
name: old
engine: spack
generation: 1
spack: {repo: https://example.org/spack.git, commit: v0.23.1}
compilers: {bootstrap: {spec: gcc@12.3}, gcc: {specs: [gcc@12.3]}}
environments:
  tools: {compiler: [{toolchain: gcc, spec: gcc@12.3}], specs: [cmake]}
"""


def test_generation_1():
    one, findings = stack(FIRST, generation=1)
    assert findings.problems == []
    assert [c.name for c in one.compilers] == ["bootstrap", "gcc"]


@pytest.mark.parametrize(
    ("old", "new", "reason", "line", "column"),
    [
        ("name: small", "nmae: small", R.UNKNOWN_KEY, 1, 1),
        ("name: small", "name: Sm all", R.INVALID_VALUE, 1, 7),
        ("name: small", "name: small\ngeneration: 4", R.INVALID_VALUE, 2, 13),
        ("name: small", "name: small\ngeneration: true", R.WRONG_TYPE, 2, 13),
        ("name: small", "name: small\nmount: /usr", R.BAD_MOUNT_POINT, 2, 8),
        ("name: small", "name: small\nimage: {level: 30}", R.INVALID_VALUE, 2, 16),
        ("name: small", "name: small\nimage: {compression: xz, level: 1}", R.INVALID_VALUE, 2, 33),
        ("name: small", "name: small\ntarget: Zen3", R.INVALID_VALUE, 2, 9),
        ("name: small", "name: small\naccept: x", R.WRONG_TYPE, 2, 9),
        ('version: "13"', "version: 13", R.WRONG_TYPE, 7, 28),
        ("gcc: {", "gnu: {", R.UNKNOWN_KEY, 7, 13),
        ("compiler: [gcc], ", "", R.MISSING_KEY, 9, 10),
        ("specs: [cmake]", "specs: cmake", R.WRONG_TYPE, 9, 35),
        ("specs: [cmake]", "mpi: {spec: x}, specs: [cmake]", R.UNKNOWN_KEY, 9, 28),
        ("  commit: v1.1.0\n", "  commit: 1.1\n", R.WRONG_TYPE, 5, 11),
        (", commit: develop}", "}", R.MISSING_KEY, 6, 13),
        ("compilers:", "compiler:", R.UNKNOWN_KEY, 7, 1),
    ],
)
def test_mistakes(old, new, reason, line, column):
    assert old in SMALL
    assert (reason, "0.yaml", line, column) in found(SMALL.replace(old, new, 1))


def test_parts_that_do_not_hold_here_are_looked_at_too():
    text = SMALL + "when:\n- if: {gpu: rocm}\n  then: {environments: {tools: {spces: [x]}}}\n"
    assert found(text, gpu="cuda") == [(R.UNKNOWN_KEY, "0.yaml", 12, 33)]
    assert found(text) == found(text, gpu="rocm")
    text = SMALL + "matrix: {axes: {a: {one: , two: {mount: 5}}}}\n"
    whole, chain = composed(text, choice={"a": "one"})
    assert [p.reason for p in problems(whole, chain)] == [R.WRONG_TYPE]


def test_what_is_inherited_is_looked_at_in_its_own_file():
    places = found(SMALL.replace("cmake", "5"), "name: top\nmonut: /x\n")
    assert (R.UNKNOWN_KEY, "1.yaml", 2, 1) in places
    assert any(file == "0.yaml" and reason is R.WRONG_TYPE for reason, file, *_ in places)


def test_a_part_may_leave_keys_out_and_remove_others():
    text = (
        SMALL + "when:\n- if: {gpu: cuda}\n  then: {environments: {tools: {views: null, "
        "network: {mpi: openmpi}}}}\n- if: {fabric: none}\n  then: {environments: {tools: {network: null}}}\n"
    )
    for facts in ({}, {"gpu": "cuda"}, {"gpu": "cuda", "fabric": "none"}, {"fabric": "none"}):
        # A null that removes nothing is a value, and no mapping.
        expected = [R.WRONG_TYPE] if facts == {"fabric": "none"} else []
        assert [reason for reason, *_ in found(text, **facts)] == expected


def test_generations_that_depend_on_the_site():
    text = SMALL + "when:\n- if: {gpu: cuda}\n  then: {generation: 3, cleanup: runtime}\n"
    assert found(text, gpu="cuda") == []
    assert found(text) == []
    assert found(SMALL + "cleanup: runtime\n") == [(R.UNKNOWN_KEY, "0.yaml", 10, 1)]


@pytest.mark.parametrize(
    ("data", "generation"), [({}, 2), ({"generation": 3}, 3), ({"generation": 9}, 2), ({"generation": True}, 2)]
)  # fmt: skip
def test_the_generation_of_data(data, generation):
    assert generation_of(data) == generation


def test_problems_speak_of_our_one_file():
    text = SMALL.replace("[gcc]", "[llvm]").replace("v1.1.0", "v0.23.0")
    whole, _ = composed(text)
    folder = Folder(path="0.yaml", files={}, texts={})
    _, findings = read(whole, folder, cluster(2), {"architecture": "x86_64"})
    words = " ".join(f"{p.message} {p.hint}" for p in findings.problems)
    assert len(findings.problems) == 2
    assert ".yaml" not in words.replace("packages.yaml", "").replace("network.yaml", "")


def test_the_parts_have_their_places():
    document, _ = composed(SMALL + "packages: {slurm: {buildable: false}}\n")
    inner = split(document.document)
    assert str(inner["config.yaml"].where("spack", "commit")) == "0.yaml:5:11"
    assert str(inner["compilers.yaml"].where("gcc", "version")) == "0.yaml:7:28"
    assert str(inner["environments.yaml"].where("tools", "specs", 0)) == "0.yaml:9:36"
    assert str(inner["packages.yaml"].where("packages", "slurm", "buildable")) == "0.yaml:10:31"
