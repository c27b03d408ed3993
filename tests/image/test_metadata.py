"""What an image says of itself: our own text, the uenv contract with its traps, hostile text."""

from __future__ import annotations

import json
import shutil
import string
import subprocess
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from images import ENV_JSON, env_json
from refusing import refused
from stackproof.core.command import EnvPatch
from stackproof.core.errors import Reason, StackproofError
from stackproof.image import metadata
from stackproof.image.model import BenchmarkProgram, Image, MpiFacts, View


def _parse(data: Any) -> Image:
    text = data if isinstance(data, str | bytes) else json.dumps(data)
    return metadata.parse_env_json(text, path="a.squashfs", size=7)


def _env(lists: Any = None, scalars: Any = None) -> EnvPatch:
    values = {"list": lists or {}, "scalar": scalars or {}}
    view = {"root": "/x/env/v", "env": {"version": 1, "values": values}}
    return _parse({"mount": "/x", "views": {"v": view}}).views["v"].env


def test_reads_the_whole_contract() -> None:
    image = _parse(ENV_JSON)
    assert image == Image(
        path="a.squashfs",
        name="tiny",
        mount="/user-environment",
        size=7,
        description="an image for tests",
        default_view="default",
        views={
            "default": View(
                name="default",
                root="/user-environment/env/default",
                description="the usual",
                env=EnvPatch(set={"MPI_TINY": "yes"}, prepend={"PATH": ("/user-environment/bin",)}),
            ),
            "bare": View(name="bare", root="/user-environment/env/bare"),
        },
        mpi=MpiFacts(
            family="mpich",
            version="5.0.2",
            prefix="/user-environment/mpich",
            launcher="hydra",
        ),
        benchmarks=(
            BenchmarkProgram(
                name="stackproof-bench", path="/user-environment/benchmarks/stackproof-bench"
            ),
        ),
        stack_id="0" * 64,
        lock_digest="1" * 64,
    )


def test_needs_nothing_but_a_mount_point() -> None:
    image = _parse({"mount": "/user-tools", "views": None, "description": None, "name": None})
    assert (image.name, image.mount, image.description) == ("unnamed", "/user-tools", "")
    assert (image.views, image.default_view, image.mpi) == ({}, None, None)


def test_passes_over_unknown_keys() -> None:
    assert _parse(env_json(modules={"root": "/m"}, x=[1])) == _parse(ENV_JSON)


_PATCHES = [
    # operations on a list variable that was `old`, and what it is afterwards
    ([{"op": "prepend", "value": ["a", "b"]}], "a:b:old"),
    ([{"op": "prepend", "value": ["a"]}, {"op": "prepend", "value": ["b"]}], "b:a:old"),
    ([{"op": "append", "value": ["a"]}, {"op": "append", "value": ["b"]}], "old:a:b"),
    ([{"op": "set", "value": ["a", "b"]}], "a:b"),
    ([{"op": "prepend", "value": ["x"]}, {"op": "set", "value": ["a"]}], "a"),
    ([{"op": "set", "value": ["a"]}, {"op": "prepend", "value": ["b"]}], "b:a"),
    ([{"op": "set", "value": ["a"]}, {"op": "append", "value": ["b", "a"]}], "a:b"),
    ([{"op": "unset", "value": []}], None),
    ([{"op": "no such word", "value": ["x"]}], None),
    ([{"op": "prepend", "value": ["a"]}, {"op": "unset", "value": []}], None),
    ([{"op": "unset", "value": []}, {"op": "append", "value": ["a"]}], "a"),
    ([{"op": "append", "value": ["old", "", "a"]}], "old:a"),
    ([{"op": "set", "value": []}], None),  # the trap: uenv leaves an empty variable
    ([{"op": "set", "value": [""]}], None),
    ([], "old"),
]


@pytest.mark.parametrize(("operations", "after"), _PATCHES)
def test_list_operations_as_the_uenv_tools_do_them(operations: Any, after: str | None) -> None:
    patch = _env({"V": operations})
    assert patch.apply({"V": "old", "W": "w"}).get("V") == after
    assert patch.apply({"V": "old", "W": "w"})["W"] == "w"


def test_scalars_set_and_unset() -> None:
    patch = _env(None, {"A": "1", "B": None, "C": ""})
    assert patch.apply({"A": "0", "B": "0", "C": "0"}) == {"A": "1", "C": ""}


def test_the_scalar_counts_where_a_name_is_both() -> None:
    patch = _env({"A": [{"op": "prepend", "value": ["x"]}]}, {"A": "1"})
    assert patch.apply({"A": "0"}) == {"A": "1"}


_BROKEN = [
    "",
    "{",
    "[]",
    "null",
    "7",
    b"\xff\xfe{}",
    "[" * 100_000,
    '{"mount": ' + "9" * 5000 + "}",
    {},
    {"mount": None},
    {"mount": ""},
    {"mount": 7},
    {"mount": "/x\0y"},
    '{"mount": "/\\ud800"}',
    {"mount": "/x", "name": 7},
    {"mount": "/x", "views": []},
    {"mount": "/x", "views": {"v": 7}},
    {"mount": "/x", "views": {"v": {"env": 7}}},
    {"mount": "/x", "views": {"v": {"env": {"values": 7}}}},
    {"mount": "/x", "views": {"v": {"env": {"values": {"list": 7}}}}},
    {"mount": "/x", "views": {"v": {"env": {"values": {"list": {"A": 7}}}}}},
    {"mount": "/x", "views": {"v": {"env": {"values": {"list": {"A": [7]}}}}}},
    {"mount": "/x", "views": {"v": {"env": {"values": {"list": {"A": [{"op": "set"}]}}}}}},
    {"mount": "/x", "views": {"v": {"env": {"values": {"list": {"A": [{"value": [7]}]}}}}}},
    {"mount": "/x", "views": {"v": {"env": {"values": {"scalar": {"A": 7}}}}}},
    {"mount": "/x", "views": {"v": {"env": {"values": {"scalar": {"A=B": "x"}}}}}},
    {"mount": "/x", "views": {"v": {"env": {"values": {"scalar": {"": "x"}}}}}},
    {"mount": "/x", "views": {"v": {"env": {"values": {"scalar": {"A": "x\0"}}}}}},
    {"mount": "/x", "default-view": 7},
    {"mount": "/x", "mpi": 7},
    {"mount": "/x", "mpi": {"family": "mpich"}},
    {"mount": "/x", "stackproof": 7},
    {"mount": "/x", "stackproof": {"benchmarks": ["a"]}},
]


@pytest.mark.parametrize("data", _BROKEN, ids=lambda data: repr(data)[:50])
def test_what_is_not_metadata_is_an_error_that_names_the_image(data: Any) -> None:
    with refused(Reason.IMAGE_NO_META) as caught:
        _parse(data)
    assert "a.squashfs" in str(caught.value)


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


def _outcome(text: str | bytes) -> Image | Reason:
    try:
        return metadata.parse_env_json(text, path="a", size=0)
    except StackproofError as error:
        return error.reason


@given(st.text() | st.binary())
def test_any_bytes_give_an_image_or_an_error_of_ours(text: str | bytes) -> None:
    assert isinstance(outcome := _outcome(text), Image) or outcome is Reason.IMAGE_NO_META


@given(
    st.fixed_dictionaries(
        {"mount": st.just("/x")},
        optional=dict.fromkeys(
            ("name", "description", "views", "default-view", "mpi", "stackproof"), _json
        ),
    ),
    st.fixed_dictionaries({}, optional={"list": _json, "scalar": _json}),
)
def test_any_json_gives_an_image_or_an_error_of_ours(data: dict, values: dict) -> None:
    for text in (data, {**data, "views": {"v": {"env": {"values": values}}}}):
        outcome = _outcome(json.dumps(text))
        if isinstance(outcome, Image):
            for view in outcome.views.values():
                view.env.apply({})
        else:
            assert outcome is Reason.IMAGE_NO_META


# --------------------------------------------------------------------------------------- writing

_names = st.text(string.ascii_uppercase, min_size=1, max_size=2)
_entries = st.lists(st.text("ab/$'\" é", min_size=1), min_size=1, max_size=3).map(tuple)
_patches = st.builds(
    EnvPatch,
    set=st.dictionaries(_names, st.text("ab:$'\" é\n")),
    unset=st.lists(_names, unique=True).map(tuple),
    prepend=st.dictionaries(_names, _entries),
    append=st.dictionaries(_names, _entries),
)
_environments = st.dictionaries(_names, st.text("ab:"))


def _image(patch: EnvPatch) -> Image:
    view = View(name="v", root="/m/env/v", description="d", env=patch)
    return Image(path="a", name="n", mount="/m", size=7, default_view="v", views={"v": view})


@given(_patches, _environments)
def test_a_written_environment_is_read_back_with_the_same_meaning(
    patch: EnvPatch, environment: dict[str, str]
) -> None:
    text = metadata.render_env_json(_image(patch))
    image = metadata.parse_env_json(text, path="a", size=7)
    assert image.views["v"].env.apply(environment) == patch.apply(environment)
    assert metadata.render_env_json(image) == text


def test_writes_the_contract() -> None:
    data = json.loads(metadata.render_env_json(_parse(ENV_JSON)))
    assert data["views"]["default"] == ENV_JSON["views"]["default"]
    assert {key: data[key] for key in data if key != "views"} == {
        key: ENV_JSON[key] for key in ENV_JSON if key != "views"
    }


@pytest.mark.parametrize(("said", "may"), [(None, True), ("yes", True), ("no", False), (0, False)])
def test_only_a_plain_yes_or_nothing_lets_an_image_be_handed_on(said: Any, may: bool) -> None:
    ours = {} if said is None else {"redistribute": said}
    image = _parse({"mount": "/x", "stackproof": ours})
    assert image.redistribute is may
    assert _parse(metadata.render_env_json(image)).redistribute is may


def test_the_files_of_a_view_hold_its_environment_alone() -> None:
    view = _parse(ENV_JSON).views["default"]
    found = json.loads(metadata.render_view_env_json(view))
    assert found == ENV_JSON["views"]["default"]["env"]


def _plain(environment: dict[str, str]) -> dict[str, str]:
    """Without repeated entries, which a shell does not remove, and what the shell adds itself."""
    return {
        name: ":".join(dict.fromkeys(filter(None, value.split(":"))))
        for name, value in environment.items()
        if name not in {"PWD", "OLDPWD", "SHLVL", "_"}
    }


@pytest.mark.parametrize("shell", ["sh", "bash"])
@pytest.mark.parametrize(
    "patch",
    [
        EnvPatch(),
        EnvPatch(set={"A": 'it\'s "$HOME" `x` \\ \n é'}, unset=("B", "C")),
        EnvPatch(prepend={"A": ("/p q", "/r")}, append={"A": ("/s",), "B": ("/t", "/u")}),
        EnvPatch(prepend={"D": ("/p",)}, append={"E": ("/t",), "F": ("/u",)}),
        EnvPatch(set={"A": "/x"}, unset=("B",), prepend={"A": ("/p",)}, append={"B": ("/q",)}),
    ],
)
def test_activate_sh_does_what_the_patch_does(shell: str, patch: EnvPatch) -> None:
    view = View(name="it's", root="/m/env/v", env=patch)
    before = {"A": "old:older", "B": "b", "C": "c", "F": ""}
    script = metadata.render_activate_sh(view) + "env -0"
    done = subprocess.run(
        [shutil.which(shell), "-eu", "-c", script],
        env={"PATH": "/usr/bin:/bin", **before}, check=True, capture_output=True, text=True,
    )  # fmt: skip
    words = [word.partition("=") for word in done.stdout.split("\0") if word]
    after = {name: value for name, _, value in words if name != "PATH"}
    assert _plain(after) == _plain(patch.apply(before))


def test_activate_sh_leaves_references_to_the_shell() -> None:
    patch = EnvPatch(set={"A": "x/${@HOME@}/$y/${@none@}${@bad name@}"})
    text = metadata.render_activate_sh(View(name="v", root="/r", env=patch))
    done = subprocess.run(
        ["sh", "-euc", f'{text}printf %s "$A"'], env={"HOME": "/h o"}, check=True,
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout == "x//h o/$y/"


def test_activate_sh_passes_over_names_that_no_shell_has() -> None:
    patch = EnvPatch(set={"a b; touch x": "1"}, unset=("c d",), prepend={"e f": ("1",)})
    text = metadata.render_activate_sh(View(name="v", root="/r", env=patch))
    assert [line for line in text.splitlines() if not line.startswith("#")] == []
