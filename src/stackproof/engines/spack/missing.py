"""What Spack says of sources that it could not get, to problems with the reason.

The lines are those of lib/spack/spack/stage.py and fetch_strategy.py (github.com/spack/spack, v0.23
and v1.1):

    All fetchers failed for spack-stage-libfabric-2.1.0-<hash>
        https://…/libfabric-2.1.0.tar.bz2: DetailedURLError: GET https://… errored with: …
    sha256 checksum failed for /build/stage/…
    Expected 97df… but got 1a66…. File size = 3242640 bytes. Contents = b'…'
"""

from __future__ import annotations

import re

from stackproof.errors import Problem, Reason

_FAILED = re.compile(
    r"All fetchers failed for (?:resource-\S+-)?spack-stage-"
    r"(?P<name>[a-z0-9][a-z0-9_-]*?)-(?P<version>\d\S*?|[^-\s]+)-[a-z2-7]{32}"
)
_TRIED = re.compile(r"\s+(?P<url>[a-z0-9+]+://\S+): (?P<why>.*)")
_DIGEST = re.compile(r"(?:checksum failed for|ChecksumError)")
_SHOWN = 3


def source_problems(text: str) -> tuple[Problem, ...]:
    """Return a problem for each package whose source Spack could not get, in its own order.

    NO_NETWORK where no address answered, DIGEST_MISMATCH where one gave another file.
    """
    found: dict[str, Problem] = {}
    lines = text.splitlines()
    for number, line in enumerate(lines):
        failed = _FAILED.search(line)
        if failed is None:
            continue
        package = f"{failed['name']}@{failed['version']}"
        block = []
        for entry in lines[number + 1 :]:
            if _FAILED.search(entry) or entry.startswith("==> "):
                break
            block.append(entry)
        changed = any(_DIGEST.search(entry) for entry in block)
        found.setdefault(package, _changed(package, block) if changed else _away(package, block))
    return tuple(found.values())


def _away(package: str, block: list[str]) -> Problem:
    tried = [match for match in map(_TRIED.match, block) if match]
    shown = [f"{match['url'][:120]}: {match['why'].rpartition(': ')[2]}" for match in tried]
    return Problem(
        reason=Reason.NO_NETWORK,
        message=f"the source of `{package}` cannot be had",
        detail="\n".join(shown[:_SHOWN]) or None,
        hint="connect to a network, name a mirror that has it (--mirror), or accept the operating "
        f"system's: stackproof mirror add-os-sources RECIPE {package.partition('@')[0]}",
    )


def _changed(package: str, block: list[str]) -> Problem:
    words = [entry.strip() for entry in block if "checksum" in entry or "Expected" in entry]
    return Problem(
        reason=Reason.DIGEST_MISMATCH,
        message=f"the source of `{package}` is not the file that its package names",
        detail="\n".join(word[:160] for word in words[:_SHOWN]) or None,
        hint="a mirror, or the address, serves another file under this name: find out why",
    )
