import pytest

from stackproof.results.wire import wire_of, wire_text


@pytest.mark.parametrize(
    ("mb_s", "mbit"),
    [
        (119.0, 1000),  # the plateau of TCP on a link of 1 Gbit/s
        (117.6, 1000),
        (11.8, 100),
        (1175.0, 10_000),
        (24_040.0, 200_000),  # MPICH on Slingshot-11, the best of the published curves
        (126.0, None),  # more than 1 Gbit/s carries
        (80.0, None),
        (0.0, None),
    ],
)
def test_a_plateau_names_the_wire_that_it_sits_on(mb_s, mbit):
    assert wire_of(mb_s) == mbit


def test_words():
    assert wire_text(119.0) == "what a link of 1 Gbit/s carries"
    assert wire_text(11.8) == "what a link of 100 Mbit/s carries"
    assert wire_text(290.0) == "what a link of 2.5 Gbit/s carries"
    assert wire_text(80.0) == ""
