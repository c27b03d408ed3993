"""A name in the registry of a family."""

import pytest

from refusals import refused
from stackproof.core import registry
from stackproof.core.errors import Reason

SHAPES = {"round": 1, "square": 4}


def test_a_known_name_gives_its_member():
    assert registry.find(SHAPES, "square", kind="shape") == 4


@pytest.mark.parametrize(("more", "said"), [({}, "known shapes are"), ({"kinds": "forms"}, "known forms are")])  # fmt: skip
def test_an_unknown_name_is_unsupported_and_the_hint_lists_the_known_ones(more, said):
    with refused(Reason.UNSUPPORTED) as caught:
        registry.find(SHAPES, "oval", kind="shape", **more)
    assert f"{said}: round, square" in (caught.value.problems[0].hint or "")
