"""What is carried along with libraries, and what stays the machine's own."""

from __future__ import annotations

import pytest

from stackproof.core.errors import Reason, StackproofError
from stackproof.inject.gathering import Gathered, problem, stays


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("libc.so.6", True), ("/lib64/libm.so.6", True), ("ld-linux-x86-64.so.2", True),
        ("libcuda.so.1", True), ("libnvidia-ml.so.1", True), ("libcudart.so.12", False),
        ("libcxi.so.1", False), ("libcrypt.so.1", False),
    ],
)  # fmt: skip
def test_what_stays_the_machines_own(name: str, own: bool) -> None:
    assert stays(name) is own


def test_all_that_is_in_the_way_is_told_once() -> None:
    gathered = Gathered(stays=stays)
    gathered.check()
    gathered.problems += [problem("a", "/x", "h"), problem("b", "/x", "h"), problem("a", "/x", "h")]
    with pytest.raises(StackproofError) as caught:
        gathered.check()
    assert [one.message for one in caught.value.problems] == ["a", "b"]
    assert caught.value.reason is Reason.INJECTION_FAILS
