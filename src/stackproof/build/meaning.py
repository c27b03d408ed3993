"""Parts of recipes that all engines read alike: problems beyond schemas, and fields of stacks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from stackproof.build.benchmark import NATIVE
from stackproof.build.programs import program_problems
from stackproof.build.stack import DEFAULT_MOUNT, StackView
from stackproof.core import document as documents
from stackproof.core.command import EnvPatch
from stackproof.core.document import Document
from stackproof.core.errors import Problem, Reason
from stackproof.core.mountlist import bad_mount_point
from stackproof.core.value import Value

_LEVELS = {"zstd": 22, "gzip": 9}
"""The highest level of each compressor that has levels."""
AnyKind = TypeVar("AnyKind", bound=Value)


def meaning_problems(document: Document, *, own_views: tuple[str, ...] = ()) -> Iterator[Problem]:
    """Yield what the schema cannot say; values of a wrong type are left to the schema.

    `own_views` are views that every image has, besides those of the recipe.
    """
    data = document.data
    yield from image_problems(document)
    yield from program_problems(document)
    views, default = data.get("views"), data.get("default-view")
    names = [*(views if isinstance(views, dict) else ["default"]), *own_views]
    if isinstance(default, str) and default not in names:
        yield document.problem(
            ("default-view",),
            f"`default-view` names the view `{default}`, which is not there",
            f"the views are: {', '.join(names) or 'none'}",
        )


def image_problems(document: Document) -> Iterator[Problem]:
    """Yield what is wrong with where an image is to be mounted, and how it is to be packed."""
    mount, image = document.data.get("mount"), document.data.get("image")
    if isinstance(mount, str) and (fault := bad_mount_point(mount)):
        yield document.problem(
            ("mount",),
            f"`{mount}` cannot be a mount point: {fault}",
            f"use a path of its own, for example {DEFAULT_MOUNT}",
            reason=Reason.BAD_MOUNT_POINT,
        )
    if isinstance(image, dict) and isinstance(image.get("level"), int):
        compression = image.get("compression", "zstd")
        highest = _LEVELS.get(compression, 0)
        if image["level"] > highest:
            has = f"{compression} has levels 1 to {highest}"
            none = f"the compressor {compression} has no levels"
            message = has if highest else none
            yield document.problem(("image", "level"), message, "leave `level` out or change it")


def make_stack(
    kind: type[AnyKind], data: Mapping[str, Any], facts: Mapping[str, str], ready: str, **made: Any
) -> AnyKind:
    """Return the stack of a recipe that is valid, on a machine with `facts`.

    `ready` describes the view of a recipe that has none; `made` are the engine's own fields.
    """
    views = data.get("views") or {"default": {"description": ready}}
    image = data.get("image", {})
    packing = {"compression": "compression", "level": "compression_level"}
    fields = {
        "architecture": facts["architecture"],
        "views": tuple(_view(name, body or {}) for name, body in views.items()),
        "default_view": data.get("default-view", "default" if "default" in views else None),
        "benchmarks": tuple(data.get("benchmarks", (NATIVE,))),
        "site_facts": {key: facts[key] for key in sorted(facts) if key != "architecture"},
        **{field: image[key] for key, field in packing.items() if key in image},
    }
    return documents.shaped(kind, data, **{**fields, **made})


def _view(name: str, body: Mapping[str, Any]) -> StackView:
    return StackView(
        name=name,
        description=body.get("description", ""),
        env=EnvPatch(
            set=body.get("set", {}),
            unset=tuple(body.get("unset", ())),
            prepend={key: tuple(value) for key, value in body.get("prepend", {}).items()},
            append={key: tuple(value) for key, value in body.get("append", {}).items()},
        ),
    )
