"""What is refused, and for which reason: `with refused(Reason.BUSY, "who holds it"): …`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import ParamSpec

import pytest

from stackproof.core.errors import Reason, StackproofError

P = ParamSpec("P")


@contextlib.contextmanager
def refused(reason: Reason, *words: str) -> Iterator[pytest.ExceptionInfo[StackproofError]]:
    """Expect an error of this reason, and of these words."""
    with pytest.raises(StackproofError) as caught:
        yield caught
    assert caught.value.reason is reason
    for word in words:
        assert word in str(caught.value)


def refusal(call: Callable[P, object], *words: P.args, **named: P.kwargs) -> StackproofError:
    """Return the error of a call."""
    with pytest.raises(StackproofError) as caught:
        call(*words, **named)
    return caught.value
