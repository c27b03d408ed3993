"""Versions that are known not to work together, and whether a Spack stack asks for them.

Before a lock there are only the recipe's constraints: a conflict is found when they allow nothing
else, and cannot be told when they leave it open. A lock has exact versions and decides.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum, StrEnum
from typing import Any

from stackproof.build.engines.spack import locks, mpis
from stackproof.build.engines.spack.locks import SolvedPackage
from stackproof.build.engines.spack.stack import SpackEnvironment, SpackLock, SpackStack
from stackproof.build.engines.spack.stackinator.findings import externals
from stackproof.core import document as documents
from stackproof.core.document import Document
from stackproof.core.errors import Location, Problem, Reason, StackproofError
from stackproof.core.value import Value, replace
from stackproof.core.versions import ANY, PackageSpec, Versions, parse_spec, versions

SCHEMA = "conflicts"
MPIS = frozenset((*mpis.FAMILIES, "mvapich-plus"))
"""Packages that are an MPI: an environment that names one gets no other.

Source: `provides("mpi")` in the packages of https://github.com/spack/spack-packages.
"""


class ConflictSeverity(StrEnum):
    """Whether a conflict makes a stack useless, or only worse."""

    ERROR = "error"
    WARNING = "warning"


class ConflictAnswer(IntEnum):
    """Whether a stack has a conflict; of several answers the least counts."""

    NOT_THERE = 0
    CANNOT_TELL = 1
    THERE = 2


class Conflict(Value):
    """Packages that do not work together; `sources` are public addresses."""

    id: str
    severity: ConflictSeverity
    packages: tuple[PackageSpec, ...]
    reason: str
    remedy: str
    sources: tuple[str, ...]


class ConflictFinding(Value):
    """The answer for one conflict in one environment."""

    conflict: Conflict
    environment: str
    answer: ConflictAnswer
    versions: tuple[str, ...] = ()


def parse_conflicts(document: Document) -> tuple[Conflict, ...]:
    """Return the conflicts that a document of ours lists; raises `StackproofError` for its form."""
    if found := documents.problems(document, SCHEMA):
        raise StackproofError(*found)
    sources = document.data["sources"]
    return tuple(
        Conflict(
            id=entry["id"],
            severity=ConflictSeverity(entry["severity"]),
            packages=tuple(_package(package) for package in entry["packages"]),
            reason=entry["reason"],
            remedy=entry["remedy"],
            sources=tuple(sources[name]["url"] for name in entry["sources"]),
        )
        for entry in document.data["conflicts"]
    )


def _package(entry: Mapping[str, Any]) -> PackageSpec:
    return PackageSpec(
        entry["name"],
        versions(entry["versions"]) if "versions" in entry else ANY,
        {name: frozenset(values) for name, values in entry.get("variants", {}).items()},
    )


class _Package(Value):
    """What is known of a package of an environment: every constraint on it, or the exact one.

    `exact` says that `constraints` is one solved package. `there` is False for a package that
    is only mentioned in settings, which may not be part of the environment at all.
    """

    constraints: tuple[PackageSpec, ...]
    exact: bool
    there: bool


def find(
    stack: SpackStack, lock: SpackLock | None, conflicts: Sequence[Conflict]
) -> tuple[ConflictFinding, ...]:
    """Return every conflict that is there or cannot be told, for each environment."""
    found: dict[tuple[str, str], ConflictFinding] = {}
    for environment in stack.environments:
        folder = f"environments/{environment.name}"
        content = lock.environments.get(folder) if lock else None
        asked = [_asked(stack, environment)]
        places = asked if content is None else _solved(content, stack, environment)
        for known, conflict in itertools.product(places, conflicts):
            answer = _answer(conflict, known, environment.mpi, exact=content is not None)
            if answer is not ConflictAnswer.NOT_THERE:
                finding = ConflictFinding(
                    conflict=conflict,
                    environment=environment.name,
                    answer=answer,
                    versions=_named(conflict, known),
                )
                found.setdefault((environment.name, conflict.id), finding)
    return tuple(found.values())


def _solved(
    content: Mapping[str, Any], stack: SpackStack, environment: SpackEnvironment
) -> Iterator[dict[str, _Package]]:
    """Yield the packages of a solution that run together.

    Those are all of an environment that Spack unifies, otherwise each root with what it needs
    when it runs. Packages that only build others are left out: there may be several of one name.
    """
    nodes, roots = locks.nodes(content, stack.mount), locks.roots(content)
    for together in [roots] if environment.unify == "true" else [(root,) for root in roots]:
        yield {
            node.name: _Package(constraints=(_exact(node),), exact=True, there=True)
            for node in locks.needed(together, nodes)
        }


def _exact(node: SolvedPackage) -> PackageSpec:
    variants = {key: frozenset(locks.list_values(value)) for key, value in node.variants.items()}
    return PackageSpec(node.name, versions(f"={node.version}"), variants)


def _asked(stack: SpackStack, environment: SpackEnvironment) -> dict[str, _Package]:
    """Return the packages that an environment's specs and the settings of packages name."""
    asked: dict[str, list[PackageSpec]] = {}
    for text in environment.specs:
        for spec in parse_spec(text):
            asked.setdefault(spec.name, []).append(spec)
    roots = set(asked)
    for name, body in stack.packages.items():
        if name == "all" or not isinstance(body, Mapping):
            continue
        for text in _requirements(body):
            asked.setdefault(name, []).extend(parse_spec(text, name)[:1])
        outside = _outside(name, body)
        if outside is not None:
            asked.setdefault(name, []).append(outside)
    for spec in [parse_spec(text, "all")[0] for text in environment.variants]:
        for name in roots:
            asked[name].append(PackageSpec(name, ANY, spec.variants))
    return {
        name: _Package(constraints=tuple(specs), exact=False, there=name in roots)
        for name, specs in asked.items()
    }


def _outside(name: str, body: Mapping[str, Any]) -> PackageSpec | None:
    """Return what is known of a package that the machine has and Spack may not build."""
    if body.get("buildable", True):
        return None
    texts = [external.get("spec") for external in externals(body)]
    specs = [spec for text in texts if isinstance(text, str) for spec in parse_spec(text)[:1]]
    if len(specs) == 1:
        return specs[0]
    ranges = tuple(one for spec in specs for one in spec.versions.ranges)
    known = all(spec.versions.known for spec in specs)
    return PackageSpec(name, Versions(ranges, known)) if specs else None


def _requirements(body: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is required of a package in every case.

    Alternatives (`any_of`) and what holds under a condition (`when`) bind nothing by themselves.
    """
    require = body.get("require")
    entries = require if isinstance(require, list) else [require]
    for entry in entries:
        if isinstance(entry, str):
            yield entry
        elif isinstance(entry, Mapping) and "when" not in entry:
            yield from (text for text in [entry.get("spec")] if isinstance(text, str))


def _concerns(conflict: Conflict, known: Mapping[str, _Package], mpi: str | None) -> bool:
    """Return whether a package of a conflict is there, and no MPI that cannot be there."""
    there = {name for name, package in known.items() if package.there}
    names = {package.name for package in conflict.packages}
    absent = {name for name in names & MPIS if mpi and name != mpi and name not in there}
    return bool(names & there) and not absent


def _answer(
    conflict: Conflict, known: Mapping[str, _Package], mpi: str | None, *, exact: bool
) -> ConflictAnswer:
    """Return whether all packages of a conflict are there in the way that it names."""
    if not _concerns(conflict, known, mpi):
        return ConflictAnswer.NOT_THERE
    answers = []
    for wanted in conflict.packages:
        package = known.get(wanted.name)
        if package is None:
            # Not named: with a lock it is not there; before, it may come as a dependency.
            answers.append(ConflictAnswer.NOT_THERE if exact else ConflictAnswer.CANNOT_TELL)
            continue
        answers.append(_versions_answer(wanted, package))
        answers += [
            _variant_answer(name, values, package) for name, values in wanted.variants.items()
        ]
        if not package.there:
            answers.append(ConflictAnswer.CANNOT_TELL)
    return min(answers)


def _versions_answer(wanted: PackageSpec, package: _Package) -> ConflictAnswer:
    if any(not mine.versions.meets(wanted.versions) for mine in package.constraints):
        return ConflictAnswer.NOT_THERE
    if any(mine.versions.within(wanted.versions) for mine in package.constraints):
        return ConflictAnswer.THERE
    return ConflictAnswer.CANNOT_TELL


def _variant_answer(name: str, values: frozenset[str], package: _Package) -> ConflictAnswer:
    named = [mine.variants[name] for mine in package.constraints if name in mine.variants]
    given = frozenset().union(*named)
    if values <= given:
        return ConflictAnswer.THERE
    if package.exact or (given & {"true", "false"}):
        return ConflictAnswer.NOT_THERE
    return ConflictAnswer.CANNOT_TELL


def _named(conflict: Conflict, known: Mapping[str, _Package]) -> tuple[str, ...]:
    """Return the packages of a conflict with the versions that the stack has, in words."""
    found = []
    for name in dict.fromkeys(package.name for package in conflict.packages):
        constraints = known[name].constraints if name in known else ()
        texts = [text for one in constraints if (text := _text(one.versions))]
        found.append(f"{name}@{','.join(dict.fromkeys(texts))}" if texts else name)
    return tuple(found)


def _text(asked: Versions) -> str:
    words = []
    for one in asked.ranges:
        low, high = (".".join(map(str, end or ())) for end in (one.low, one.high))
        words.append(low if low == high else f"{low}:{high}")
    return "" if words in ([":"], [""]) else ",".join(dict.fromkeys(words))


def split(
    findings: Sequence[ConflictFinding], accepted: Sequence[str], where: Mapping[str, Location]
) -> tuple[tuple[Problem, ...], tuple[Problem, ...]]:
    """Return problems and notes: what is there and not accepted, and the rest.

    What is only worse is no longer mentioned once it is accepted. `where` has the place of each
    environment's specs. What cannot be told is one note for each environment.
    """
    problems: list[Problem] = []
    notes: list[Problem] = []
    open_ones: dict[str, list[str]] = {}
    for finding in findings:
        if finding.answer is ConflictAnswer.CANNOT_TELL:
            # Only where the stack names a package of the conflict with a version.
            named = any("@" in name for name in finding.versions)
            if finding.conflict.severity is ConflictSeverity.ERROR and named:
                open_ones.setdefault(finding.environment, []).append(finding.conflict.id)
            continue
        conflict = finding.conflict
        problem = Problem(
            reason=Reason.UNSUPPORTED,
            message=f"{' with '.join(finding.versions)} in `{finding.environment}`: "
            f"{conflict.reason} ({conflict.id}; {', '.join(conflict.sources)})",
            hint=conflict.remedy,
            where=where.get(finding.environment),
        )
        refused = conflict.severity is ConflictSeverity.ERROR
        if conflict.id not in accepted:
            (problems if refused else notes).append(problem)
        elif refused:
            notes.append(replace(problem, message=f"accepted: {problem.message}"))
    for environment, ids in open_ones.items():
        notes.append(
            Problem(
                reason=Reason.UNSUPPORTED,
                message=f"whether `{environment}` has these known conflicts cannot be told before "
                f"there is a lock: {', '.join(ids)}",
                where=where.get(environment),
            )
        )
    return tuple(problems), tuple(notes)
