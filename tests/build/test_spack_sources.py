"""Sources of Spack's packages: a mirror of all of them, and those that cannot be had."""

from __future__ import annotations

import pytest

import spackstacks
from stackproof.build.engines.spack import buildplan, locks, output
from stackproof.core.errors import Reason


def test_a_mirror_is_filled_from_everything_that_is_locked():
    stack = spackstacks.stack()
    lock = spackstacks.locked(stack)
    plan = buildplan.mirror_plan(stack, lock)
    step = plan.steps[-1]
    assert step.network
    calls = [command.argv for command in step.commands if "create" in command.argv]
    assert len(calls) == len(locks.lock_files(stack))
    assert all(buildplan.MIRROR in call for call in calls)
    assert set(locks.lock_files(stack)) <= set(step.build_files)


HASH = "n4vh7yry32qai6lulag2htxft4zr3fsb"
AWAY = f"""\
==> Fetching https://example.org/tiny-four-1.0.tar.gz
==> Warning: Error while fetching tiny-four@1.0
  All fetchers failed for spack-stage-tiny-four-1.0-{HASH}
    https://a.example.org/aa.tar.gz: DetailedURLError: GET https://a.example.org/aa.tar.gz errored \
with: [Errno -2] Name or service not known
    https://example.org/tiny-four-1.0.tar.gz: DetailedURLError: GET x errored with: 404
==> Warning: Error while fetching py-x@2.1rc1
  All fetchers failed for resource-y-spack-stage-py-x-2.1rc1-{HASH}
==> Error: Failed downloads:
  tiny-four@1.0  py-x@2.1rc1
"""
CHANGED = f"""\
==> Error: sha256 checksum failed for /build/stage/spack-stage-xz-5.2-{HASH}/xz-5.2.tar.gz
Expected aa45 but got 73cb. File size = 2 bytes. Contents = b'x\\n'. URL = file:///m/aa45.tar.gz
"""


def test_sources_that_cannot_be_had_are_named_with_what_was_tried():
    one, other = output.source_problems(AWAY)
    assert one.reason is other.reason is Reason.NO_NETWORK
    assert "tiny-four@1.0" in one.message
    assert one.detail
    assert one.detail.splitlines()[1] == "https://example.org/tiny-four-1.0.tar.gz: 404"
    assert "py-x@2.1rc1" in other.message
    assert output.source_problems(AWAY + AWAY) == (one, other)


def test_a_source_that_changed_is_another_matter():
    [problem] = output.source_problems(CHANGED)
    assert problem.reason is Reason.DIGEST_MISMATCH
    assert "xz@5.2" in problem.message
    assert problem.detail == (
        "Expected aa45 but got 73cb. File size = 2 bytes. URL = file:///m/aa45.tar.gz"
    )


@pytest.mark.parametrize("text", ["", "==> Error: No compilers\n", "All fetchers failed"])
def test_other_failures_say_nothing_of_sources(text: str):
    assert output.source_problems(text) == ()
