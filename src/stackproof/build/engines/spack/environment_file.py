"""Files of Spack that are no recipe, and environments of a Stackinator recipe of 2023.

What is known not to work is known of them, too, before anybody rewrites them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from stackproof.build.engines.spack import conflicts
from stackproof.build.engines.spack.conflicts import Conflict, ConflictAnswer
from stackproof.build.engines.spack.stack import GitSource, SpackEnvironment, SpackStack
from stackproof.build.engines.spack.stackinator.findings import (
    DocumentPart,
    FindingsList,
    externals,
    mapping,
    strings,
)
from stackproof.build.engines.spack.stackinator.network import missing_external, package_of
from stackproof.core.document import Document
from stackproof.core.errors import Problem
from stackproof.core.versions import parse_spec

NAME = "spack.yaml"
_COMPILER = re.compile(r"%\s*([A-Za-z][\w-]*(?:@[^\s%^+~]+)?)")


def judge_spack(
    document: Document, known: Sequence[Conflict], *others: Document
) -> tuple[Problem, ...]:
    """Return the known conflicts of a file of Spack, and what it asks for and cannot get.

    It is a spack.yaml, or a packages.yaml or compilers.yaml; `others` stand beside it.
    """
    top = mapping(document.data)
    entry = DocumentPart(document, FindingsList(), ("spack",) if "spack" in top else ())
    body = mapping(top["spack"]) if entry.at else top
    packages = mapping(_section(body, "packages"))
    # Those of a definition stand for several.
    specs = tuple(spec for spec in strings(body.get("specs")) if not spec.startswith("$"))
    named = [spec.name for text in specs for spec in parse_spec(text)]
    mpi = next((name for name in named if name in conflicts.MPIS), None)
    stack = SpackStack(
        name=NAME, generation=3, mount="/", spack=GitSource(url=""), architecture="",
        environments=(SpackEnvironment(name=NAME, compilers=(), specs=specs, mpi=mpi),),
        packages=packages,
    )  # fmt: skip
    found = conflicts.find(stack, None, known)
    there = [finding for finding in found if finding.answer is ConflictAnswer.THERE]
    problems, notes = conflicts.split(there, (), {NAME: document.where("spack", "specs")})
    _check_form(entry, body)
    entry.findings.problems += problems
    before = len(entry.findings.problems)
    for name, package in packages.items():
        at = entry.below("packages", name, "externals")
        _check_externals(at, name.rstrip(":"), mapping(package), specs)
    if len(entry.findings.problems) == before:
        compilers = _compilers(body, *(mapping(other.data) for other in others))
        _check_mpi(entry, packages, compilers)
    return (*entry.findings.problems, *notes)


def _section(body: Mapping[str, Any], name: str) -> Any:
    """Return a section; one with `::` takes the place of those in other files."""
    return body.get(name, body.get(f"{name}:"))


def _compilers(*bodies: Mapping[str, Any]) -> list[str]:
    """Return the specs of compilers that files have, in the form of Spack before 1.0."""
    listed = (_section(body, "compilers") for body in bodies)
    entries = [entry for section in listed if isinstance(section, list) for entry in section]
    specs = (mapping(mapping(entry).get("compiler")).get("spec") for entry in entries)
    return [spec for spec in specs if isinstance(spec, str)]


def _check_form(entry: DocumentPart, body: Mapping[str, Any]) -> None:
    """Find sections that stand in themselves, and compilers whose keys stand beside them."""
    for name, section in body.items():
        if isinstance(section, Mapping) and name in section:
            entry.problem(
                (name, name),
                f"`{name}` stands inside `{name}`, where Spack takes it for a name",
                "take one of them off, and move its keys to the left",
            )
        if name.rstrip(":") == "compilers" and isinstance(section, list):
            for number, compiler in enumerate(section):
                if not mapping(mapping(compiler).get("compiler")).get("spec"):
                    entry.problem(
                        (name, number),
                        "this compiler has no `spec`: its keys have to stand below `compiler:`",
                        "indent them two blanks more than `compiler`",
                    )


def _check_mpi(entry: DocumentPart, packages: Mapping[str, Any], compilers: list[str]) -> None:
    """Find that no MPI may be built and no external is one that the compilers here can take."""
    name = next((name for name in ("mpi", "mpi:") if name in packages), "")
    if mapping(packages.get(name)).get("buildable", True) is not False:
        return
    specs = [
        str(external.get("spec", ""))
        for owner, package in packages.items()
        if _is_mpi(owner.rstrip(":"), packages)
        for external in externals(package)
    ]
    of_others = [spec for spec in specs if not _takes_any(spec, compilers)]
    if len(of_others) < len(specs):
        return
    message = "MPI may not be built (`buildable: false`), and this file has no external MPI"
    hint = "name one below its package, `externals:` with `spec` and `prefix`, or let one be built"
    if of_others:
        message = (
            "no MPI fits: none may be built (`buildable: false`), and the external "
            f"`{of_others[0]}` is for another compiler than those here: {', '.join(compilers)}"
        )
        hint = (
            f"name an external for {compilers[0]}, take the compiler out of its spec, or let an "
            "MPI be built; otherwise Spack gives up, or builds without MPI where it is optional"
        )
    entry.problem(("packages", name), message, hint)


def _is_mpi(name: str, packages: Mapping[str, Any]) -> bool:
    """Tell an MPI by our list, by its name, or by the file's own list of providers."""
    providers = mapping(mapping(packages.get("all")).get("providers")).get("mpi")
    named = [spec.name for text in strings(providers) for spec in parse_spec(text)]
    return name in conflicts.MPIS or "mpi" in name or name in named


def _takes_any(external: str, compilers: Sequence[str]) -> bool:
    """Compare the compiler in an external's spec with these; none there takes any."""
    match = _COMPILER.search(external)
    if match is None or not compilers:
        return True
    required = parse_spec(match[1])
    return any(
        spec.name == compiler.name and compiler.versions.within(spec.versions)
        for spec in required
        for text in compilers
        for compiler in parse_spec(text)[:1]
    )


def _check_externals(
    entry: DocumentPart, name: str, package: Mapping[str, Any], specs: Sequence[str]
) -> None:
    """Find externals of other packages, and that none is what is asked for."""
    texts = [external.get("spec") for external in externals(package)]
    parsed = {text: parse_spec(text)[:1] for text in texts if isinstance(text, str)}
    owners = {text: spec.name for text, found in parsed.items() for spec in found}
    strange = [text for text, owner in owners.items() if owner not in ("", name)]
    for text in strange:
        entry.problem(
            (texts.index(text), "spec"),
            f"the external below `{name}` is `{text}`, which Spack never takes for it",
            f"move it below `{owners[text]}`",
        )
    words = [word.lstrip("^") for text in specs for word in text.split()]
    for spec in dict.fromkeys(word for word in words if package_of(word) == name):
        fault = missing_external(spec, {name: package}, NAME) if texts and not strange else None
        if fault is not None:
            message = f"`{spec}` may not be built (`buildable: false`), and no external fits"
            entry.problem((), message, fault[1])


def judge_old(packages: Document, compilers: Document) -> tuple[Problem, ...]:
    """Return environments of 2023 whose compiler stands below another toolchain."""
    toolchains = mapping(mapping(compilers.data).get("compilers"))
    homes = {
        package_of(spec): name
        for name, body in toolchains.items()
        for spec in strings(mapping(body).get("specs"))
    }
    entry = DocumentPart(packages, FindingsList())
    for name, body in mapping(mapping(packages.data).get("packages")).items():
        compiler = mapping(mapping(body).get("compiler"))
        spec, toolchain = compiler.get("spec"), compiler.get("toolchain")
        home = homes.get(package_of(spec)) if isinstance(spec, str) else None
        if home is not None and toolchain in toolchains and home not in (toolchain, "bootstrap"):
            message = f"`{spec}` stands under the toolchain `{toolchain}`, and is one of `{home}`"
            hint = f"compilers.yaml lists it under `{home}`"
            entry.problem(("packages", name, "compiler", "spec"), message, hint)
    return tuple(entry.findings.problems)
