"""The ready MPI chains and the locks beside them: what each lock holds, and that it still answers.

The locks are Spack's own solutions; `docs/how-to/mpi-chains.md` says how one is made anew.
"""

from __future__ import annotations

import argparse
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from stackproof import cli
from stackproof.build.effects import locking, stacks
from stackproof.build.effects.loaded import Loaded
from stackproof.build.engines.easybuild.effects import builder
from stackproof.build.engines.spack import buildplan, locks
from stackproof.build.engines.spack.effects import known
from stackproof.build.engines.spack.effects.builder import BUILDER
from stackproof.build.engines.spack.stack import Caches, SpackLock
from stackproof.build.options import RecipeOptions
from stackproof.core.cli import parsing
from stackproof.core.effects import shipped
from stackproof.core.value import Value

FOLDER = Path(__file__).parents[2] / "recipes" / "spack"
ZEN3 = ("architecture=x86_64", "microarchitecture=zen3")
NEOVERSE = ("architecture=aarch64", "microarchitecture=neoverse_v2")
GPUS = {
    "": ("gpu=none",),
    "a100": ("gpu=cuda", "gpu-architecture=80"),
    "gh200": ("gpu=cuda", "gpu-architecture=90"),
    "mi250x": ("gpu=rocm", "gpu-architecture=gfx90a"),
}
VARIANTS = {
    "a100": {"cuda": True, "cuda_arch": ["80"]},
    "gh200": {"cuda": True, "cuda_arch": ["90"]},
    "mi250x": {"rocm": True, "amdgpu_target": ["gfx90a"]},
}
VERSIONS = {"openmpi": "5.0.10", "mpich": "4.3.2", "cray-mpich": "8.1.32"}
HOST_SOFTWARE = ("cassini-headers", "cxi-driver", "libcxi")


class Chain(Value, kw_only=False):
    """A recipe on a machine, and the file that has its lock."""

    recipe: str
    site: str
    machine: tuple[str, ...]
    gpu: str
    lock: str

    @property
    def words(self) -> list[str]:
        facts = [word for fact in (*self.machine, *GPUS[self.gpu]) for word in ("--fact", fact)]
        site = str(FOLDER / "sites" / f"{self.site}.yaml")
        return [str(FOLDER / f"{self.recipe}.yaml"), "--site", site, *facts]

    @property
    def target(self) -> str:
        return self.machine[1].partition("=")[2]


CHAINS = tuple(
    Chain(recipe, site, machine, gpu, f"{recipe}.{variant}.lock.json")
    for recipe, site, machine, gpu, variant in (
        ("openmpi", "slingshot", ZEN3, "", "zen3-slingshot-11"),
        ("openmpi", "slingshot", ZEN3, "a100", "zen3-slingshot-11-cuda"),
        ("openmpi", "slingshot", ZEN3, "mi250x", "zen3-slingshot-11-rocm"),
        ("openmpi", "slingshot", NEOVERSE, "", "neoverse_v2-slingshot-11"),
        ("openmpi", "slingshot", NEOVERSE, "gh200", "neoverse_v2-slingshot-11-cuda"),
        ("openmpi", "ethernet", ZEN3, "", "zen3-ethernet"),
        ("openmpi", "ethernet", NEOVERSE, "", "neoverse_v2-ethernet"),
        ("mpich", "slingshot", ZEN3, "", "zen3-slingshot-11"),
        ("mpich", "slingshot", ZEN3, "a100", "zen3-slingshot-11-cuda"),
        ("mpich", "slingshot", ZEN3, "mi250x", "zen3-slingshot-11-rocm"),
        ("mpich", "slingshot", NEOVERSE, "", "neoverse_v2-slingshot-11"),
        ("mpich", "slingshot", NEOVERSE, "gh200", "neoverse_v2-slingshot-11-cuda"),
        ("mpich", "ethernet", ZEN3, "", "zen3-ethernet"),
        ("mpich", "ethernet", NEOVERSE, "", "neoverse_v2-ethernet"),
        ("cray-mpich", "slingshot", ZEN3, "", "zen3-slingshot-11"),
        ("cray-mpich", "slingshot", ZEN3, "a100", "zen3-slingshot-11-cuda"),
        ("cray-mpich", "slingshot", ZEN3, "mi250x", "zen3-slingshot-11-rocm"),
        ("cray-mpich", "slingshot", NEOVERSE, "", "neoverse_v2-slingshot-11"),
        ("cray-mpich", "slingshot", NEOVERSE, "gh200", "neoverse_v2-slingshot-11-cuda"),
    )
)
EVERY = pytest.mark.parametrize("chain", CHAINS, ids=lambda chain: chain.lock)


@cache
def loaded(chain: Chain) -> Loaded:
    return _loaded(chain.words)


def _loaded(words: list[str]) -> Loaded:
    parser = argparse.ArgumentParser()
    parsing.add_options(parser, RecipeOptions)
    return stacks.load_recipe(parsing.value_of(RecipeOptions, parser.parse_args(words)))


@cache
def lock_of(chain: Chain) -> SpackLock:
    lock: SpackLock | None = locking.find(BUILDER, loaded(chain))[0]
    assert lock is not None, f"{chain.lock} does not answer its recipe"
    return lock


@cache
def nodes(chain: Chain) -> dict[str, locks.SolvedPackage]:
    """Return the packages of a chain by name; one of each is what `unify` promises."""
    found: dict[str, locks.SolvedPackage] = {}
    for node in locks.everything(lock_of(chain), loaded(chain).stack.mount).values():
        found.setdefault(node.name, node)
    return found


def test_every_lock_is_looked_at() -> None:
    there = {path.name for path in FOLDER.glob("*.lock.json")}
    assert there == {chain.lock for chain in CHAINS}


@EVERY
def test_lock_answers_the_recipe(chain: Chain) -> None:
    assert loaded(chain).lock_path == FOLDER / chain.lock
    assert locking.find(BUILDER, loaded(chain))[0] is not None


@EVERY
def test_versions_and_targets(chain: Chain) -> None:
    found = nodes(chain)
    mpi = found[chain.recipe]
    assert mpi.version == VERSIONS[chain.recipe]
    assert found["osu-micro-benchmarks"].version == "7.5.2"
    assert {node.target for node in found.values() if not node.external} == {chain.target}
    for name in ("libfabric", chain.recipe, "osu-micro-benchmarks"):
        if found[name].external:
            continue
        wanted = VARIANTS.get(chain.gpu, {"cuda": False, "rocm": False})
        assert {key: found[name].variants.get(key) for key in wanted} == wanted, name


@EVERY
def test_fabrics(chain: Chain) -> None:
    found = nodes(chain)
    libfabric = found["libfabric"]
    on_slingshot = chain.site == "slingshot"
    if chain.recipe == "cray-mpich":
        # One without cxi in the view would come before the machine's own.
        assert {"cxi", "rxm", "tcp"} == set(libfabric.variants["fabrics"])
        return
    assert libfabric.version == "2.5.1"
    fabrics = set(libfabric.variants["fabrics"])
    assert {"rxm", "shm", "tcp"} <= fabrics
    assert ("cxi" in fabrics) is on_slingshot
    assert ("xpmem" in fabrics) is on_slingshot
    assert ("lnx" in fabrics) is (on_slingshot and chain.recipe == "openmpi")
    assert libfabric.hash in {node.hash for node in locks.needed(_root(chain), _by_hash(chain))}
    if not on_slingshot:
        assert not {*HOST_SOFTWARE, "xpmem"} & set(found)


@pytest.mark.parametrize(
    "chain",
    [c for c in CHAINS if c.site == "slingshot" and c.recipe != "cray-mpich"],
    ids=lambda chain: chain.lock,
)
def test_host_software_is_one_release_at_a_commit(chain: Chain) -> None:
    for name in HOST_SOFTWARE:
        node = nodes(chain)[name]
        assert (node.version, node.namespace) == ("13.0.0", "recipe")
        assert len(str(node.variants["commit"])) == 40
    assert nodes(chain)["libfuse"].version.startswith("2.9.")
    assert nodes(chain)["xpmem"].external, "the site has one"


@EVERY
def test_nothing_is_outside_but_what_the_site_has(chain: Chain) -> None:
    """The C library comes with the machine's compiler: Spack finds it by asking that."""
    stated = set(loaded(chain).stack.packages)
    outside = {node.name for node in nodes(chain).values() if node.external}
    assert outside <= {*stated, "glibc"}
    assert "gcc" in outside
    for name in outside - {"glibc"}:
        externals = loaded(chain).stack.packages[name]["externals"]
        assert nodes(chain)[name].prefix in {external["prefix"] for external in externals}


@EVERY
def test_nothing_is_from_a_branch(chain: Chain) -> None:
    """Packages of branches change under the same lock."""
    branches = {"main", "master", "develop", "trunk", "stable"}
    assert not {n.name for n in nodes(chain).values() if n.version in branches}


@EVERY
def test_no_known_conflict(chain: Chain) -> None:
    problems, notes = known.conflict_problems(loaded(chain), lock_of(chain))
    assert problems == ()
    assert not any("cannot be told" in note.message for note in notes)


def test_a_lock_with_a_known_conflict_is_noticed() -> None:
    """The check above can fail: the same lock with a newer libcxi has one."""
    chain = CHAINS[0]
    lock = lock_of(chain)
    text = json.dumps(dict(lock.environments))
    changed = SpackLock(
        wants=lock.wants,
        clones=lock.clones,
        environments=_newer_libcxi(json.loads(text)),
    )
    problems, _ = known.conflict_problems(loaded(chain), changed)
    assert any("libfabric-2.5.1-libcxi-newer" in problem.message for problem in problems)


def _newer_libcxi(environments: dict[str, Any]) -> dict[str, Any]:
    for content in environments.values():
        for node in content["concrete_specs"].values():
            if node["name"] == "libcxi":
                node["version"] = "13.1.0"
    return environments


@EVERY
def test_locked_build_is_planned(chain: Chain) -> None:
    csrc = shipped.benchmark_sources()
    plan = buildplan.build_plan(loaded(chain).stack, lock_of(chain), Caches(), csrc=csrc)
    assert [one.name for one in plan.steps][-1] == "image"
    assert [one.name for one in plan.steps if one.network] == ["fetch"]
    assert plan.id == buildplan.build_plan(
        loaded(chain).stack, lock_of(chain), Caches(), csrc=csrc
    ).id  # fmt: skip


@EVERY
def test_locked_command_takes_it(chain: Chain, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["build", *chain.words, "--locked", "--stop-after", "lock"])
    assert not ended.value.code
    assert capsys.readouterr().out.strip() == str(FOLDER / chain.lock)


@EVERY
def test_size(chain: Chain) -> None:
    """A lock is read by people in reviews; a few hundred kilobytes are what Spack needs."""
    assert (FOLDER / chain.lock).stat().st_size < 600_000


@EVERY
def test_no_conflict_is_accepted(chain: Chain) -> None:
    document = loaded(chain).document
    assert document is not None
    assert not document.data.get("accept")


@pytest.mark.parametrize("recipe", ["mpich", "openmpi"])
def test_a_chain_from_debians_sources(recipe: str) -> None:
    """Its releases are among those that Debian's source packages have, by the other catalogue."""
    site = str(FOLDER / "sites" / "ethernet.yaml")
    stack = _loaded([str(FOLDER / f"{recipe}-debian.yaml"), "--site", site]).stack
    (environment,) = stack.environments
    named = dict(one.split()[0].split("@") for one in environment.specs if "@" in one)
    assert named.keys() == {recipe, "libfabric"}
    for name, version in named.items():
        component = builder.load().components[name]
        (release,) = (one for one in component.releases if one.version == version)
        assert any(one.origin.startswith("debian-") for one in release.sources)


def test_recipes_travel_with_the_program() -> None:
    assert (shipped.root("recipes") / "spack" / "chain.yaml").is_file()


def _by_hash(chain: Chain) -> dict[str, locks.SolvedPackage]:
    return locks.everything(lock_of(chain), loaded(chain).stack.mount)


def _root(chain: Chain) -> tuple[str, ...]:
    return (nodes(chain)[chain.recipe].hash,)
