"""A recipe with `engine: easybuild` to the stack it means on a machine."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from stackproof.build import benchmark
from stackproof.build.engines.easybuild import tool
from stackproof.build.engines.easybuild.components import (
    ChainRequest,
    ExternalComponent,
    Gpu,
    OwnFile,
    OwnPatch,
    Toolchain,
)
from stackproof.build.engines.easybuild.engine import MODULES_VIEW
from stackproof.build.engines.easybuild.stack import Below, EasyBuildStack
from stackproof.build.meaning import make_stack, meaning_problems
from stackproof.build.stack import DEFAULT_MOUNT
from stackproof.core import document as documents
from stackproof.core.document import Document
from stackproof.core.errors import Problem, Reason, StackproofError
from stackproof.core.mountlist import bad_mount_point

SCHEMA = "easybuild-recipe"
OPTARCH = "GENERIC"
"""What a recipe gets that does not say `optarch`: programs run on every processor of the kind.

EasyBuild's own default is the processor of the machine that builds.
"""
_COMPILER = re.compile(r"gcc (\S+)")


def parse_easybuild_recipe(document: Document, facts: Mapping[str, str]) -> EasyBuildStack:
    """Return the stack that a recipe means on a machine.

    `facts` are `architecture`, and `compiler` (`gcc 12.2.0 (…)`), which
    the toolchain SystemCompilerGCC wraps. Raises `StackproofError` with every problem.
    """
    found = [*documents.problems(document, SCHEMA)]
    if isinstance(document.data, dict):
        found += meaning_problems(document, own_views=(MODULES_VIEW,))
        found += _problems(document, facts)
    if found:
        raise StackproofError(*found)
    return _stack(document.data, facts)


def _problems(document: Document, facts: Mapping[str, str]) -> Iterator[Problem]:
    """Yield what the schema cannot say; values of a wrong type are left to the schema."""
    data = document.data
    views = data.get("views")
    if isinstance(views, dict) and MODULES_VIEW in views:
        yield document.problem(
            ("views", MODULES_VIEW),
            f"every image has a view `{MODULES_VIEW}` for its module files",
            "give this view another name",
        )
    if "gpu-at" in data and data.get("gpu", "none") == "none":
        yield document.problem(
            ("gpu-at",),
            "`gpu-at` says where a GPU's software is, and `gpu` asks for none",
            "add `gpu: cuda` or `gpu: rocm`",
        )
    wrapped = data.get("toolchain") == "SystemCompilerGCC"
    if wrapped and not _COMPILER.match(facts.get("compiler", "")):
        yield document.problem(
            ("toolchain",),
            "it is not known which gcc the toolchain SystemCompilerGCC is to wrap",
            'name it: toolchain: {name: SystemCompilerGCC, version: "12.2.0"}',
            reason=Reason.TOOL_MISSING,
        )
    if "mpi" not in data:
        yield from _mpi_problems(document)
    below = data.get("on")
    if isinstance(below, dict) and isinstance(below.get("path"), str):
        mount = data.get("mount", DEFAULT_MOUNT)
        if below["path"].rstrip("/") == mount or bad_mount_point(below["path"]):
            yield document.problem(
                ("on", "path"),
                f"`{below['path']}` cannot be what is built on top of",
                "name the folder of a software tree, such as a version of EESSI",
            )


def _mpi_problems(document: Document) -> Iterator[Problem]:
    """Yield what a recipe without an MPI asks for in vain."""
    data = document.data
    for key, wanted, message, hint in (
        ("benchmarks", benchmark.NATIVE in (data.get("benchmarks") or ()),
         f"{benchmark.NATIVE} needs an MPI", "take it from another image"),
        ("programs", data.get("programs"),
         "programs are compiled with the stack's MPI", "leave `programs` out"),
        ("transports", data.get("transports"),
         "transports are settings of an MPI", "leave `transports` out"),
    ):  # fmt: skip
        if wanted:
            yield document.problem(
                (key,), f"{message}, and the recipe has none", f"add `mpi`, or {hint}",
                reason=Reason.UNSUPPORTED,
            )  # fmt: skip


def _stack(data: Mapping[str, Any], facts: Mapping[str, str]) -> EasyBuildStack:
    chosen, below = data.get("easybuild", {}), data.get("on")
    wanted = data.get("benchmarks", (benchmark.NATIVE,) if "mpi" in data else ())
    return make_stack(
        EasyBuildStack,
        data,
        facts,
        "programs and libraries, ready to use",
        request=_request(data, facts, tuple(name for name in wanted if name != benchmark.NATIVE)),
        easybuild=chosen.get("version", tool.VERSION),
        optarch=chosen.get("optarch", OPTARCH),
        benchmarks=tuple(name for name in wanted if name == benchmark.NATIVE),
        below=Below(path=below["path"], modules=tuple(below["modules"])) if below else None,
        programs=(),
    )


def _request(
    data: Mapping[str, Any], facts: Mapping[str, str], benchmarks: tuple[str, ...]
) -> ChainRequest:
    mpi = data.get("mpi")
    place = data.get("gpu-at")
    bundled = data.get("bundled", False)
    return ChainRequest(
        libfabric=data["libfabric"]["version"],
        providers=tuple(data["libfabric"]["providers"]),
        mpi=(mpi["family"], mpi["version"]) if mpi else None,
        gpu=Gpu(data.get("gpu", "none")),
        gpu_at=ExternalComponent(**place) if place else None,
        toolchain=_toolchain(data.get("toolchain", "system"), facts),
        xpmem=data.get("xpmem", False),
        shs=data.get("slingshot", ""),
        externals={
            name: ExternalComponent(**one) for name, one in data.get("externals", {}).items()
        },
        benchmarks=benchmarks,
        versions=data.get("versions", {}),
        origins=tuple(data.get("sources", ("upstream",))),
        bundled=bundled is True,
        bundled_parts=tuple(bundled) if isinstance(bundled, list) else (),
        ucx=data.get("ucx", False),
        ucc=data.get("ucc", False),
        options={name: tuple(every) for name, every in data.get("options", {}).items()},
        libcxi_tools=data.get("libcxi-tools", False),
        accept=tuple(data.get("accept", ())),
        source_files={name: OwnFile(**one) for name, one in data.get("source-files", {}).items()},
        patches={
            name: tuple(
                OwnPatch(**{**patch, "mends": tuple(patch.get("mends", ()))}) for patch in patches
            )
            for name, patches in data.get("patches", {}).items()
        },
    )


def _toolchain(wanted: str | Mapping[str, str], facts: Mapping[str, str]) -> Toolchain:
    if isinstance(wanted, Mapping):
        return Toolchain(**wanted)
    if wanted == "SystemCompilerGCC":
        match = _COMPILER.match(facts.get("compiler", ""))
        return Toolchain(name=wanted, version=match[1] if match else "")
    return Toolchain()
