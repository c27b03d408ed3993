from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackproof.core.command import Bind, Command, EnvPatch, Sandbox
from stackproof.core.noun import from_json, to_json

COVERS = ("core/environment.py",)

# Few names and few words, so that patches meet each other; words with colons and without anything.
NAMES = st.sampled_from(["A", "B", "C"])
WORDS = st.text(alphabet="xy:", max_size=4)
LISTS = st.dictionaries(NAMES, st.lists(WORDS, max_size=3).map(tuple))
PATCHES = st.builds(
    EnvPatch,
    set=st.dictionaries(NAMES, WORDS),
    unset=st.lists(NAMES, max_size=2).map(tuple),
    prepend=LISTS,
    append=LISTS,
)
ENVIRONMENTS = st.dictionaries(NAMES, WORDS)


@given(PATCHES, PATCHES, ENVIRONMENTS)
def test_then_is_one_after_the_other(one, two, env):
    assert one.then(two).apply(env) == two.apply(one.apply(env))


@given(PATCHES, PATCHES, PATCHES, ENVIRONMENTS)
def test_then_is_associative(a, b, c, env):
    assert a.then(b).then(c).apply(env) == a.then(b.then(c)).apply(env)


@given(PATCHES, ENVIRONMENTS)
def test_the_empty_patch_does_nothing(patch, env):
    empty = EnvPatch()
    assert empty.apply(env) == env
    assert patch.then(empty).apply(env) == empty.then(patch).apply(env) == patch.apply(env)


@given(PATCHES, ENVIRONMENTS)
def test_apply_twice_is_apply_once(patch, env):
    once = patch.apply(env)
    # Appending to what was prepended keeps the first of each word, so nothing grows.
    assert set(patch.apply(once)) == set(once)
    for name, value in patch.apply(once).items():
        assert set(value.split(":")) == set(once[name].split(":"))


@given(PATCHES, ENVIRONMENTS)
def test_apply_leaves_its_argument_alone(patch, env):
    before = dict(env)
    patch.apply(env)
    assert env == before


@given(PATCHES, ENVIRONMENTS)
def test_lists_have_no_empty_and_no_repeated_entry(patch, env):
    result = patch.apply(env)
    for name in {*patch.prepend, *patch.append} & set(result):
        entries = result[name].split(":")
        assert "" not in entries
        assert len(entries) == len(set(entries))


@pytest.mark.parametrize(
    ("patch", "before", "after"),
    [
        (EnvPatch(set={"A": "1"}), {"A": "0", "B": "2"}, {"A": "1", "B": "2"}),
        (EnvPatch(unset=("A",)), {"A": "0"}, {}),
        (EnvPatch(unset=("A",), set={"A": "1"}), {"A": "0"}, {"A": "1"}),
        (EnvPatch(prepend={"P": ("/x", "/y")}), {"P": "/z"}, {"P": "/x:/y:/z"}),
        (EnvPatch(append={"P": ("/x",)}), {"P": "/z"}, {"P": "/z:/x"}),
        (EnvPatch(prepend={"P": ("/z",)}), {"P": "/a:/z:/b"}, {"P": "/z:/a:/b"}),
        (EnvPatch(append={"P": ("/a",)}), {"P": "/a:/z"}, {"P": "/a:/z"}),
        (EnvPatch(prepend={"P": ("/x",)}), {}, {"P": "/x"}),
        (EnvPatch(set={"P": "/s"}, prepend={"P": ("/x",)}), {"P": "/z"}, {"P": "/x:/s"}),
        (EnvPatch(unset=("P",), append={"P": ("/x",)}), {"P": "/z"}, {"P": "/x"}),
        (EnvPatch(prepend={"P": ("/x:/y",)}), {"P": "/y:/z"}, {"P": "/x:/y:/z"}),
        (EnvPatch(prepend={"P": ("",)}), {"P": ":"}, {}),
    ],
)
def test_apply(patch, before, after):
    assert patch.apply(before) == after


@given(PATCHES)
def test_a_command_survives_json(patch):
    command = Command(
        argv=("true", "-x"),
        cwd="/",
        env=patch,
        timeout_s=1.5,
        sandbox=Sandbox(binds=(Bind(source="/a", target="/b", writable=True),), links={"/l": "t"}),
        ok=(0, 3),
    )
    assert from_json(Command, to_json(command)) == command


def test_a_sandbox_is_closed_unless_asked():
    box = Sandbox()
    assert not box.network
    assert box.binds == ()
    assert not Bind(source="/a", target="/a").writable


@pytest.mark.parametrize("noun", [EnvPatch(), Sandbox(), Command(argv=("true",))])
def test_nouns_are_frozen(noun):
    name = noun.__struct_fields__[0]
    with pytest.raises(AttributeError):
        setattr(noun, name, None)
