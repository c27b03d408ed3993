"""What Guix is told, what of its answers is understood, and which recipes, words and packs are refused."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import guixpacks
from guixpacks import COMMIT, RECIPE, STORE, name_of
from stackproof.build.effects import builders, stacks
from stackproof.build.engines.guix import engine as guix_engine
from stackproof.build.engines.guix import locking, scheme
from stackproof.build.engines.guix.engine import ENGINE, parse_guix_recipe, render_bom
from stackproof.build.engines.guix.stack import GuixLock, GuixStack, StoreItem
from stackproof.build.options import RecipeOptions
from stackproof.build.swap import Depth, parse_words
from stackproof.core import document
from stackproof.core.errors import Reason, StackproofError
from stackproof.core.value import replace

GOLDEN = Path(__file__).parents[1] / "golden" / "guix"
FACTS = {"architecture": "x86_64"}
BLOG = RECIPE.replace("{family: mpich}", "{family: mpich, package: mpich-ofi}").replace(
    "[hello-mpi]", '[intel-mpi-benchmarks, "osu-micro-benchmarks@7.4:out"]'
).replace("openmpi: mpich", "openmpi: mpich-ofi") + (
    "  guix-hpc: {url: https://gitlab.inria.fr/guix-hpc/guix-hpc.git, branch: master, commit: "
    f"{'ab' * 20}}}\n"
)


def stack(text: str = RECIPE, **facts: str) -> GuixStack:
    return parse_guix_recipe(document.parse(text, file="r.yaml"), {**FACTS, **facts})


def refused(text: str, **facts: str) -> str:
    with pytest.raises(StackproofError) as caught:
        stack(text, **facts)
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "text"),
    [("blog", BLOG), ("plain", RECIPE.replace("with-input: {openmpi: mpich}\n", ""))],
)
def test_manifest_and_channels(name: str, text: str) -> None:
    """Both were read by Guile 3.0.8, with the procedures of Guix that they call defined to tell."""
    found = "".join(f";; {file}\n{said}" for file, said in scheme.render_files(stack(text)).items())
    file = GOLDEN / f"{name}.txt"
    if os.environ.get("STACKPROOF_WRITE_GOLDEN"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(found)
    assert found == file.read_text()


def test_the_call_of_guix() -> None:
    assert " ".join(scheme.pack_argv(stack(architecture="aarch64"), "guix", "x/")) == (
        "guix time-machine --channels=x/channels.scm -- pack --format=tarball "
        "--system=aarch64-linux --save-provenance --manifest=x/manifest.scm"
    )


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ('a"(system* "id")"', r'"a\"(system* \"id\")\""'),
        ("a\\", r'"a\\"'),
        ('\\"', r'"\\\""'),
        ("a\nb\0", r'"a\U00000ab\U000000"'),
    ],
)
def test_strings_stay_strings(text: str, written: str) -> None:
    assert scheme.quote_text(text) == written


@pytest.mark.parametrize("name", ["", "a b", "a)", "guix\n", "'a", "#t", "A", "-a"])
def test_only_symbols_are_symbols(name: str) -> None:
    with pytest.raises(StackproofError, match="is no name of a channel"):
        scheme.quote_symbol(name)


HOSTILE = (
    'x)(system* "id")',
    "../x",
    "/bin/sh",
    "a b",
    "a;b",
    "#~x",
    "-e",
    "--expression=x",
    "",
    'a"',
)


@pytest.mark.parametrize("word", HOSTILE)
@pytest.mark.parametrize(
    "place",
    ["packages: [hello-mpi]", "with-input: {openmpi: mpich}", "{family: mpich}", "  guix:\n", 'fingerprint: "' + guixpacks.KEY + '"'],
)  # fmt: skip
def test_hostile_words_are_no_names(word: str, place: str) -> None:
    said = "'" + word + "'"
    other = {
        "packages: [hello-mpi]": f"packages: [{said}]",
        "with-input: {openmpi: mpich}": f"with-input: {{{said}: {said}}}",
        "{family: mpich}": f"{{family: mpich, package: {said}}}",
        "  guix:\n": f"  {said}: {{url: 'https://x', commit: {COMMIT}}}\n  guix:\n",
    }.get(place, f"fingerprint: {said}")
    text = RECIPE.replace(place, other)
    assert text != RECIPE
    assert "r.yaml" in refused(text)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (f"commit: {COMMIT}", "commit: master", "commit"),
        (f"    commit: {COMMIT}\n", "", "`commit`"),
        ("https://git.guix", "javascript:git.guix", "url"),
        ("  guix:", "  mine:", "guix"),
        ("{family: mpich}", "{family: intel-mpi}", "openmpi"),
        ("name: small", "name: small\nmount: /usr", "mount"),
        ("name: small", "name: small\ndefault-view: x", "`default-view` names the view `x`"),
    ],
)
def test_what_a_recipe_cannot_say(old: str, new: str, said: str) -> None:
    assert said in refused(RECIPE.replace(old, new))


def test_a_machine_that_guix_builds_nothing_for() -> None:
    assert "Guix builds nothing for s390x" in refused(RECIPE, architecture="s390x")


PROFILE = (
    '(manifest (version 4) ; a comment\n (packages (("hello-mpi" "1.0" "out" "/gnu/store/a" '
    '(propagated-inputs (("x" "2" "lib" "/gnu/store/b"))) (properties (provenance '
    '(channel (name guix) (commit "c0") (introduction (commit "no")))))))))'
)


def test_the_manifest_of_a_profile() -> None:
    found = scheme.profile_of(PROFILE)
    assert [(one.name, one.version, one.output, one.item) for one in found.entries] == [
        ("hello-mpi", "1.0", "out", "/gnu/store/a"),
        ("x", "2", "lib", "/gnu/store/b"),
    ]
    assert found.commits == {"c0"}
    assert scheme.profile_of("").entries == ()
    assert scheme.profile_of(r'("a\"b" "1" "out" "/x")').entries[0].name == r"a\"b"


@pytest.mark.parametrize(
    "text", ["(", ")", "(a))", '"', "(" * 100_000, "(" * 80 + ")" * 80, '("a" . "\\']
)
def test_what_is_no_expression(text: str) -> None:
    with pytest.raises(StackproofError) as caught:
        scheme.profile_of(text)
    assert caught.value.reason is Reason.IMAGE_UNREADABLE


def item(name: str, *needs: str) -> StoreItem:
    plain, _, version = name.partition("-1")
    return StoreItem(filename=name_of(name), name=plain, version=f"1{version}" if version else "",
                     sha256="ab" * 32, needs=tuple(map(name_of, needs)))  # fmt: skip


ITEMS = (
    item("hello-mpi-1.0", "mpich-1.2"),
    item("mpich-1.2"),
    item("mpich-1.2R", "mpich-1.2"),
    item("profile", "hello-mpi-1.0"),
)
PACK = StoreItem(filename="pack.tar.gz", name="small", version="0", sha256="cd" * 32)
ENTRY = f'("hello-mpi" "1.0" "out" "{STORE}/{name_of("hello-mpi-1.0")}")'


def locked(
    made: GuixStack, items: tuple[StoreItem, ...] = ITEMS, text: str = ENTRY, **names: Any
) -> GuixLock:
    inside = {f"{one.filename}/lib": ["libmpi.so.12"] for one in items if one.name == "mpich"}
    return locking.make_lock(
        made,
        PACK,
        items,
        scheme.profile_of(text),
        lambda folder: {**inside, **names}.get(folder, ()),
    )


def test_the_lock_of_a_pack() -> None:
    lock = locked(stack())
    assert (lock.mpi, lock.profile) == (name_of("mpich-1.2"), name_of("profile"))
    assert ENGINE.stale(stack(), lock) == ""
    for other in (
        stack(RECIPE.replace(COMMIT, "a" * 40)),
        stack(RECIPE.replace("openmpi: mpich", "openmpi: mpich-ofi")),
        stack(architecture="aarch64"),
    ):
        assert ENGINE.stale(other, lock)
    assert "each at its commit" in ENGINE.stale(stack(), replace(lock, channels=()))
    for odd in (
        {"mpi": "../../etc"}, {"profile": "x"}, {"items": ()},
        {"pack": replace(PACK, sha256="../../x")},
        {"items": (*ITEMS, replace(ITEMS[0], filename="../x"))},
        {"items": (ITEMS[0], replace(ITEMS[1], needs=(ITEMS[0].filename,)), *ITEMS[2:])},
    ):  # fmt: skip
        assert ENGINE.stale(stack(), replace(lock, **odd)) == "its items do not belong together"
    assert f'"ref": "guix:{name_of("profile")}"' in render_bom(stack(), lock)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"text": "()"}, "the pack has no `hello-mpi` in its profile"),
        ({"text": ENTRY.replace("1.0", "2.0", 1), "recipe": "[hello-mpi@1]"}, "no `hello-mpi@1`"),
        ({"text": f'{ENTRY} ("a" "1" "out" "{STORE}/a")'}, f"no `{STORE}/a`, which its profile"),
        ({"text": f'{ENTRY} (repository (commit "feed"))'}, "at commit feed, which no channel"),
        ({"items": ITEMS[:1] + ITEMS[3:]}, "not one `mpich` with libmpi.so, but none"),
        ({"items": (*ITEMS, item("mpich-1.3"))}, "`mpi: {family: …, package: …, version: …}`"),
        ({"items": ITEMS[:3]}, "the pack has no profile"),
        ({"items": (*ITEMS, replace(ITEMS[3], filename=name_of("x")))}, "the pack has 2 profiles"),
        (
            {"items": (ITEMS[0], replace(ITEMS[1], needs=(ITEMS[0].filename,)), *ITEMS[2:])},
            "need each other",
        ),
        ({"recipe": "[hello-mpi]\nbenchmarks: [IMB-MPI1]"}, "no program `IMB-MPI1`"),
    ],
)
def test_packs_that_do_not_answer(change: dict[str, Any], said: str) -> None:
    made = stack(RECIPE.replace("[hello-mpi]", change.pop("recipe", "[hello-mpi]")))
    with pytest.raises(StackproofError) as caught:
        locked(made, **change)
    assert said in str(caught.value)


def test_a_version_chooses_among_mpis() -> None:
    made = stack(RECIPE.replace("{family: mpich}", '{family: mpich, version: "1.3"}'))
    assert locked(made, (*ITEMS, item("mpich-1.3"))).mpi == name_of("mpich-1.3")


def swapped(
    tmp_path: Path, *words: str, recipe: str = RECIPE, patch: tuple[str, ...] = ()
) -> GuixStack:
    (tmp_path / "r.yaml").write_text(recipe)
    options = RecipeOptions(recipe=str(tmp_path / "r.yaml"), swap=words, with_patch=patch)
    found: GuixStack = stacks.load_recipe(options).stack
    return found


def test_a_swap_is_an_input_in_the_place_of_another(tmp_path: Path) -> None:
    plain = RECIPE.replace("with-input: {openmpi: mpich}\n", "").replace("mpich", "openmpi")
    made = swapped(tmp_path, "mpi=mpich-ofi@4.2", recipe=plain)
    assert (made.mpi_family, made.mpi_package, made.mpi_version) == ("mpich", "mpich-ofi", "4.2")
    assert made.with_input == {"openmpi": "mpich-ofi@4.2"}
    again = swapped(tmp_path, "mpi=mpich-ofi", "libfabric=1.22.0")
    assert again.with_input == {"openmpi": "mpich-ofi", "libfabric": "libfabric@1.22.0"}
    (word,) = parse_words(["mpi=mpich-ofi"])
    assert guix_engine.swap(document.parse(RECIPE, file="r"), word).depth is Depth.REBUILD


@pytest.mark.parametrize(
    ("words", "patch", "said"),
    [
        (("mpi=gromacs",), (), "`gromacs` is the package of no MPI"),
        (('mpi=mpich"(x)',), (), "is no name of a package of Guix"),
        (("a b=c",), (), "is no name of a package of Guix"),
        ((), ("a=b.patch",), "Guix builds from what its channels define"),
    ],
)
def test_swaps_that_cannot_be(
    words: tuple[str, ...], patch: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    with pytest.raises(StackproofError) as caught:
        swapped(tmp_path, *words, patch=patch)
    assert said in str(caught.value)


def test_a_channel_without_introduction_is_noted() -> None:
    found = builders.find("guix").engine.problems(stack(BLOG), None, lambda *_: None)
    assert [note.message for note in found.notes] == [
        "Guix takes the commit of `guix-hpc` unsigned: it has no introduction"
    ]
