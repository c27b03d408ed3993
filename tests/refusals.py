"""What is refused, and for which reason: `with refused(Reason.BUSY, "who holds it"): …`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from stackproof.core.errors import Reason, StackproofError


@contextlib.contextmanager
def refused(reason: Reason, *words: str) -> Iterator[pytest.ExceptionInfo[StackproofError]]:
    """Expect an error of this reason, and of these words."""
    with pytest.raises(StackproofError) as caught:
        yield caught
    assert caught.value.reason is reason
    for word in words:
        assert word in str(caught.value)
