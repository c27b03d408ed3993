"""`--with` and its kin: words that change one package of a recipe, of every engine."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
from pathlib import Path

import pytest

import inprocess
from benchroom import stackproof
from images import MOUNT, env_json
from need import need
from spackstacks import spliced
from stackproof import cli
from stackproof.build import swap
from stackproof.build.effects import builders, images, locking, stacks
from stackproof.build.effects.loaded import OVERLAY, Loaded
from stackproof.build.effects.workspace import download_path
from stackproof.build.engines.easybuild.chain import chain
from stackproof.build.engines.easybuild.effects import builder
from stackproof.build.engines.spack import swap as spack_swap
from stackproof.build.engines.spack.effects import build as spack_build
from stackproof.build.engines.spack.engine import ENGINE
from stackproof.build.engines.spack.stack import Caches
from stackproof.build.engines.wheel import engine as wheel_engine
from stackproof.build.engines.wheel.stack import Lock
from stackproof.build.options import RecipeOptions
from stackproof.build.stack import Artefact
from stackproof.build.swap import Depth, SwapKind
from stackproof.core import document as documents
from stackproof.core.errors import Reason, StackproofError
from stackproof.recipe.composition import compose

COVERS = (
    "build/engines/wheel/engine.py",
    "build/engines/easybuild/swap.py",
    "build/engines/spack/swap.py",
    "build/engines/spack/mpis.py",
)
RECIPES = Path(__file__).parents[2] / "recipes"


def load(recipe: str, *words: str, **options: object) -> Loaded:
    path = str(RECIPES / f"{recipe}.yaml")
    return stacks.load_recipe(RecipeOptions(recipe=path, swap=words, **options))  # type: ignore[arg-type]


def refused(recipe: str, *words: str, **options: object) -> str:
    with pytest.raises(StackproofError) as caught:
        load(recipe, *words, **options)
    return "\n".join(map(str, caught.value.problems))


# --- words ----------------------------------------------------------------------------------


def test_words() -> None:
    both, bare, number = swap.parse_words(("mpi=mpich@5.0.2", "mpi2=openmpi", "libfabric=2.1"))
    assert (both.name, both.version) == ("mpich", "5.0.2")
    assert (bare.name, bare.version) == ("openmpi", None)
    assert (number.name, number.version) == ("", "2.1")
    (patch,) = swap.parse_words(patch=("hwloc=a=b.patch",))
    assert (patch.kind, patch.value) == (SwapKind.PATCH, "a=b.patch")
    assert swap.slug((both, number, patch)) == "mpich-5.0.2-libfabric-2.1-patch-hwloc"


def test_all_words_of_a_wrong_form_are_told_at_once_and_two_on_one_package() -> None:
    given = ("mpi", "=x", "mpi=", "mpi=@", "hwloc=2.1", "hwloc=2.2")
    with pytest.raises(StackproofError) as caught:
        swap.parse_words(given, source=("mpi",), patch=("hwloc=x.patch",))
    texts = [one.message for one in caught.value.problems]
    assert len(texts) == 6
    assert {one.reason for one in caught.value.problems} == {Reason.USAGE}
    assert texts[-1] == "`--with hwloc=2.1` and `--with hwloc=2.2` are about the same package"


# --- wheels ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("recipe", "word", "depth", "family", "name"),
    [
        ("openmpi", "mpi=mpich", Depth.REBUILD, "mpich", "openmpi-with-mpich"),
        ("openmpi", "mpi=openmpi@5.0.8", Depth.INJECT, "openmpi", "openmpi-with-openmpi-5.0.8"),
        ("openmpi", "mpi=5.0.8", Depth.INJECT, "openmpi", "openmpi-with-mpi-5.0.8"),
        ("openmpi", "mpi=openmpi@6.0.0", Depth.REBUILD, "openmpi", "openmpi-with-openmpi-6.0.0"),
        ("mpich", "mpi=intel-mpi", Depth.INJECT, "intel-mpi", "mpich-with-intel-mpi"),
        ("intel-mpi", "mpi=mpich@4.3.1", Depth.INJECT, "mpich", "intel-mpi-with-mpich-4.3.1"),
    ],
)
def test_the_abi_decides_how_deep_a_swap_of_wheels_goes(
    recipe: str, word: str, depth: Depth, family: str, name: str
) -> None:
    loaded = load(recipe, word)
    stack = loaded.stack
    (found,) = loaded.swaps
    assert (found.depth, found.word) == (depth, f"--with {word}")
    assert found.why
    if depth is Depth.INJECT:
        assert (stack.mpi_family, stack.replacement.family) == (
            load(recipe).stack.mpi_family,
            family,
        )
    else:
        assert (stack.mpi_family, stack.replacement) == (family, None)
    assert stack.name == name
    assert loaded.lock_path.name == f"{recipe}.with-{name.partition('-with-')[2]}.lock.json"
    assert loaded.lock_path != load(recipe).lock_path


def _lock(stack: object) -> Lock:
    """Return a lock that answers a stack, with a made-up file for each requirement."""
    every = [*stack.requirements, *(stack.replacement.requirements if stack.replacement else ())]  # type: ignore[attr-defined]
    artefacts = tuple(
        Artefact(name=one.name, version=one.specifier.strip("=") or "9.9", filename=f"{n}.whl",
                 sha256=f"{n:064}")
        for n, one in enumerate(every)
    )  # fmt: skip
    return Lock(engine="wheel", wants=wheel_engine.wants(stack), artefacts=artefacts)  # type: ignore[arg-type]


def test_an_injection_compiles_with_the_one_mpi_and_runs_with_the_other() -> None:
    loaded = load("intel-mpi", "mpi=mpich@4.3.1")
    plan = wheel_engine.plan(loaded.stack, _lock(loaded.stack), loaded.sources)
    steps = {step.name: step for step in plan.steps}
    assert list(steps) == ["install", "benchmark", "replacement", "metadata", "image"]
    assert [one.name for one in steps["install"].fetch] == ["impi-rt", "impi-devel"]
    assert [one.name for one in steps["replacement"].fetch] == ["mpich"]
    own, other = "/user-tools/intel-mpi-2021.18.1", "/user-tools/mpich-4.3.1"
    assert steps["benchmark"].commands[0].argv[0] == f"{own}/bin/mpicc"
    # What is compiled is what the recipe as it is compiles: nothing is built again.
    plain = load("intel-mpi")
    before = wheel_engine.plan(plain.stack, _lock(plain.stack), plain.sources)
    assert {step.id for step in before.steps[:2]} == {step.id for step in plan.steps[:2]}
    told = json.loads(steps["metadata"].files["meta/env.json"])
    assert (told["mpi"]["family"], told["mpi"]["prefix"]) == ("mpich", other)
    assert told["stackproof"]["benchmarks"]["IMB-MPI1"] == f"{own}/bin/IMB-MPI1"
    lists = told["views"]["default"]["env"]["values"]["list"]
    assert lists["LD_LIBRARY_PATH"] == [{"op": "prepend", "value": [f"{other}/lib"]}]
    assert lists["PATH"] == [
        {"op": "prepend", "value": [f"{other}/bin"]}, {"op": "append", "value": [f"{own}/bin"]},
    ]  # fmt: skip


def test_what_was_swapped_is_in_the_image_and_in_its_id() -> None:
    loaded = load("openmpi", "mpi=mpich@5.0.2")
    overlay = json.loads(loaded.sources.recipe[OVERLAY])
    assert overlay["mpi"] == {"family": "mpich", "version": "5.0.2"}
    assert overlay["description"] == "openmpi with mpi=mpich@5.0.2"
    assert OVERLAY not in load("openmpi").sources.recipe
    plan = wheel_engine.plan(loaded.stack, _lock(loaded.stack), loaded.sources)
    written = next(step for step in plan.steps if step.name == "metadata").files
    assert json.loads(written[f"meta/recipe/{OVERLAY}"]) == overlay
    named = load("mpich").stack
    assert loaded.stack.requirements == named.requirements
    assert wheel_engine.wants(loaded.stack) == wheel_engine.wants(named)  # one lock serves both


@pytest.mark.parametrize(
    ("recipe", "word", "said"),
    [
        ("openmpi", "mpi=mpihc", "did you mean `mpich`?"),
        ("openmpi", "mpj=mpich", "did you mean `mpi`?"),
        ("openmpi", "mpi=openmpi@5.0.11", "has Open MPI 5.0.11 already"),
        ("openmpi", "mpi=cray-mpich", "no wheels of HPE Cray MPICH are published"),
        ("openmpi", "mpi=mpich@x1", "--> --with mpi=mpich@x1"),
        ("openmpi", "libfabric=2.1.0", "the wheel of an MPI brings its own libfabric along"),
        ("intel-mpi", "mpi=openmpi", "IMB-MPI1 does not come with openmpi"),
        ("cray-mpich", "mpi=mpich", "the recipe is of a vendor's RPMs as they are"),
        ("openmpi-lnx", "mpi=mpcih", "did you mean `mpich`?"),
        ("openmpi-lnx", "mpi=openmpi@5.0.7", "has OpenMPI 5.0.7 already"),
        ("openmpi-lnx", "mpi=openmpi@9.9", "OpenMPI 9.9 is not known here"),
        ("openmpi-lnx", "libfabrik=2.1.0", "did you mean `libfabric`?"),
        ("openmpi-lnx", "libfabric=psm", "libfabric has no replacement `psm`"),
        ("openmpi-lnx", "mpich=4.2.1", "there is no package `mpich` to be swapped"),
        ("libfabric", "mpi=mpich", "the recipe has no MPI"),
        ("spack/openmpi", "mpi=mpihc", "did you mean `mpich`?"),
        ("spack/openmpi", "mpi=openmpi@5.0.10", "already"),
        ("spack/openmpi", "a b=c", "no name of a package of Spack"),
    ],
)
def test_words_that_a_recipe_cannot_have(recipe: str, word: str, said: str) -> None:
    text = refused(recipe, word)
    assert said in text
    assert f"--with {word}" in text


def test_the_problems_of_all_words_are_told_at_once() -> None:
    assert refused("openmpi", "mpi=x", "y=z", "libfabric=1").count("--> ") == 3


@pytest.mark.parametrize("option", ["with_source", "with_patch"])
def test_what_engines_cannot_do_to_sources_they_say(option: str, tmp_path: Path) -> None:
    given = {option: (f"openmpi={tmp_path}/x",)}
    assert "wheels are not compiled here" in refused("openmpi", **given)
    assert "the Spack engine builds nothing" in refused("spack/openmpi", **given)
    assert "a vendor's RPMs as they are" in refused("cray-mpich", **given)


def test_a_python_package_is_swapped(tmp_path: Path) -> None:
    recipe = tmp_path / "r.yaml"
    recipe.write_text("name: r\nmpi: {family: mpich}\npackages: [mpi4py==4.1.0, numpy]\n")
    loaded = stacks.load_recipe(RecipeOptions(recipe=str(recipe), swap=("mpi4py=4.0.3",)))
    assert loaded.stack.packages == ("mpi4py==4.0.3", "numpy")


def test_a_folder_has_no_keys_to_lay_words_over(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("name: x\n")
    with pytest.raises(StackproofError, match="this recipe is a folder"):
        stacks.load_recipe(RecipeOptions(recipe=str(tmp_path), swap=("mpi=mpich",)))


def test_a_matrix_keeps_the_names_of_its_choices(tmp_path: Path) -> None:
    recipe = tmp_path / "r.yaml"
    recipe.write_text(
        "name: r\nmpi: {family: mpich, version: '5.0.2'}\n"
        "matrix: {axes: {size: {small: {}, large: {}}}}\n"
    )
    options = RecipeOptions(recipe=str(recipe), swap=("mpi=openmpi",), matrix=True)
    names = [loaded.stack.name for loaded in stacks.load_recipes(options)]
    assert names == ["r-with-openmpi-small", "r-with-openmpi-large"]


def test_plan_shows_depth_and_reason_and_who_set_a_value(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["plan", str(RECIPES / "openmpi-lnx.yaml"), "--with", "mpi=mpich"]
    with pytest.raises(SystemExit) as stopped:
        cli.main([*words, "--explain", "mpi.family"])
    out = capsys.readouterr().out
    assert stopped.value.code == 0
    assert 'mpi.family: "mpich"\n    --with mpi=mpich\n' in out


@pytest.mark.battery
def test_words_change_the_recipe_that_an_image_carries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pack of the image that its recipe makes with another MPI; not where that says too little."""
    need("gcc", "bubblewrap", "mksquashfs", "network")
    monkeypatch.chdir(tmp_path)
    Path("own.yaml").write_text("name: own\nmpi: {family: openmpi}\nbenchmarks: []\n")
    stackproof("build", "own.yaml", cwd=tmp_path)
    stackproof("pack", "own.squashfs", "--with", "mpi=mpich", "-o", "swapped", cwd=tmp_path)
    assert (tmp_path / "swapped" / "bin" / "mpichversion").exists()
    assert {path.name for path in tmp_path.iterdir()} == {
        "own.yaml", "own.lock.json", "own.squashfs", "own.squashfs.sha256", "swapped",
        "swapped.provenance.json",
    }  # fmt: skip
    Path("heir.yaml").write_text("inherit: own.yaml\nname: heir\n")
    stackproof("build", "heir.yaml", cwd=tmp_path)
    words = ("pack", "heir.squashfs", "--with", "mpi=mpich", "-o", "other")
    done = inprocess.stackproof(*words, cwd=tmp_path)
    assert done.returncode == 3
    assert "its `inherit` names files that the image does not hold" in done.stderr
    assert not (tmp_path / "other").exists()


# --- from source ----------------------------------------------------------------------------


def _chain_of(loaded: Loaded) -> dict[str, str]:
    found = chain(loaded.stack.request, builder.load())
    return {one.component: one.text for one in found.easyconfigs}


def test_a_chain_with_another_mpi_and_another_libfabric() -> None:
    loaded = load("openmpi-lnx", "mpi=mpich")
    assert loaded.swaps[0].depth is Depth.REBUILD
    assert loaded.stack.request.mpi == ("mpich", "4.2.1")
    assert list(_chain_of(loaded)) == ["libfabric", "hwloc", "mpich"]
    other = load("openmpi-lnx", "mpi=openmpi@5.0.5")
    assert "both have one ABI" in other.swaps[0].why
    plain, same = load("openmpi-lnx"), load("openmpi-lnx", "hwloc=2.12.0")
    assert same.stack.request.versions == {"hwloc": "2.12.0"}
    assert builders.of(plain).engine.stale(plain.stack, _shipped(plain)) == ""


def _shipped(loaded: Loaded) -> object:
    recipe = RecipeOptions(recipe="openmpi-lnx")
    return locking.need(builders.of(loaded), loaded, recipe)


def test_a_patch_and_a_source_of_ones_own_are_known_by_their_digests(tmp_path: Path) -> None:
    patch, source = tmp_path / "fix.patch", tmp_path / "hwloc-own.tar.gz"
    patch.write_text("--- a/x\n+++ b/x\n")
    source.write_bytes(b"not looked into before it is built")
    sums = {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in (patch, source)}
    loaded = load(
        "openmpi-lnx",
        with_patch=(f"mpi={patch}", f"libfabric={patch}"),
        with_source=(f"libfabric={source}",),
    )
    texts = _chain_of(loaded)
    assert "patches = ['fix.patch']" in texts["openmpi"]
    assert sums[patch] in texts["openmpi"]
    assert "sources = ['hwloc-own.tar.gz']" in texts["libfabric"]
    assert re.search(
        rf"checksums = \[\s*'{sums[source]}',\s*'{sums[patch]}',?\s*\]", texts["libfabric"]
    )
    for path, digest in sums.items():
        assert download_path(digest, path.name).read_bytes() == path.read_bytes()
    overlay = json.loads(loaded.overlay)
    assert overlay["patches"]["openmpi"] == [{"filename": "fix.patch", "sha256": sums[patch]}]
    assert os.fspath(tmp_path) not in loaded.overlay
    assert loaded.stack.name == "openmpi-lnx-with-source-libfabric-patch-mpi-patch-libfabric"


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        ("with_patch", "mpi=none.patch", "there is no file `none.patch`"),
        ("with_patch", "mpi=fix.diff", "must end with `.patch`"),
        ("with_patch", "mpi=https://example.org/x.patch", "a patch is a file here"),
        ("with_patch", "hwlock=x.patch", "did you mean `hwloc`?"),
        ("with_source", "mpi=a b.tar", "cannot be the name of the file"),
        ("with_source", "mpi=http://127.0.0.1:1/x.tar.gz", "cannot be downloaded"),
    ],
)
def test_files_that_cannot_be_had(kind: str, value: str, said: str) -> None:
    assert said in refused("openmpi-lnx", **{kind: (value,)})


# --- Spack ----------------------------------------------------------------------------------

SPACK = """\
name: s
engine: spack
spack: {repo: https://example.org/s.git, commit: v1.1.0}
compilers: {gcc: {version: "12"}}
environments:
  one:
    compiler: [gcc]
    network:
      mpi: openmpi@5.0.10 +internal-pmix
      specs: [libfabric@2.5.1 fabrics=tcp]
    specs: [osu-micro-benchmarks, hdf5@1.14 +mpi]
"""


def spack(text: str, *words: str) -> dict[str, object]:
    """Return the keys of a recipe with words laid over it."""
    document = documents.parse(text, file="s.yaml")
    overlay, _ = swap.apply(document, swap.parse_words(words), spack_swap.swap)
    data: dict[str, object] = compose((document, overlay), {}, {}).document.data
    return data


@pytest.mark.parametrize(
    ("word", "path", "value"),
    [
        ("mpi=mpich@4.3.2", ("environments", "one", "network", "mpi"), "mpich@4.3.2"),
        ("mpi=mpich", ("environments", "one", "network", "mpi"), "mpich"),
        ("mpi=5.0.9", ("splice", "one"), "openmpi@5.0.9 +internal-pmix"),
        (
            "mpi=openmpi@6.0.0",
            ("environments", "one", "network", "mpi"),
            "openmpi@6.0.0 +internal-pmix",
        ),
        (
            "libfabric=2.4",
            ("environments", "one", "network", "specs"),
            ["libfabric@2.4 fabrics=tcp"],
        ),
        (
            "hdf5=hdf5@1.12",
            ("environments", "one", "specs"),
            ["osu-micro-benchmarks", "hdf5@1.12 +mpi"],
        ),
        ("hwloc=2.9", ("packages", "hwloc", "require"), ["hwloc@2.9"]),
        ("blas=openblas", ("packages", "blas", "require"), ["openblas"]),
    ],
)
def test_words_for_spack(word: str, path: tuple[str, ...], value: object) -> None:
    data: object = spack(SPACK, word)
    for key in path:
        data = data[key]  # type: ignore[index]
    assert data == value


def depth_of(text: str, word: str) -> tuple[Depth, str]:
    document = documents.parse(text, file="s.yaml")
    _, (found,) = swap.apply(document, swap.parse_words((word,)), spack_swap.swap)
    return found.depth, found.why


SPACK_MPICH = SPACK.replace("openmpi@5.0.10 +internal-pmix", "mpich@4.3.2 netmod=ofi")


@pytest.mark.parametrize(
    ("text", "word", "depth", "said"),
    [
        (SPACK_MPICH, "mpi=mpich@5.0.2", Depth.SPLICE, "mpich compiled with mpich@5.0.2"),
        (SPACK_MPICH, "mpi=intel-mpi", Depth.SPLICE, "with intel-oneapi-mpi"),
        (SPACK_MPICH, "mpi=cray-mpich@8.1", Depth.SPLICE, "both have one ABI"),
        (SPACK_MPICH, "mpi=mvapich@4.0", Depth.SPLICE, "with mvapich@4.0"),
        (SPACK_MPICH, "mpi=mvapich2@1.9", Depth.REBUILD, "the ABI of mvapich2@1.9 is not known"),
        (SPACK_MPICH, "mpi=mpich@3.0.4", Depth.REBUILD, "the ABI of mpich@3.0.4 is not known"),
        (SPACK_MPICH, "mpi=openmpi", Depth.REBUILD, "mpich@4.3.2 and openmpi have different ABIs"),
        (SPACK, "mpi=5.0.9", Depth.SPLICE, "openmpi compiled with openmpi@5.0.9"),
        (SPACK, "mpi=openmpi@6.0.0", Depth.REBUILD, "have different ABIs"),
        (SPACK_MPICH.replace("v1.1.0", "0123abc"), "mpi=mpich@5.0.2", Depth.SPLICE, "one ABI"),
        (SPACK, "hdf5=1.12", Depth.REBUILD, "Spack builds hdf5"),
    ],
)
def test_spack_splices_within_one_abi(text: str, word: str, depth: Depth, said: str) -> None:
    found, why = depth_of(text, word)
    assert found is depth
    assert said in why


@pytest.mark.parametrize(
    ("commit", "depth", "said"),
    [
        ("v0.23.1", Depth.SPLICE, "one ABI"),
        ("releases/v0.23", Depth.SPLICE, "one ABI"),
        ("v0.22.5", Depth.REBUILD, "Spack splices since 0.23, and the recipe is for `v0.22.5`"),
        ("0123abc", Depth.REBUILD, "for a Spack whose release is not named"),
    ],
)
def test_an_old_spack_does_not_splice(commit: str, depth: Depth, said: str) -> None:
    text = (
        f"name: s\nengine: spack\ngeneration: 1\nspack: {{repo: x, commit: {commit}}}\n"
        "environments: {one: {mpi: {spec: mpich@4.1}}}\n"
    )
    found, why = depth_of(text, "mpi=mpich@4.3.2")
    assert found is depth
    assert said in why


def test_a_splice_is_compiled_with_the_one_mpi_and_linked_with_the_other() -> None:
    loaded = load("spack/mpich", "mpi=mpich@5.0.2", site="lumi-g")
    (one,) = loaded.stack.environments
    (plain,) = load("spack/mpich", site="lumi-g").stack.environments
    assert loaded.swaps[0].depth is Depth.SPLICE
    assert one.splice is not None
    # What the recipe says of the MPI beside its spec holds for both, and so does its libfabric.
    assert one.splice.built_with == (plain.specs[-2], "mpich +rocm")
    assert one.splice.specs[0] == plain.specs[-2].replace("@4.3.2", "@5.0.2")
    assert one.splice.specs[1:] == ("mpich +rocm", plain.specs[-1])
    assert {*one.specs, *one.splice.built_with} == {*plain.specs}
    assert ("splice", f"{one.splice.built_with[0]} -> {one.splice.specs[0]}") in [
        *ENGINE.rows(loaded.stack, None)
    ]


@pytest.mark.parametrize(
    ("splice", "reason", "said"),
    [
        ("{one: openmpi@5}", Reason.UNSUPPORTED, "mpich@4.3.2 and openmpi@5 have different ABIs"),
        ("{two: mpich@5.0.2}", Reason.INVALID_VALUE, "there is no environment `two`"),
        ("{bare: mpich@5.0.2}", Reason.INVALID_VALUE, "`bare` has no MPI to be spliced"),
        ("{one: mpihc@5}", Reason.INVALID_VALUE, "is no MPI that"),
        ("{one: cray-mpich}", Reason.SITE_INCOMPLETE, "does not state where it has `cray-mpich`"),
        ("{one: ''}", Reason.INVALID_VALUE, ""),
    ],
)
def test_a_splice_that_cannot_be(splice: str, reason: Reason, said: str, tmp_path: Path) -> None:
    bare = "  bare: {compiler: [gcc], specs: [zlib]}\n"
    text = SPACK_MPICH.replace("engine: spack\n", "engine: spack\ngeneration: 3\n")
    text = text.replace('gcc: {version: "12"}', "gcc: {version: system}")
    text = text.replace(
        "v1.1.0}", "v1.1.0, packages: {repo: https://example.org/p.git, commit: v1}}"
    )
    recipe = tmp_path / "r.yaml"
    recipe.write_text(f"{text}{bare}splice: {splice}\n")
    with pytest.raises(StackproofError) as caught:
        stacks.load_recipe(RecipeOptions(recipe=str(recipe)))
    assert {one.reason for one in caught.value.problems} == {reason}
    assert said in "\n".join(one.message for one in caught.value.problems)
    assert all(one.where and one.where.line == 14 for one in caught.value.problems)


def test_a_splice_needs_patchelf(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Told before hours of building: Spack says it when all is built."""
    request = spack_build.Request(
        stack=spliced(), blobs={}, caches=Caches(), origin="", place=spack_build.BuildPlace()
    )
    monkeypatch.setenv("PATH", os.fspath(tmp_path))
    with pytest.raises(StackproofError, match="Spack splices by patchelf") as caught:
        spack_build.make_lock(request, lambda _: None)
    assert caught.value.reason is Reason.TOOL_MISSING


def test_specs_on_the_mpi_that_goes_are_told() -> None:
    text = SPACK.replace("hdf5@1.14 +mpi", "openmpi +cuda, hdf5 ^openmpi@5")
    with pytest.raises(StackproofError) as caught:
        spack(text, "mpi=mpich")
    assert [one.where.line for one in caught.value.problems if one.where] == [11, 11]
    assert "`openmpi +cuda` is about the MPI" in caught.value.problems[0].message


# --- once it is built -----------------------------------------------------------------------


def test_an_injected_image_whose_program_lacks_a_call_is_refused(tmp_path: Path) -> None:
    """The ABI is the same, and what the program calls is not there: files tell, no name does."""
    need("gcc", "mksquashfs")
    for kept in (True, False):
        name = "has" if kept else "lacks"
        tree = tmp_path / name
        for folder in ("mpich-5/lib", "benchmarks", "meta"):
            (tree / folder).mkdir(parents=True)
        calls = ["MPI_Init", "MPI_Finalize", "MPI_Comm_size", *(["MPI_Wtime"] if kept else [])]
        library = tree / "mpich-5/lib/libmpi.so.12"
        compile_library(library, calls)
        compile_program(tree / "benchmarks/bench", [*calls, "MPI_Wtime"], tmp_path)
        told = env_json(
            mpi={"family": "mpich", "version": "5.0.2", "prefix": f"{MOUNT}/mpich-5",
                 "launcher": "hydra"},
            stackproof={"benchmarks": {"bench": f"{MOUNT}/benchmarks/bench"}},
        )  # fmt: skip
        (tree / "meta/env.json").write_text(json.dumps(told))
        image = tmp_path / f"{name}.squashfs"
        argv = ("mksquashfs", tree, image, "-quiet", "-no-progress")
        subprocess.run(argv, check=True, capture_output=True)
        if kept:
            images.check_injected(str(image))
            continue
        with pytest.raises(StackproofError, match="MPI_Wtime") as caught:
            images.check_injected(str(image))
        assert caught.value.reason is Reason.INJECTION_FAILS


def compile_library(path: Path, calls: list[str]) -> None:
    source = path.with_suffix(".c")
    source.write_text("".join(f"int {name}(void) {{ return 0; }}\n" for name in sorted(set(calls))))
    argv = ("gcc", "-shared", "-fPIC", "-Wl,-soname,libmpi.so.12", "-o", path, source)
    subprocess.run(argv, check=True)
    source.unlink()


def compile_program(path: Path, calls: list[str], folder: Path) -> None:
    """Link against a whole library, which is not the one that it will find."""
    whole = folder / "libmpi.so.12"
    compile_library(whole, calls)
    source = folder / "bench.c"
    names = sorted(set(calls))
    said = "".join(f"int {name}(void);\n" for name in names)
    source.write_text(f"{said}int main(void) {{ return {' + '.join(f'{n}()' for n in names)}; }}\n")
    subprocess.run(("gcc", "-o", path, source, whole), check=True)
    whole.unlink()
