"""Sources of the operating system for Spack: versions, packages, what a list of them may hold."""

from __future__ import annotations

import ast
import json
import keyword

import pytest
from hypothesis import given
from hypothesis import strategies as st

import spackstacks
from stackproof.build.engines import spack
from stackproof.build.engines.spack import os_sources
from stackproof.build.engines.spack.effects.os_sources import spellings, upstream_version
from stackproof.build.engines.spack.metadata import render_bom
from stackproof.build.engines.spack.packagefile import read_package
from stackproof.build.engines.spack.stack import OsSource, OsSources
from stackproof.core import ids
from stackproof.core.errors import Reason, StackproofError
from stackproof.core.noun import from_json, to_json
from stackproof.core.value import replace

PACKAGE = """
from spack.package import *

class Thing(AutotoolsPackage, CudaPackage):
    '''A thing.'''
    version("main", branch="main")
    with default_args(deprecated=True):
        version("1.2", sha256="aa", url="x")
    version("1.1", sha512="bb")
"""


def source(**changes: object) -> OsSource:
    base = OsSource(
        name="libfabric",
        version="2.2.0",
        sha256="a" * 64,
        url="http://archive.example.org/debian/pool/main/libf/libfabric/libfabric_2.2.0.orig.tar.xz",
        suite="debian trixie",
        source="libfabric",
        source_version="2.2.0-1.1",
        dsc="b" * 64,
        needs=os_sources.TOOLS,
    )
    return replace(base, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("debian", "upstream"),
    [
        ("2.1.0-1.1", "2.1.0"),
        ("1:2.0.19-1+b1", "2.0.19"),
        ("1.5.7+dfsg-1", "1.5.7"),
        ("1.2.13.dfsg-1", "1.2.13"),
        ("2.1.12-stable-8", "2.1.12"),
        ("4.3.0+really4.2.1-1", "4.2.1"),
        ("2.9.14+dfsg-1.3~deb12u2", "2.9.14"),
        ("1.0-rc1-2", "1.0-rc1"),
        ("3.5", "3.5"),
        ("2.0~git20230101.abc-3", "2.0"),
    ],
)
def test_the_upstream_part_of_a_debian_version(debian: str, upstream: str):
    assert upstream_version(debian) == upstream


def test_a_source_package_is_looked_for_under_several_names():
    assert spellings("libfabric") == ("libfabric",)
    assert spellings("xz")[0] == "xz-utils"
    assert "python-yaml" in spellings("py-yaml")
    assert "libjson-perl" in spellings("perl-json")


def test_versions_are_read_from_the_text_of_a_package():
    facts = read_package(PACKAGE, "package.py")
    assert dict(facts.versions) == {"main": "", "1.2": "aa", "1.1": ""}
    assert facts.complete
    assert facts.autotools


def test_computed_versions_are_not_taken_for_all_there_are():
    facts = read_package('for v in V:\n    version(v, sha256="x")\nversion("1")\n', "package.py")
    assert not facts.complete
    assert not facts.autotools
    assert set(facts.versions) == {"1"}
    assert read_package('build_system("cmake", "autotools")', "package.py").autotools


def test_what_is_no_package_is_refused():
    for text in ("class (", "\0"):
        with pytest.raises(StackproofError) as raised:
            read_package(text, "package.py")
        assert raised.value.reason is Reason.INVALID_VALUE
        assert raised.value.problems[0].where


@pytest.mark.parametrize("generation", [1, 2, 3])
def test_an_accepted_source_comes_before_all_packages(generation: int):
    stack = replace(spackstacks.stack(min(generation, 2)), generation=generation)
    accepting, content = os_sources.with_os_sources(stack, (source(extends="recipe"),))
    first = accepting.local_repositories[0]
    assert first.namespace == os_sources.NAMESPACE
    [(path, entry)] = first.files.items()
    assert path == "packages/libfabric/package.py"
    text = content[entry.sha256]
    assert ids.digest(text) == entry.sha256
    module = "spack.pkg.recipe.libfabric" if generation == 1 else (
        "spack_repo.recipe.packages.libfabric.package"
    )  # fmt: skip
    assert f"from {module} import Libfabric as _Original".encode() in text
    assert accepting.local_repositories[1:] == stack.local_repositories
    assert spack.wants(accepting) != spack.wants(stack)
    again, _ = os_sources.with_os_sources(accepting, (source(extends="recipe"),))
    assert again == accepting


def test_no_accepted_source_changes_nothing():
    stack = spackstacks.stack()
    assert os_sources.with_os_sources(stack, ()) == (stack, {})


def test_the_package_says_everything_of_its_source():
    tree = ast.parse(os_sources.render_package(source(), 2))
    calls = {
        node.func.id: node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert ast.literal_eval(calls["version"].args[0]) == "2.2.0"
    words = {word.arg: ast.literal_eval(word.value) for word in calls["version"].keywords}
    assert words == {"sha256": "a" * 64, "url": source().url, "preferred": True}
    needs = [n.args[0].value for n in ast.walk(tree)
             if isinstance(n, ast.Call) and getattr(n.func, "id", "") == "depends_on"]  # fmt: skip
    assert tuple(needs) == os_sources.TOOLS
    assert "depends_on" not in os_sources.render_package(source(needs=()), 2)


@pytest.mark.parametrize(
    ("name", "path", "old_path", "class_name"),
    [
        ("py-numpy", "packages/py_numpy/package.py", "packages/py-numpy/package.py", "PyNumpy"),
        ("3proxy", "packages/_3proxy/package.py", "packages/3proxy/package.py", "_3proxy"),
        ("pass", "packages/_pass/package.py", "packages/pass/package.py", "Pass"),
        ("none", "packages/none/package.py", "packages/none/package.py", "_None"),
        ("rdma-core", "packages/rdma_core/package.py", "packages/rdma-core/package.py", "RdmaCore"),
    ],
)
def test_names_are_those_that_spack_derives(name: str, path: str, old_path: str, class_name: str):
    assert os_sources.package_path(name, 2) == path
    assert os_sources.package_path(name, 1) == old_path
    assert os_sources.class_name(name) == class_name


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "../../x"},
        {"name": "a/b"},
        {"version": '1", url="x'},
        {"sha256": "A" * 64},
        {"sha256": "a" * 63},
        {"url": 'http://x/"; import os'},
        {"url": "ftp://x/y"},
        {"suite": "debian\nimport os"},
        {"source": "x\n"},
        {"source_version": "1 2"},
        {"dsc": ""},
        {"extends": "x import y"},
        {"extends": "x..y"},
        {"extends": "class.y"},
        {"needs": ("autoconf", 'm4")')},
    ],
)
def test_a_list_that_holds_something_else_is_refused(changes: dict[str, object]):
    [problem] = os_sources.source_problems((source(**changes),), "x.os-sources.json")
    assert problem.reason is Reason.INVALID_VALUE
    assert problem.where
    assert problem.where.file == "x.os-sources.json"


def test_a_package_has_one_accepted_source():
    assert os_sources.source_problems((source(), source(name="hwloc")), "x") == ()
    [problem] = os_sources.source_problems((source(), source(version="2.1.0")), "x")
    assert problem.reason is Reason.INVALID_VALUE


@given(
    st.one_of(st.text(max_size=12), st.sampled_from([word.lower() for word in keyword.kwlist])),
    st.sampled_from(("name", "version", "url", "suite", "extends")),
)
def test_whatever_is_accepted_is_python_with_one_class(text: str, key: str):
    given_source = source(**{key: text})
    if os_sources.source_problems((given_source,), "x"):
        return
    for generation in (1, 2):
        tree = ast.parse(os_sources.render_package(given_source, generation))
        assert [type(node) for node in tree.body][-1] is ast.ClassDef
        assert len(tree.body) == 4
        path = os_sources.package_path(given_source.name, generation)
        assert path.count("/") == 2
        assert ".." not in path


def test_accepted_sources_round_trip():
    sources = OsSources(sources=(source(),))
    assert from_json(OsSources, to_json(sources)) == sources


def test_the_bill_of_materials_says_where_a_source_is_from():
    stack, _ = os_sources.with_os_sources(spackstacks.stack(), (source(),))
    clones = spackstacks.clones(stack)
    files = spackstacks.lock_files(stack)
    lock = spack.read_lock(stack, clones, files)
    assert "a" * 64 not in render_bom(stack, lock)  # upstream's package was chosen
    path = "environments/apps/spack.lock"
    content = json.loads(files[path])
    content["concrete_specs"][spackstacks.digest("libfabric")]["namespace"] = os_sources.NAMESPACE
    lock = spack.read_lock(stack, clones, {**files, path: json.dumps(content).encode()})
    bom = render_bom(stack, lock)
    assert '"debian trixie"' in bom
    assert '"libfabric 2.2.0-1.1"' in bom
    assert "a" * 64 in bom
    assert "b" * 64 in bom


def test_a_mirror_is_filled_from_everything_that_is_locked():
    stack = spackstacks.stack()
    clones = spackstacks.clones(stack)
    lock = spack.read_lock(stack, clones, spackstacks.lock_files(stack))
    plan = spack.mirror_plan(stack, lock)
    step = plan.steps[-1]
    assert step.network
    calls = [command.argv for command in step.commands if "create" in command.argv]
    assert len(calls) == len(spack.lock_files(stack))
    assert all(spack.MIRROR in call for call in calls)
    assert set(spack.lock_files(stack)) <= set(step.build_files)


HASH = "n4vh7yry32qai6lulag2htxft4zr3fsb"
AWAY = f"""\
==> Fetching https://example.org/tiny-four-1.0.tar.gz
==> Warning: Error while fetching tiny-four@1.0
  All fetchers failed for spack-stage-tiny-four-1.0-{HASH}
    https://a.example.org/aa.tar.gz: DetailedURLError: GET https://a.example.org/aa.tar.gz errored \
with: [Errno -2] Name or service not known
    https://example.org/tiny-four-1.0.tar.gz: DetailedURLError: GET x errored with: 404
==> Warning: Error while fetching py-x@2.1rc1
  All fetchers failed for resource-y-spack-stage-py-x-2.1rc1-{HASH}
==> Error: Failed downloads:
  tiny-four@1.0  py-x@2.1rc1
"""
CHANGED = f"""\
==> Error: sha256 checksum failed for /build/stage/spack-stage-xz-5.2-{HASH}/xz-5.2.tar.gz
Expected aa45 but got 73cb. File size = 2 bytes. Contents = b'x\\n'. URL = file:///m/aa45.tar.gz
"""


def test_sources_that_cannot_be_had_are_named_with_what_was_tried():
    one, other = spack.source_problems(AWAY)
    assert one.reason is other.reason is Reason.NO_NETWORK
    assert "tiny-four@1.0" in one.message
    assert one.detail
    assert one.detail.splitlines()[1] == "https://example.org/tiny-four-1.0.tar.gz: 404"
    assert "py-x@2.1rc1" in other.message
    assert spack.source_problems(AWAY + AWAY) == (one, other)


def test_a_source_that_changed_is_another_matter():
    [problem] = spack.source_problems(CHANGED)
    assert problem.reason is Reason.DIGEST_MISMATCH
    assert "xz@5.2" in problem.message
    assert problem.detail == (
        "Expected aa45 but got 73cb. File size = 2 bytes. URL = file:///m/aa45.tar.gz"
    )


@pytest.mark.parametrize("text", ["", "==> Error: No compilers\n", "All fetchers failed"])
def test_other_failures_say_nothing_of_sources(text: str):
    assert spack.source_problems(text) == ()
