"""What must be refused: `with refused(Reason.USAGE): …` is an error of ours for one of the reasons."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from stackproof.core.errors import Reason, StackproofError


@contextlib.contextmanager
def refused(*reasons: Reason) -> Iterator[pytest.ExceptionInfo[StackproofError]]:
    """Hold that what is done ends with an error of ours, for one of the reasons if any is named."""
    with pytest.raises(StackproofError) as caught:
        yield caught
    assert not reasons or caught.value.reason in reasons, caught.value
