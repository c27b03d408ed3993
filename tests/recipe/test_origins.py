"""Where a value of a recipe is from: files, conditions, the site, defaults, the command line."""

from __future__ import annotations

import pytest

from stackproof.core.document import Document, parse
from stackproof.core.errors import Reason, StackproofError
from stackproof.recipe.composition import compose
from stackproof.recipe.origins import ValueOrigin, explain, recipe_tree, with_facts, with_site

BASE = """\
name: base
environments:
  gnu:
    compiler: [gcc]
    specs: [cmake, zlib]
    network: {mpi: openmpi@5 +cuda}
packages:
  libfabric: {require: ["@2.3"]}
"""
TOP = """\
inherit: base.yaml
name: top
environments:
  gnu:
    specs: [..., {if: {gpu: cuda}, then: [nccl]}]
when:
- if: {gpu: cuda}
  then: {environments: {gnu: {compiler: [nvhpc]}}}
- if: {gpu: rocm}
  then: {environments: {gnu: {compiler: [llvm-amdgpu]}}}
- if: {fabric: none}
  then: {environments: {gnu: {network: null}}}
"""
SITE = """\
name: fjord
partitions: {one: {gpu: NVIDIA GH200, architecture: aarch64}}
spack:
  packages:
    slurm: {buildable: false}
    libfabric:
      buildable: false
      require: ["@2.2"]
  mpi:
    openmpi: ["libfabric@2.2: fabrics=lnx"]
"""


def root(**facts: str):
    chain = (parse(BASE, file="base.yaml"), parse(TOP, file="top.yaml"))
    return compose(chain, facts, {}).root


def site() -> dict[str, Document]:
    return {"site": parse(SITE, file="fjord.yaml")}


def one(node, key: str) -> ValueOrigin:
    (setting,) = explain(node, key)
    return setting


@pytest.mark.parametrize(
    ("facts", "key", "value", "where", "why", "before"),
    [
        ({}, "environments.gnu.network.mpi", "openmpi@5 +cuda", "base.yaml:6:20",
         "inherited from base.yaml", []),
        ({}, "name", "top", "top.yaml:2:7", "", [("base", "base.yaml:1:7")]),
        ({"gpu": "cuda"}, "environments.gnu.compiler", ["nvhpc"], "top.yaml:8:41",
         "where gpu is cuda", [(["gcc"], "base.yaml:4:15")]),
        ({"gpu": "none"}, "environments.gnu.compiler", ["gcc"], "base.yaml:4:15",
         "inherited from base.yaml", []),
        ({"fabric": "none"}, "environments.gnu.network", None, "top.yaml:12:40",
         "removed, where fabric is none", [({"mpi": "openmpi@5 +cuda"}, "base.yaml:6:14")]),
        ({"fabric": "none"}, "environments.gnu.network.mpi", "no MPI", "None", "the default", []),
        ({}, "mount", "/user-environment", "None", "the default", []),
        ({}, "environments.gnu.network.specs", ["libfabric@2.2: fabrics=lnx"], "fjord.yaml:10:14",
         "the site fjord, with this MPI", []),
    ],
)  # fmt: skip
def test_where_a_value_is_from_why_and_what_it_replaced(facts, key, value, where, why, before):
    node = root(**facts)
    setting = one(with_site(node, site(), "fjord") if where.startswith("fjord") else node, key)
    assert (setting.value, str(setting.where), setting.why) == (value, where, why)
    assert [(b.value, str(b.where)) for b in setting.before] == before


def test_a_list_from_several_places_is_shown_item_by_item():
    found = explain(root(gpu="cuda"), "environments.gnu.specs")
    assert [(s.key, s.value) for s in found] == [
        ("environments.gnu.specs.0", "cmake"),
        ("environments.gnu.specs.1", "zlib"),
        ("environments.gnu.specs.2", "nccl"),
    ]
    assert [str(s.where) for s in found][::2] == ["base.yaml:5:13", "top.yaml:5:43"]
    assert one(root(), "environments.gnu.specs.1").value == "zlib"


def test_a_mapping_gives_everything_below():
    keys = {setting.key for setting in explain(root(), "environments")}
    assert "environments.gnu.network.mpi" in keys
    assert all(key.startswith("environments.gnu.") for key in keys)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("files.a.b.txt", "x"),  # names may hold dots
        ("files.a", "y"),
        ("environments.v1.2.specs", ["z"]),
        ("environments.v1.2.unify", "true"),
        ("mount", "/user-environment"),
        ("image.level", "6"),
        ("generation", "2"),
        ("environments.gnu.unify", "true"),
        ("environments.gnu.network.mpi", "openmpi@5 +cuda"),
        ("environments.gnu.duplicates.strategy", "minimal"),
        ("spack.packages.path", "repos/spack_repo/builtin"),
    ],
)
def test_defaults(key, value):
    dotted = parse("files: {a.b.txt: x, a: y}\nenvironments: {v1.2: {specs: [z]}}\n", file="x")
    chain = (parse(BASE, file="base.yaml"), dotted)
    assert one(compose(chain, {}, {}).root, key).value == value


def test_wheel_recipes_have_defaults_of_their_own():
    node = compose((parse("name: x\nmpi: {family: mpich}\n", file="x"),), {}, {}).root
    assert [s.value for s in explain(node, "mpi.version", spack=False)] == ["the newest"]
    with pytest.raises(StackproofError):
        explain(node, "environments", spack=False)


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("nmae", "`name`"),
        ("environments.gmu.specs", "`environments.gnu`"),
        ("environments.gnu.spec", "`environments.gnu.specs`"),
        ("environments.other.unify", "gnu"),
        ("environments.gnu.specs.9", "2"),
        ("environments.gnu.specs.x", "2"),
        ("environments.gnu.specs.0.deeper", "nothing below"),
        ("store", "`mount`"),
        ("", "name"),
        ("name.", "nothing below"),
        ("..", "environments"),
    ],
)
def test_unknown_keys_name_what_there_is(key, said):
    node = with_site(root(), site(), "fjord")
    node.value["mount"] = node.value["name"]
    with pytest.raises(StackproofError) as caught:
        explain(node, key)
    assert caught.value.reason is Reason.USAGE
    assert said in (caught.value.problems[0].hint or "")


def test_the_sites_packages_and_what_the_recipe_replaces_of_them():
    node = with_site(root(), site(), "fjord")
    assert one(node, "packages.slurm").why == "the site fjord"
    require, lost = explain(node, "packages.libfabric")
    assert (require.value, str(require.where)) == (["@2.3"], "base.yaml:8:24")
    assert [(b.value, str(b.where)) for b in require.before] == [(["@2.2"], "fjord.yaml:8:16")]
    assert (lost.key, lost.value) == ("packages.libfabric.buildable", None)
    assert "whole entry" in lost.why
    assert [b.value for b in lost.before] == [False]


@pytest.mark.parametrize("specs", ["specs: [libfabric@2]", "specs: [libfabric@2]  # own"])
def test_own_specs_of_a_network_count(specs):
    text = f"environments:\n  gnu:\n    network:\n      mpi: openmpi\n      {specs}\n"
    node = with_site(compose((parse(text, file="x"),), {}, {}).root, site(), "fjord")
    assert one(node, "environments.gnu.network.specs").where.file == "x"


@pytest.mark.parametrize(
    "text", ["environments: {gnu: {network: {mpi: '@5'}}}", "environments: {gnu: null}", "a: b",
             "environments: {gnu: {network: {mpi: lam}}}", "packages: {}\nenvironments: []"]
)  # fmt: skip
def test_a_site_on_recipes_that_ask_for_little(text):
    node = with_site(compose((parse(text, file="x"),), {}, {}).root, site(), "fjord")
    assert one(node, "packages.slurm.buildable").value is False


def test_facts_their_places_and_those_that_were_given():
    facts = {"site": "fjord", "gpu": "cuda", "architecture": "aarch64", "fabric": "none"}
    node = with_facts(root(), facts, {"gpu": "rocm"}, site())
    found = {s.key: s for s in explain(node, "facts")}
    assert found["facts.gpu"].value == "rocm"
    assert "--fact" in found["facts.gpu"].why
    assert [str(b.where) for b in found["facts.gpu"].before] == ["fjord.yaml:2:25"]
    assert str(found["facts.architecture"].where) == "fjord.yaml:2:53"
    assert str(found["facts.site"].where) == "fjord.yaml:1:7"
    assert found["facts.fabric"].where.file == "this machine"
    with pytest.raises(StackproofError) as caught:
        explain(node, "facts.vendor-mpi")
    assert "--fact vendor-mpi=" in caught.value.problems[0].hint


def test_facts_of_a_cluster_configuration():
    documents = {
        "packages.yaml": parse("packages: {all: {require: x}}\n", file="c/packages.yaml"),
        "network.yaml": parse("mpi: {cray-mpich: {}}\n", file="c/network.yaml"),
    }
    facts = {"site": "c", "gpu": "none", "vendor-mpi": "cray-mpich", "microarchitecture": "zen3"}
    node = with_facts(root(), facts, {}, documents)
    places = {s.key: str(s.where) for s in explain(node, "facts")}
    assert places == {
        "facts.site": "c",
        "facts.gpu": "c/network.yaml:1:6",
        "facts.vendor-mpi": "c/network.yaml:1:19",
        "facts.microarchitecture": "c/packages.yaml:1:17",
    }


def test_a_stackinator_recipe_under_our_keys():
    texts = {
        "config.yaml": "name: x\nstore: /user-tools\nversion: 3\nspack: {repo: y}\n",
        "compilers.yaml": 'gcc: {version: "13"}\n',
        "environments.yaml": "gnu: {specs: [a]}\n",
        "packages.yaml": "packages: {slurm: {buildable: true}}\n",
        "modules.yaml": "modules: {default: {enable: [tcl]}}\n",
    }
    documents = {name: parse(text, file=name) for name, text in texts.items()}
    node = recipe_tree(documents)
    where = {s.key: str(s.where) for key in node.value for s in explain(node, key)}
    assert where["mount"] == "config.yaml:2:8"
    assert where["generation"] == "config.yaml:3:10"
    assert where["compilers.gcc.version"] == "compilers.yaml:1:16"
    assert where["environments.gnu.specs"] == "environments.yaml:1:14"
    assert where["packages.slurm.buildable"] == "packages.yaml:1:31"
    assert where["modules.default.enable"] == "modules.yaml:1:29"
    node = with_site(node, site(), "fjord")
    setting = one(node, "packages.slurm.buildable")
    assert [b.value for b in setting.before] == [False]
