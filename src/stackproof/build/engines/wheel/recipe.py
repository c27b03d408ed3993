"""A recipe for wheels to the stack that it means on a machine, or all reasons why not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from stackproof.build.engines.wheel import engine as wheel_engine
from stackproof.build.engines.wheel.stack import ReplacingMpi, Stack
from stackproof.build.meaning import make_stack, meaning_problems
from stackproof.core import document as documents
from stackproof.core.document import Document
from stackproof.core.errors import Problem, Reason, StackproofError
from stackproof.core.value import replace
from stackproof.mpi import families

# Programs that come with one MPI's own packages.
_COMES_WITH = {
    program: family.name for family in families.REGISTRY.values() for program in family.programs
}


def parse_recipe(document: Document, facts: Mapping[str, str]) -> Stack:
    """Return the stack that a recipe means on a machine.

    `facts` are what the site says, by name: `architecture` is needed; `compiler` and the like are
    kept in the stack, since they decide the bytes of what is compiled. Raises `StackproofError`
    with every problem of the document, else with every reason why it cannot be had there.
    """
    problems = [*documents.problems(document, "recipe")]
    if isinstance(document.data, dict):
        problems += meaning_problems(document)
        problems += _package_problems(document)
    if problems:
        raise StackproofError(*problems)
    data = document.data
    stack = make_stack(
        Stack,
        data,
        facts,
        "the MPI, ready to use",
        engine="wheel",
        mpi_family=data["mpi"]["family"],
        requirements=families.REGISTRY[data["mpi"]["family"]].wheels(data["mpi"].get("version")),
        replacement=_replacing(data["replacement"]) if "replacement" in data else None,
        programs=(),
    )
    problems = [*wheel_engine.index_problems(stack), *_benchmark_problems(stack)]
    problems += _replacement_problems(stack)
    if problems:
        raise placed(StackproofError(*problems), document)
    return stack


def placed(error: StackproofError, document: Document, key: str = "mpi") -> StackproofError:
    """Give problems of a resolution the place in the recipe that they are about."""
    keys = {Reason.UNKNOWN_VERSION: (key, "version"), Reason.UNSUPPORTED: (key, "family")}
    return StackproofError(
        *(
            replace(p, where=document.where(*keys[p.reason]))
            if p.where is None and p.reason in keys
            else p
            for p in error.problems
        )
    )


def _package_problems(document: Document) -> Iterator[Problem]:
    packages = document.data.get("packages")
    for index, text in enumerate(packages if isinstance(packages, list) else []):
        if isinstance(text, str) and (fault := _requirement_fault(text)):
            yield document.problem(
                ("packages", index),
                f"`{text}` is not a package requirement: {fault}",
                "write a name and a version, for example mpi4py==4.1.0",
            )


def _requirement_fault(text: str) -> str | None:
    from packaging.requirements import InvalidRequirement, Requirement  # noqa: PLC0415 - slow

    try:
        requirement = Requirement(text)
    except InvalidRequirement as error:
        return str(error).splitlines()[0]
    if requirement.url:
        return "an address is not allowed, since a lock pins what the package index serves"
    if requirement.marker:
        return "markers are not allowed"
    return None


def _replacing(wish: Mapping[str, Any]) -> ReplacingMpi:
    requirements = families.REGISTRY[wish["family"]].wheels(wish.get("version"))
    return ReplacingMpi(family=wish["family"], requirements=requirements)


def _replacement_problems(stack: Stack) -> Iterator[Problem]:
    own = families.REGISTRY[stack.mpi_family]
    other = families.REGISTRY[stack.replacement.family] if stack.replacement else own
    if own.abi != other.abi:
        yield Problem(
            reason=Reason.UNSUPPORTED,
            message=f"programs that {own.title} compiled do not run on {other.title}",
            hint=f"take an MPI with the ABI of {families.REGISTRY[own.abi].title} as `replacement`,"
            " or ask for the other one as `mpi`",
        )


def _benchmark_problems(stack: Stack) -> Iterator[Problem]:
    for name in stack.benchmarks:
        if _COMES_WITH.get(name, stack.mpi_family) != stack.mpi_family:
            yield Problem(
                reason=Reason.UNSUPPORTED,
                message=f"the program {name} does not come with {stack.mpi_family}",
                hint=f"it is part of {_COMES_WITH[name]}; a bench can take it from that image "
                "with `program-image`",
            )
