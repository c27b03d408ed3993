"""Images and views to environments and deployments."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusing import refused
from stackproof.core.command import EnvPatch
from stackproof.core.errors import Reason, StackproofError
from stackproof.image import activate
from stackproof.image.model import BenchmarkProgram, Image, ImageMount, MpiFacts, View

_MPI = MpiFacts(family="mpich", version="5.0.2", prefix="/m/mpich", launcher="hydra")


def _view(name: str, **env: object) -> View:
    return View(name=name, root=f"/m/env/{name}", env=EnvPatch(**env))


def _image(name: str, *views: View, **changes: object) -> Image:
    fields = {
        "path": f"/i/{name}.squashfs", "name": name, "mount": "/m", "size": 1,
        "views": {view.name: view for view in views},
    }  # fmt: skip
    return Image(**{**fields, **changes})


_A = _image(
    "a",
    _view("default", set={"V": "a-default"}, prepend={"PATH": ("/a",)}),
    _view("extra", set={"V": "a-extra"}, prepend={"PATH": ("/x",)}),
    default_view="default",
)
_B = _image("b", _view("default", set={"W": "b-default"}), _view("tools"), default_view=None)


def test_the_default_view_is_taken_when_none_is_named() -> None:
    assert activate.environment_patch(_A, permitted=None) == _A.views["default"].env
    assert activate.environment_patch(_A, "extra", permitted=None) == _A.views["extra"].env
    assert activate.environment_patch(_B, permitted=None) == EnvPatch()


def test_views_come_in_the_order_they_are_named_and_the_last_wins() -> None:
    views = activate.choose_views((_A,), ("default", "extra"), permitted=None)
    after = activate.combined(views, environment={}).apply({"PATH": "/bin"})
    assert after == {"V": "a-extra", "PATH": "/x:/a:/bin"}


def test_of_several_images_each_gives_its_default_view() -> None:
    assert activate.choose_views((_A, _B), (), permitted=None) == (_A.views["default"],)


def test_a_view_is_found_in_the_image_that_has_it() -> None:
    assert activate.choose_views((_A, _B), ("tools", "a:default"), permitted=None) == (
        _B.views["tools"],
        _A.views["default"],
    )


@pytest.mark.parametrize(
    ("names", "reasons"),
    [
        (("nothing",), [Reason.UNKNOWN_VIEW]),
        (("default",), [Reason.USAGE]),
        (("a:tools",), [Reason.UNKNOWN_VIEW]),
        (("c:default",), [Reason.UNKNOWN_VIEW]),
        (("", "default", "tools"), [Reason.UNKNOWN_VIEW, Reason.USAGE]),
    ],
)
def test_all_wrong_views_are_told_at_once_with_what_there_is(
    names: tuple[str, ...], reasons: list[Reason]
) -> None:
    with pytest.raises(StackproofError) as caught:
        activate.choose_views((_A, _B), names, permitted=None)
    assert [problem.reason for problem in caught.value.problems] == reasons
    assert all("a:default" in (problem.hint or "") for problem in caught.value.problems)


def test_a_default_view_that_is_not_there_is_an_error() -> None:
    with refused(Reason.UNKNOWN_VIEW):
        activate.environment_patch(_image("c", default_view="gone"), permitted=None)


def test_references_are_replaced_from_the_environment() -> None:
    image = _image(
        "c",
        _view(
            "v",
            set={"A": "x${@HOME@}y${@NONE@}z", "B": "${HOME} ${@"},
            prepend={"P": ("${@HOME@}/bin",)},
            append={"P": ("${@NONE@}",)},
        ),
    )
    patch = activate.environment_patch(image, "v", environment={"HOME": "/h"}, permitted=None)
    assert patch.apply({}) == {"A": "x/hyz", "B": "${HOME} ${@", "P": "/h/bin"}


def test_replaced_text_is_not_replaced_again() -> None:
    image = _image("c", _view("v", set={"A": "${@X@}"}))
    environment = {"X": "${@Y@}", "Y": "no"}
    assert activate.environment_patch(image, "v", environment=environment, permitted=None).set == {
        "A": "${@Y@}"
    }


_patches = st.builds(
    EnvPatch,
    set=st.dictionaries(st.sampled_from("ABC"), st.text("xy:")),
    unset=st.lists(st.sampled_from("ABC"), unique=True).map(tuple),
    prepend=st.dictionaries(st.sampled_from("ABC"), st.tuples(st.text("xy", min_size=1))),
)


@given(st.lists(_patches, max_size=4), st.dictionaries(st.sampled_from("ABC"), st.text("xy:")))
def test_combined_views_do_what_they_do_one_after_another(
    patches: list[EnvPatch], environment: dict[str, str]
) -> None:
    views = [View(name=str(i), root="/r", env=patch) for i, patch in enumerate(patches)]
    expected = environment
    for patch in patches:
        expected = patch.apply(expected)
    combined = activate.combined(views, environment=environment)
    assert combined.apply(environment) == expected


def test_deployment() -> None:
    image = _image(
        "a",
        _A.views["default"],
        mpi=_MPI,
        benchmarks=(BenchmarkProgram(name="bench", path="/m/bench"),),
        sha256="f" * 64,
        lock_digest="e" * 64,
    )
    found = activate.deployment(image, "default", name="ours", permitted=("V",))
    assert found.name == "ours"
    assert found.mounts == (ImageMount(image="/i/a.squashfs", mount_point="/m"),)
    assert found.mpi == _MPI
    assert found.programs == {"bench": "/m/bench"}
    assert found.env == _A.views["default"].env
    assert (found.image_sha256, found.lock_digest, found.recipe) == ("f" * 64, "e" * 64, "a")


def test_no_deployment_without_an_mpi() -> None:
    with refused(Reason.IMAGE_NO_META):
        activate.deployment(_A, name="a", permitted=())
