"""What Spack says of sources that it could not get, to problems with the reason.

The lines are those of lib/spack/spack/stage.py and fetch_strategy.py (github.com/spack/spack, v0.23
and v1.1):

    All fetchers failed for spack-stage-libfabric-2.1.0-<hash>
        https://…/libfabric-2.1.0.tar.bz2: DetailedURLError: GET https://… errored with: …
    sha256 checksum failed for /build/stage/…
    Expected 97df… but got 1a66…. File size = 3242640 bytes. Contents = b'…'
"""

from __future__ import annotations

import itertools
import re

from stackproof.core.errors import Problem, Reason

_STAGE = (
    r"(?:resource-\S+-)?spack-stage-"
    r"(?P<name>[a-z0-9][a-z0-9_-]*?)-(?P<version>\d\S*?|[^-\s]+)-[a-z2-7]{32}"
)
_FAILED = re.compile(rf"All fetchers failed for {_STAGE}")
_CHANGED = re.compile(rf"checksum failed for \S*?/{_STAGE}")
_TRIED = re.compile(r"\s+(?P<url>[a-z0-9+]+://\S+): (?P<why>.*)")
_SHOWN = 3


def source_problems(text: str) -> tuple[Problem, ...]:
    """Return a problem for each package whose source Spack could not get, in its own order.

    NO_NETWORK where no address answered, DIGEST_MISMATCH where one gave another file.
    """
    found: dict[str, Problem] = {}
    lines = text.splitlines()
    for number, line in enumerate(lines):
        begun = _FAILED.search(line) or _CHANGED.search(line)
        if begun is None:
            continue
        package = f"{begun['name']}@{begun['version']}"
        if package in found:
            continue
        others = itertools.takewhile(
            lambda entry: not entry.startswith("==> ") and not _FAILED.search(entry),
            lines[number + 1 :],
        )
        block = [line, *others]
        changed = any("checksum failed" in entry for entry in block)
        found[package] = _changed(package, block) if changed else _away(package, block)
    return tuple(found.values())


def _away(package: str, block: list[str]) -> Problem:
    tried = [match for match in map(_TRIED.match, block) if match]
    shown = [f"{match['url'][:120]}: {match['why'].rpartition(': ')[2]}" for match in tried]
    return Problem(
        reason=Reason.NO_NETWORK,
        message=f"the source of `{package}` cannot be had",
        detail="\n".join(shown[:_SHOWN]) or None,
        hint="connect to a network, or name a mirror that has it (--mirror); `stackproof mirror "
        "create` fills one where there is a network",
    )


def _changed(package: str, block: list[str]) -> Problem:
    words = [entry.strip() for entry in block if "Expected" in entry]
    return Problem(
        reason=Reason.DIGEST_MISMATCH,
        message=f"the source of `{package}` is not the file that its package names",
        detail="\n".join(_without_contents(word) for word in words[:_SHOWN]) or None,
        hint="a mirror, or the address, serves another file under this name: find out why",
    )


def _without_contents(text: str) -> str:
    """Return what Spack says of two digests, without the beginning of the file that it shows."""
    return re.sub(r" Contents = .*?(?= URL = |$)", "", text)
