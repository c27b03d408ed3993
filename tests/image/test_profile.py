"""Profiles: written and read again, laid over recipes, and what is none."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackproof.build.effects import stacks
from stackproof.build.options import RecipeOptions
from stackproof.core.document import parse
from stackproof.core.errors import Reason, StackproofError
from stackproof.image.profile import ProfileView, parse_profile, render_profile, tuned

VIEW = ProfileView(description="a setting", set={"FI_LOG_LEVEL": "warn"})
RECIPE = "name: small\nmpi: {family: mpich}\n"


@given(
    st.dictionaries(
        st.from_regex(r"[a-zA-Z][a-zA-Z0-9_-]{0,8}", fullmatch=True).filter(lambda n: n != "default"),
        st.builds(
            ProfileView,
            description=st.text("ab :#'\"-{}\n", max_size=9),
            set=st.dictionaries(st.from_regex(r"[A-Z_]{1,5}", fullmatch=True), st.text("a1 :'#", max_size=5)),
        ),
        max_size=3,
    )
)  # fmt: skip
def test_what_is_written_is_read_again(views: dict[str, ProfileView]) -> None:
    text = render_profile(views, ("found by a sweep", "on a machine"))
    assert text.startswith("# found by a sweep\n# on a machine\n")
    assert parse_profile(parse(text, file="profile.yaml")) == views


def test_a_recipe_carries_it(tmp_path: Path) -> None:
    recipe, profile = tmp_path / "small.yaml", tmp_path / "profile.yaml"
    recipe.write_text(RECIPE)
    profile.write_text(render_profile({"tuned": VIEW}, ()))
    (plain,) = stacks.load_recipes(RecipeOptions(recipe=str(recipe)))
    (own,) = stacks.load_recipes(RecipeOptions(recipe=str(recipe), profile=str(profile)))
    assert [view.name for view in plain.stack.views] == ["default"]
    views = {view.name: view for view in own.stack.views}
    assert set(views) == {"default", "tuned"}
    assert views["tuned"].env.set["FI_LOG_LEVEL"] == "warn"
    assert tuned(profile.read_bytes(), file="profile.yaml") == {"FI_LOG_LEVEL": "warn"}


def test_where_what_was_there_is_best_nothing_is_set() -> None:
    assert tuned(render_profile({}, ()).encode(), file="profile.yaml") == {}


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "views: []", "name: mpich\nmpi: {family: mpich}\n", "views: {tuned: [a]}",
        "views: {tuned: {prepend: {PATH: [/tmp]}}}", "views: {tuned: {set: {A: 1}}}",
        "views: {tuned: {set: [A]}}", "views: {tuned: {}}\nmpi: {family: mpich}\n",
    ],
)  # fmt: skip
def test_what_is_no_profile(text: str) -> None:
    with pytest.raises(StackproofError) as caught:
        tuned(text.encode(), file="profile.yaml")
    assert {problem.reason for problem in caught.value.problems} == {Reason.INVALID_VALUE}


def test_a_folder_takes_none(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("name: x\n")
    options = RecipeOptions(recipe=str(tmp_path), profile="profile.yaml")
    with pytest.raises(StackproofError) as caught:
        stacks.load_recipes(options)
    assert caught.value.reason is Reason.UNSUPPORTED
