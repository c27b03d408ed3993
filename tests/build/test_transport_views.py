"""The transports of a recipe as views: which there are, what they change, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

import spackstacks
from spackstacks import locked
from stackproof.build.effects import stacks
from stackproof.build.engines.easybuild import engine as easybuild_engine
from stackproof.build.engines.easybuild.recipe import parse_easybuild_recipe
from stackproof.build.engines.spack import metadata as spack_metadata
from stackproof.build.engines.spack.effects import worker as spack_worker
from stackproof.build.engines.wheel.engine import describe_image, transports_of, wants
from stackproof.build.engines.wheel.recipe import parse_recipe
from stackproof.build.engines.wheel.stack import Lock, Stack
from stackproof.build.options import RecipeOptions
from stackproof.build.stack import Artefact
from stackproof.build.transport_views import TransportViews, transport_views, with_transports
from stackproof.core import document
from stackproof.core.command import EnvPatch
from stackproof.core.errors import Reason, StackproofError
from stackproof.core.value import replace
from stackproof.image import activate, metadata
from stackproof.image.model import Image, MpiFacts, View
from stackproof.mpi.transports import Libfabric

OPENMPI = MpiFacts(family="openmpi", version="5.0.8", prefix="/m/openmpi", launcher="prte")
MPICH = MpiFacts(family="mpich", version="5.0.2", prefix="/m/mpich", launcher="hydra")
FACTS = {"architecture": "x86_64", "compiler": "gcc 12.2.0 (Debian 12.2.0-14)"}
JOINED = ("lnx", "shm", "tcp", "rxm")


def found(
    *names: str, mpi: MpiFacts | None = OPENMPI, on: Libfabric | None = None, fabric: str = ""
) -> TransportViews:
    stack, _ = wheel(RECIPE)
    stack = replace(stack, transports=names, site_facts={"fabric": fabric})
    return transport_views(stack, mpi, on or Libfabric())


def with_providers(*providers: str, version: str) -> Libfabric:
    return Libfabric(version=version, providers=frozenset(providers))


@pytest.mark.parametrize("mpi", [OPENMPI, MPICH])
def test_what_needs_no_machine_is_a_view_of_every_mpi(mpi: MpiFacts) -> None:
    made = found("shm", "tcp", mpi=mpi)
    assert (list(made.changes), made.notes) == (["shm", "tcp"], ())
    assert made.changes["shm"] != made.changes["tcp"]
    assert list(found("shm", mpi=mpi, fabric="none").changes) == ["shm"]


@pytest.mark.parametrize(
    ("name", "providers", "version", "fabric", "setting"),
    [
        ("lnx", JOINED, "2.1.0", "", ("FI_LNX_PROV_LINKS", "shm+tcp;ofi_rxm")),
        ("lnx", (*JOINED, "cxi"), "2.1.0", "slingshot-11", ("FI_LNX_PROV_LINKS", "shm+cxi")),
        ("lnx", (*JOINED, "cxi"), "2.1.0", "ethernet", ("FI_LNX_PROV_LINKS", "shm+tcp;ofi_rxm")),
        ("cxi", ("cxi", "tcp"), "2.3.0", "", ("FI_PROVIDER", "cxi")),
    ],
)
def test_what_one_libfabric_or_one_fabric_decides_is_a_view(
    name: str, providers: tuple[str, ...], version: str, fabric: str, setting: tuple[str, str]
) -> None:
    made = found(name, on=with_providers(*providers, version=version), fabric=fabric)
    assert setting in made.changes[name].set.items()
    assert not made.notes


def test_cxi_of_a_libfabric_that_nobody_knows_is_no_view() -> None:
    unknown = found("cxi")
    assert (len(unknown.changes), len(unknown.notes)) == (0, 1)


@pytest.mark.parametrize(
    ("version", "fabric"),
    [
        ("2.1.0", ""),  # over Slingshot or over TCP
        ("2.3.0", ""),  # a link for each NIC
        ("2.3.0", "slingshot-11"),
    ],
)
def test_what_depends_on_the_machine_is_told_and_left_out(version: str, fabric: str) -> None:
    made = found("lnx", on=with_providers(*JOINED, "cxi", version=version), fabric=fabric)
    assert not made.changes
    assert not made.problems
    (note,) = made.notes
    assert "`lnx`" in note.message


def test_what_cannot_be_had_is_told_all_at_once() -> None:
    made = found("lnx", "cxi", "tcp", mpi=MPICH, on=with_providers("tcp", version="2.3.0"))
    assert list(made.changes) == ["tcp"]
    assert len(made.problems) == 2
    with pytest.raises(StackproofError) as error:
        made.required()
    assert {problem.reason for problem in error.value.problems} == {Reason.UNSUPPORTED}
    assert len(found("tcp", mpi=None).problems) == 1


def wheel(text: str, version: str = "5.0.11") -> tuple[Stack, Lock]:
    stack = parse_recipe(document.parse(text, file="r.yaml"), FACTS)
    parts = tuple(
        Artefact(name=one.name, version=version, filename=f"{one.name}.whl", sha256="ab" * 32)
        for one in stack.requirements
    )
    return stack, Lock(engine="wheel", wants=wants(stack), artefacts=parts)


RECIPE = "name: x\nmpi: {family: openmpi, version: '5.0.11'}\n"


def test_a_view_of_wheels_is_the_default_view_and_the_profile() -> None:
    stack, lock = wheel(RECIPE + "transports: [tcp]\n")
    image = describe_image(stack, lock)
    base, change = image.views["default"].env, transports_of(stack, lock).changes["tcp"]
    assert image.views["tcp"].env == base.then(change)
    assert image.transports == ("tcp",)
    again = metadata.parse_env_json(metadata.render_env_json(image), path="", size=0)
    assert again.transports == image.transports
    assert again.views["tcp"].env.set["OMPI_MCA_mtl"] == "ofi"


def test_a_view_of_the_recipe_stays_and_forces_nothing() -> None:
    stack, lock = wheel(RECIPE + "transports: [tcp]\nviews: {default: {}, tcp: {set: {A: b}}}\n")
    image = describe_image(stack, lock)
    assert image.transports == ()
    assert image.views["tcp"].env.set == {**image.views["default"].env.set, "A": "b"}
    assert len(transports_of(stack, lock).notes) == 1


def test_a_recipe_that_says_nothing_has_no_such_view() -> None:
    assert list(describe_image(*wheel(RECIPE)).views) == ["default"]


def test_an_image_without_a_default_view_has_the_profile_alone() -> None:
    views = with_transports({}, None, "/m", found("shm").changes)
    assert views["shm"].env == found("shm").changes["shm"]


def test_recipes_for_easybuild() -> None:
    text = (
        "name: x\nengine: easybuild\nmpi: {family: openmpi, version: '5.0.7'}\n"
        "libfabric: {version: '2.1.0', providers: [tcp, shm, rxm, lnx]}\n"
        "transports: [lnx, shm]\nbundled: true\n"
    )
    stack = parse_easybuild_recipe(document.parse(text, file="r.yaml"), FACTS)
    assert list(easybuild_engine.transports_of(stack).changes) == ["lnx", "shm"]
    bare = "\n".join(line for line in text.splitlines() if not line.startswith("mpi"))
    with pytest.raises(StackproofError) as error:
        parse_easybuild_recipe(document.parse(bare, file="r.yaml"), FACTS)
    assert error.value.reason is Reason.UNSUPPORTED


def test_recipes_for_spack() -> None:
    of = spackstacks.stack(transports=("shm", "tcp", "cxi"))
    lock = locked(of)
    views = spack_metadata.env_json(of, lock, {})["views"]
    assert views["tcp"]["on"] == of.default_view
    assert views["tcp"]["set"]["OMPI_MCA_mtl"] == "ofi"
    assert "env" not in views["tcp"]
    assert [
        note.message.split("`")[1] for note in spack_metadata.transports_of(of, lock).notes
    ] == ["cxi"]
    of = replace(of, site_facts={**of.site_facts, "fabric": "slingshot-11"})
    assert spack_metadata.transports_of(of, lock).changes["cxi"].set["FI_PROVIDER"] == "cxi"
    of = replace(of, site_facts={**of.site_facts, "fabric": "ethernet"})
    (problem,) = spack_metadata.transports_of(of, lock).problems
    assert "needs Slingshot-11; here it is ethernet" in problem.message


def test_the_worker_of_spack_puts_the_profile_on_the_default_view(tmp_path: Path) -> None:
    meta, root = tmp_path / "meta", tmp_path / "env" / "tcp"
    meta.mkdir()
    env = {"list": {"PATH": [{"op": "prepend", "value": ["/b"]}]}, "scalar": {"A": "1", "B": None}}
    views = {
        "default": {"root": "/r", "env": {"version": 1, "type": "augment", "values": env}},
        "tcp": {"root": str(root), "type": "augment", "on": "default", "set": {"B": "2", "C": "3"}},
    }
    (meta / "env.json.in").write_text(spack_worker.dump({"mount": "/m", "views": views}))
    spack_worker.write_metadata(str(tmp_path))
    image = metadata.parse_env_json((meta / "env.json").read_text(), path="", size=0)
    assert image.views["tcp"].env == EnvPatch(
        set={"A": "1", "B": "2", "C": "3"}, prepend={"PATH": ("/b",)}
    )
    assert image.views["default"].env.unset == ("B",)
    assert "export C=3" in (root / "activate.sh").read_text()


def image(*transports: str) -> Image:
    views = {name: View(name=name, root="/m", env=EnvPatch(set={"A": name}))
             for name in ("default", *transports)}  # fmt: skip
    return Image(
        path="x", name="x", mount="/m", size=0, views=views, default_view="default",
        transports=transports,
    )  # fmt: skip


def test_one_transport_is_forced_and_not_two() -> None:
    one = image("shm", "tcp")

    def forced(*names: str, asked: str | None = None) -> str | None:
        return activate.forced_transport(
            (one,), activate.choose_views((one,), names, permitted=None), asked
        )

    assert forced() is None
    assert forced(asked="cxi") == "cxi"
    assert forced("default", "tcp") == "tcp"
    assert forced("tcp", asked="tcp") == "tcp"
    for names, asked in ((("tcp",), "shm"), (("tcp", "shm"), None), (("shm",), "auto")):
        with pytest.raises(StackproofError) as error:
            forced(*names, asked=asked)
        assert error.value.reason is Reason.USAGE


def test_metadata_that_names_a_view_which_is_not_there_is_refused() -> None:
    text = '{"mount": "/m", "views": {}, "stackproof": {"transports": ["tcp"]}}'
    with pytest.raises(StackproofError) as error:
        metadata.parse_env_json(text, path="x", size=0)
    assert error.value.reason is Reason.IMAGE_NO_META


_ON_SLINGSHOT = "when: [{if: {fabric: slingshot-11}, then: {transports: [shm]}}]\n"


def test_a_condition_on_the_fabric_decides_for_every_engine(tmp_path: Path) -> None:
    recipe = tmp_path / "r.yaml"
    recipe.write_text(RECIPE + _ON_SLINGSHOT)
    found = stacks.load_recipe(RecipeOptions(recipe=str(recipe), fact=["fabric=slingshot-11"]))
    assert found.stack.site_facts["fabric"] == "slingshot-11"
    assert found.lock_path.name == "r.x86_64-slingshot-11.lock.json"
