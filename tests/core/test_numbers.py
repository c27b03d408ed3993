"""Numbers as people read them."""

import pytest

from stackproof.core.numbers import percent_text, ranges_text, ratio_text, size_text, value_text


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1 KiB"), (1536, "1.5 KiB"), (1 << 22, "4 MiB"),
     (1 << 30, "1 GiB")],
)  # fmt: skip
def test_size_text(size, text):
    assert size_text(size) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.59113, "0.5911"), (12.3456, "12.35"), (999.96, "1000"), (1250.4, "1,250"),
     (13_252_500, "13.25 M")],
)  # fmt: skip
def test_value_text(value, text):
    assert value_text(value) == text


@pytest.mark.parametrize(
    ("ratio", "text"),
    [(1.234, "1.23"), (17.3, "17.30"), (0.1, "0.10"), (0.096, "0.10"), (0.0949, "0.095"),
     (0.00995, "0.010"), (0.00016, "0.00016"), (1 / 6100, "0.00016"), (0.0, "0.00")],
)  # fmt: skip
def test_a_small_ratio_keeps_two_digits(ratio, text):
    assert ratio_text(ratio) == text


def test_percent_text():
    assert percent_text(0.1234) == "12.3 %"
    assert percent_text(17.2493) == "1720 %"
    assert percent_text(1.0) == "100 %"
    assert percent_text(0.00001234) == "0.00123 %"


def test_ranges_text():
    known = [0, 1, 2, 4, 8, 1024]
    assert ranges_text([1, 2, 4], known) == "1 B\u20134 B"
    assert ranges_text([0, 2, 8, 1024], known) == "0 B, 2 B, 8 B\u20131 KiB"
    assert ranges_text([], known) == ""
