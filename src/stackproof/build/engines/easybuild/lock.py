"""Stack and chain to lock: which of the files that a component may be made of is taken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from stackproof.build.engines.easybuild.chain import Chain
from stackproof.build.engines.easybuild.stack import EasyBuildLock, EasyBuildStack
from stackproof.build.stack import Artefact, Digest, SourceFile
from stackproof.core import ids
from stackproof.core.noun import to_data


def wants(stack: EasyBuildStack) -> str:
    """Return the id of what a lock must answer: the request, the machine, and EasyBuild."""
    return ids.content_id(
        {
            "engine": stack.engine,
            "easybuild": stack.easybuild,
            "architecture": stack.architecture,
            "request": to_data(stack.request),
        }
    )


def make_lock(
    stack: EasyBuildStack, chain: Chain, tool: tuple[Artefact, ...], digests: Mapping[str, str]
) -> EasyBuildLock:
    """Return the lock of a stack; `digests` are those of the source files, by file name."""
    return EasyBuildLock(
        wants=wants(stack),
        tool=tool,
        components=tuple(
            replace(
                one,
                sources=tuple(pinned(source, digests[source.filename]) for source in one.sources),
            )
            for one in chain.easyconfigs
        ),
        metadata=chain.metadata,
        tools=chain.tools,
        headers=chain.headers,
        left_out=chain.left_out,
        notes=chain.notes,
    )


def pinned(source: SourceFile, sha256: str) -> SourceFile:
    """Return a source file with one digest, which it has besides who says so."""
    known = {digest.sha256: digest for digest in source.accepted}
    packed = Digest(sha256=sha256, provenance=f"commit {source.commit} of {source.address}")
    return replace(source, accepted=(known.get(sha256, packed),))
