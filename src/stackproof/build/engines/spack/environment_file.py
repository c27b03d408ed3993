"""Environments that are no recipe: a spack.yaml, and those in a Stackinator recipe of 2023.

What is known not to work is known of them, too, before anybody rewrites them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from stackproof.build.engines.spack import conflicts
from stackproof.build.engines.spack.conflicts import Conflict, ConflictAnswer
from stackproof.build.engines.spack.stack import GitSource, SpackEnvironment, SpackStack
from stackproof.build.engines.spack.stackinator.externals import missing_external
from stackproof.build.engines.spack.stackinator.findings import mapping, strings
from stackproof.build.engines.spack.stackinator.network import package_of
from stackproof.core.document import Document
from stackproof.core.errors import Problem
from stackproof.core.versions import parse_spec

NAME = "spack.yaml"


def judge(document: Document, known: Sequence[Conflict]) -> tuple[Problem, ...]:
    """Return the known conflicts of a spack.yaml, and what it asks for and cannot get."""
    body = mapping(mapping(document.data).get("spack"))
    packages = mapping(body.get("packages"))
    # Those of a definition stand for several.
    specs = tuple(spec for spec in strings(body.get("specs")) if not spec.startswith("$"))
    named = [spec.name for text in specs for spec in parse_spec(text)]
    mpi = next((name for name in named if name in conflicts.MPIS), None)
    stack = SpackStack(
        name=NAME, generation=3, mount="/", spack=GitSource(url=""), architecture="",
        environments=(SpackEnvironment(name=NAME, compilers=(), specs=specs, mpi=mpi),),
        packages=packages,
    )  # fmt: skip
    findings = conflicts.find(stack, None, known)
    there = [finding for finding in findings if finding.answer is ConflictAnswer.THERE]
    problems, notes = conflicts.split(there, (), {NAME: document.where("spack", "specs")})
    externals = [
        problem
        for name, package in packages.items()
        for problem in _external_problems(document, name, mapping(package), specs)
    ]
    return (*problems, *externals, *notes)


def _external_problems(
    document: Document, name: str, package: dict[str, Any], specs: Sequence[str]
) -> Iterator[Problem]:
    """Yield externals of other packages, and that none is what is asked for."""
    path = ("spack", "packages", name, "externals")
    name = name.rstrip(":")  # `NAME::` takes the place of what other files say
    entries = package.get("externals")
    texts = [mapping(entry).get("spec") for entry in (entries if isinstance(entries, list) else ())]
    parsed = {text: parse_spec(text)[:1] for text in texts if isinstance(text, str)}
    owners = {text: spec.name for text, found in parsed.items() for spec in found}
    strange = [text for text, owner in owners.items() if owner not in ("", name)]
    for text in strange:
        yield document.problem(
            (*path, texts.index(text), "spec"),
            f"the external below `{name}` is `{text}`, which Spack never takes for it",
            f"move it below `{owners[text]}`",
        )
    words = [word.lstrip("^") for text in specs for word in text.split()]
    for spec in dict.fromkeys(word for word in words if package_of(word) == name):
        fault = missing_external(spec, {name: package}, NAME) if texts and not strange else None
        if fault is not None:
            message = f"`{spec}` may not be built (`buildable: false`), and no external fits"
            yield document.problem(path, message, fault[1])


def judge_old(packages: Document, compilers: Document) -> tuple[Problem, ...]:
    """Return environments of 2023 whose compiler stands below another toolchain."""
    toolchains = mapping(mapping(compilers.data).get("compilers"))
    homes = {
        package_of(spec): name
        for name, body in toolchains.items()
        for spec in strings(mapping(body).get("specs"))
    }
    found = []
    for name, body in mapping(mapping(packages.data).get("packages")).items():
        compiler = mapping(mapping(body).get("compiler"))
        spec, toolchain = compiler.get("spec"), compiler.get("toolchain")
        home = homes.get(package_of(spec)) if isinstance(spec, str) else None
        if home is not None and toolchain in toolchains and home not in (toolchain, "bootstrap"):
            message = f"`{spec}` stands under the toolchain `{toolchain}`, and is one of `{home}`"
            hint = f"compilers.yaml lists it under `{home}`"
            found.append(packages.problem(("packages", name, "compiler", "spec"), message, hint))
    return tuple(found)
