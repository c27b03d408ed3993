"""A recipe with `engine: guix` to the stack it means on a machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from stackproof.build.engines.guix import scheme
from stackproof.build.engines.guix.stack import Channel, GuixStack
from stackproof.build.engines.wheel.recipe import ImageWish, meaning_problems, view_wish
from stackproof.build.stack import StackView
from stackproof.core import document as documents
from stackproof.core.document import Document
from stackproof.core.errors import Problem, StackproofError
from stackproof.core.value import replace

SCHEMA = "guix-recipe"
_DEFAULT: Mapping[str, Any] = {"default": {"description": "the packages, ready to use"}}


def parse_guix_recipe(document: Document, facts: Mapping[str, str]) -> GuixStack:
    """Return the stack that a recipe means on a machine.

    `facts` are `architecture` and others of the site. Raises `StackproofError` with every problem.
    """
    problems = [*documents.problems(document, SCHEMA)]
    if isinstance(document.data, dict):
        own = {key: value for key, value in document.data.items() if key != "packages"}
        problems += meaning_problems(replace(document, data=own))
    if not problems:
        stack = _stack(document.data, facts)
        problems += _machine_problems(stack, document)
    if problems:
        raise StackproofError(*problems)
    return stack


def _machine_problems(stack: GuixStack, document: Document) -> Iterator[Problem]:
    if stack.architecture not in scheme.SYSTEMS:
        yield document.problem(
            ("engine",),
            f"Guix builds nothing for {stack.architecture}",
            f"the machines are: {', '.join(scheme.SYSTEMS)}",
        )


def _stack(data: Mapping[str, Any], facts: Mapping[str, str]) -> GuixStack:
    mpi, image = data["mpi"], ImageWish(**data.get("image", {}))
    wishes = (view_wish(name, body or {}) for name, body in (data.get("views") or _DEFAULT).items())
    views = tuple(
        StackView(name=wish.name, description=wish.description, env=wish.env) for wish in wishes
    )
    names = [view.name for view in views]
    return documents.shaped(
        GuixStack,
        data,
        mpi_family=mpi["family"],
        mpi_package=mpi.get("package", mpi["family"]),
        mpi_version=mpi.get("version", ""),
        channels=tuple(_channel(name, body) for name, body in sorted(data["channels"].items())),
        architecture=facts["architecture"],
        views=views,
        default_view=data.get("default-view", "default" if "default" in names else None),
        compression=image.compression,
        compression_level=image.level,
        site_facts={key: value for key, value in facts.items() if key != "architecture"},
    )


def _channel(name: str, body: Mapping[str, Any]) -> Channel:
    introduction = body.get("introduction", {})
    return Channel(
        name=name,
        url=body["url"],
        commit=body["commit"],
        branch=body.get("branch", ""),
        introduced=introduction.get("commit", ""),
        fingerprint=introduction.get("fingerprint", ""),
    )
