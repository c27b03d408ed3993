"""A recipe with `engine: vendor` to the stack it means on a machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stackproof.build import benchmark
from stackproof.build.engines.vendor.stack import VendorStack
from stackproof.build.engines.wheel.recipe import (
    DEFAULT_MOUNT,
    ImageWish,
    meaning_problems,
    view_wish,
)
from stackproof.build.stack import StackView
from stackproof.core import document as documents
from stackproof.core.document import Document
from stackproof.core.errors import StackproofError

SCHEMA = "vendor-recipe"
_DEFAULT: Mapping[str, Any] = {"default": {"description": "Cray MPICH, ready to use"}}


def parse_vendor_recipe(
    document: Document, facts: Mapping[str, str], folders: tuple[str, ...] = ()
) -> VendorStack:
    """Return the stack that a recipe means on a machine.

    `facts` are `architecture` and others of the site, `folders` those of its libraries; those that
    the recipe names come first. Raises `StackproofError` with every problem.
    """
    found = [*documents.problems(document, SCHEMA)]
    if isinstance(document.data, dict):
        found += meaning_problems(document)
        if "hip" in document.data and document.data.get("gtl") != "rocm":
            found.append(
                document.problem(
                    ("hip",),
                    "`hip` is a release of ROCm, which `gtl` does not ask for",
                    "add `gtl: rocm`, or leave `hip` out",
                )
            )
    if found:
        raise StackproofError(*found)
    return _stack(document.data, facts, folders)


def _stack(
    data: Mapping[str, Any], facts: Mapping[str, str], folders: tuple[str, ...]
) -> VendorStack:
    wishes = (view_wish(name, body or {}) for name, body in (data.get("views") or _DEFAULT).items())
    views = tuple(
        StackView(name=wish.name, description=wish.description, env=wish.env) for wish in wishes
    )
    names = [view.name for view in views]
    image = ImageWish(**data.get("image", {}))
    return documents.shaped(
        VendorStack,
        data,
        mpi_family=data["mpi"]["family"],
        mpi_version=data["mpi"].get("version", ""),
        libraries=tuple(dict.fromkeys((*data.get("libraries", ()), *folders))),
        mount=data.get("mount", DEFAULT_MOUNT),
        architecture=facts["architecture"],
        views=views,
        default_view=data.get("default-view", "default" if "default" in names else None),
        benchmarks=tuple(data.get("benchmarks", (benchmark.NATIVE,))),
        compression=image.compression,
        compression_level=image.level,
        site_facts={key: value for key, value in facts.items() if key != "architecture"},
    )
