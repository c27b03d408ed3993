"""A recipe for EasyBuild resolved on a machine, and its lock: what is built, from which files."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import ClassVar

from msgspec import field

from stackproof.build.engines.easybuild.chain import Chain, Easyconfig, LeftOut
from stackproof.build.engines.easybuild.components import ChainRequest
from stackproof.build.programs import StackProgram, describe_wishes
from stackproof.build.stack import DEFAULT_MOUNT, Artefact, Digest, SourceFile, StackView
from stackproof.core import ids
from stackproof.core.noun import to_data
from stackproof.core.value import Value, replace


class Below(Value):
    """Software that is on the machine already, on top of which is built: EESSI, a site's tree.

    `path` is its folder, the same in the sandbox, `modules` are the folders of its module files.
    """

    path: str
    modules: tuple[str, ...]


class EasyBuildStack(Value):
    """A stack that EasyBuild builds from source.

    `request` says what the chain is asked to hold, `easybuild` which release builds it, `optarch`
    what EasyBuild is told to optimise for (`GENERIC`, or flags): it enters every id. `site_facts`
    are as in `stack.Stack`.
    """

    SCHEMA: ClassVar[str] = "stackproof/easybuild-stack/1"

    name: str
    request: ChainRequest
    version: str = "0"
    description: str = ""
    engine: str = "easybuild"
    easybuild: str
    optarch: str
    mount: str = DEFAULT_MOUNT
    architecture: str
    views: tuple[StackView, ...]
    default_view: str | None
    transports: tuple[str, ...] = ()
    benchmarks: tuple[str, ...] = ()
    below: Below | None = None
    programs: tuple[StackProgram, ...] = ()
    compression: str = "zstd"
    compression_level: int = 6
    site_facts: Mapping[str, str] = field(default_factory=dict)


class EasyBuildLock(Value):
    """What a stack is built from, kept beside the recipe as `<recipe>.lock.json`.

    `wants` is the id of what was asked for. `tool` are the packages of EasyBuild itself;
    `components` are in build order, each source file with exactly one digest; a file that is a
    packed commit has the digest of what packing gives. `metadata`, `tools`, `headers`, `left_out`
    and `notes` are those of the chain. `programs` are the sources of the recipe's programs.
    """

    SCHEMA: ClassVar[str] = "stackproof/easybuild-lock/1"

    engine: str = "easybuild"
    wants: str
    tool: tuple[Artefact, ...]
    components: tuple[Easyconfig, ...]
    metadata: str = ""
    tools: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    notes: tuple[str, ...] = ()
    programs: tuple[SourceFile, ...] = ()


def list_outside_folders(stack: EasyBuildStack) -> tuple[str, ...]:
    """Return the folders of the machine that a stack is built on, besides the system's compiler."""
    folders = [component.prefix for component in stack.request.externals.values()]
    folders += [stack.request.gpu_at.prefix] if stack.request.gpu_at else []
    folders += [stack.request.toolchain.prefix] if stack.request.toolchain.prefix else []
    folders += [stack.below.path, *stack.below.modules] if stack.below else []
    return tuple(dict.fromkeys(folders))


def files_of(component: Easyconfig) -> tuple[Artefact, ...]:
    """Return the source files of one component of a lock."""
    return tuple(
        Artefact(
            name=component.component,
            version=component.version,
            filename=source.filename,
            sha256=source.accepted[0].sha256,
        )
        for source in component.sources
    )


def wants(stack: EasyBuildStack) -> str:
    """Return the id of what a lock must answer: the request, the machine, and EasyBuild."""
    request = to_data(stack.request)
    for name in ("source_files", "patches", "bundled_parts", "ucx", "ucc", "options"):
        if not request[name]:  # as in locks that are older than the key
            del request[name]
    if not request["toolchain"]["prefix"]:
        del request["toolchain"]["prefix"]
    for patch in itertools.chain.from_iterable(request.get("patches", {}).values()):
        patch.pop("mends", None)  # what a patch is for does not change what is built
    return ids.content_id(
        {
            "engine": stack.engine,
            "easybuild": stack.easybuild,
            "architecture": stack.architecture,
            "request": request,
            **describe_wishes(stack.programs),
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
                config,
                sources=tuple(
                    pinned(source, digests[source.filename]) for source in config.sources
                ),
            )
            for config in chain.easyconfigs
        ),
        metadata=chain.metadata,
        tools=chain.tools,
        headers=chain.headers,
        left_out=chain.left_out,
        notes=chain.notes,
        programs=tuple(program.source for program in stack.programs),
    )


def pinned(source: SourceFile, sha256: str) -> SourceFile:
    """Return a source file with one digest, which it has besides who says so."""
    known = {digest.sha256: digest for digest in source.accepted}
    packed = Digest(sha256=sha256, provenance=f"commit {source.commit} of {source.address}")
    return replace(source, accepted=(known.get(sha256, packed),))
