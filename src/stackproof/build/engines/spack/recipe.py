"""A recipe of stackproof's own format with `engine: spack` to the Spack stack it means.

The words inside `compilers`, `environments`, `packages` and `modules` are those of Stackinator's
recipes, so what they mean is decided in one place, `stackproof.build.engines.spack.stackinator`:
the one document is handed there in parts, each of which keeps the file, line and column of every
value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import field

from stackproof.build.engines.spack import mpis
from stackproof.build.engines.spack.problems import unstated_vendors
from stackproof.build.engines.spack.stack import SpackEnvironment, SpackStack, Splice
from stackproof.build.engines.spack.stackinator.cluster import ClusterConfig
from stackproof.build.engines.spack.stackinator.config import read_config
from stackproof.build.engines.spack.stackinator.findings import FindingsList, Folder, mapping
from stackproof.build.engines.spack.stackinator.network import (
    is_there,
    missing_external,
    not_stated,
    package_of,
)
from stackproof.build.engines.spack.stackinator.reader import read_recipe
from stackproof.build.engines.spack.stackinator.versions import LANGUAGES
from stackproof.build.engines.wheel.recipe import image_problems
from stackproof.core import document as documents
from stackproof.core.document import Document, Path
from stackproof.core.errors import Location, Problem, Reason
from stackproof.core.value import replace
from stackproof.recipe.composition import Composed, parts

SCHEMA = "spack-recipe"
DEFAULT_GENERATION = 2
FORMAT = "stackproof recipe"
"""How `SpackStack.source` begins for recipes of this format."""

# Where the documents of a Stackinator recipe are in ours: path there -> path here.
_CONFIG: Mapping[str, str] = {
    "name": "name",
    "store": "mount",
    "spack": "spack",
    "version": "generation",
    "description": "description",
    "default-view": "default-view",
    "cleanup": "cleanup",
    "modules": "modules",
}
# What messages on Stackinator's files are called where there is one file only.
_WORDS = {
    "and config.yaml says version": "and `generation` here is",
    "is not in compilers.yaml": "is not under `compilers`",
    "`version: 3` in config.yaml": "`generation: 3`",
    "under `gcc` of compilers.yaml": "under `gcc` of `compilers`",
    "of compilers.yaml": "of `compilers`",
    "name one of compilers.yaml": "name one of `compilers`",
    "the packages.yaml of the recipe": "`packages` of the recipe",
    "in a packages.yaml": "under `packages` here or in the site's packages.yaml",
    "the presence of modules.yaml": "the presence of `modules`",
}


class RecipeFolder(Folder):
    """The files that go with a recipe, laid out as Stackinator has them.

    `places` says what a file is called by people, where that is not its path in the folder.
    """

    places: Mapping[str, str] = field(default_factory=dict)

    def place(self, name: str) -> str:
        """Return the path of one of its files as people know it."""
        return self.places.get(name, self.path)


class PartFindings(FindingsList):
    """Findings on one document that is read in parts, each under the name it has as a file."""

    def __init__(self, documents_by_name: Mapping[str, Document]) -> None:
        super().__init__()
        self._documents = documents_by_name

    def parse(self, folder: Folder, name: str) -> Document | None:
        """Return the part that stands for a file; None when the recipe has none."""
        del folder
        return self._documents.get(name)

    def parse_needed(
        self, folder: Folder, name: str, what: str, hint: str | None = None
    ) -> Document | None:
        """Return the part that stands for a file; the schema has said that it is missing."""
        del what, hint
        return self.parse(folder, name)

    def problem(
        self, reason: Reason, message: str, *, where: Location, hint: str | None = None
    ) -> None:
        """Add a problem, in the words of the one document."""
        super().problem(reason, _reworded(message), where=where, hint=hint and _reworded(hint))

    def note(self, message: str, *, where: Location, hint: str | None = None) -> None:
        """Add a note, in the words of the one document."""
        super().note(_reworded(message), where=where, hint=hint and _reworded(hint))


def generation_of(data: Mapping[str, Any]) -> int:
    """Return the generation that a recipe says, the default where it says none or a wrong one."""
    value = data.get("generation", DEFAULT_GENERATION)
    return value if value in LANGUAGES and not isinstance(value, bool) else DEFAULT_GENERATION


def problems(composed: Composed, chain: tuple[Document, ...]) -> tuple[Problem, ...]:
    """Return what is wrong with the form of a recipe, all of it at once.

    Parts whose condition does not hold are looked at too, unless the generation itself depends on
    a condition; only there may keys be missing.
    """
    found = list(_form_problems(composed.document, generation_of(composed.document.data)))
    pieces = [part for one in chain for part in parts(one)]
    if len({generation_of(part.data) for part in pieces if "generation" in part.data}) <= 1:
        for part in pieces:
            inner = generation_of({**composed.document.data, **part.data})
            found += [
                problem
                for problem in _form_problems(_without_removals(_without_repositories(part)), inner)
                if problem.reason is not Reason.MISSING_KEY
            ]
    found += image_problems(composed.document)
    unique = {(p.reason, p.message, p.where): p for p in found}
    return tuple(sorted(unique.values(), key=_place))


def _without_repositories(part: Document) -> Document:
    """Return a part without `spack: packages:`, whose form can only be told when it is whole."""
    spack = part.data.get("spack")
    if not isinstance(spack, dict):
        return part
    kept = {key: value for key, value in spack.items() if key != "packages"}
    return replace(part, data={**part.data, "spack": kept})


def _without_removals(part: Document) -> Document:
    """Return a part without keys that are null: they remove something that another part set.

    A null that removes nothing is still there in the composed document, and judged there.
    """
    return replace(part, data=_without_null(part.data))


def _without_null(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _without_null(value) for key, value in data.items() if value is not None}
    return data


def _place(problem: Problem) -> tuple[str, int, int]:
    where = problem.where or Location(file="")
    return where.file, where.line, where.column


def _form_problems(document: Document, generation: int) -> Iterator[Problem]:
    own = documents.problems(document, SCHEMA)
    yield from own
    places = {problem.where for problem in own}
    language = LANGUAGES[generation]
    inner = split(document)
    for name, schema in (
        ("config.yaml", language.config),
        ("compilers.yaml", language.compilers),
        ("environments.yaml", language.environments),
        ("packages.yaml", "stackinator-packages"),
        ("modules.yaml", "stackinator-modules"),
    ):
        part = inner.get(name)
        if part is not None and isinstance(part.data, dict):
            findings = PartFindings({})
            findings.check(part, schema, generation)
            for problem in findings.problems:
                if problem.where not in places:
                    hint = problem.hint and _reworded(problem.hint)
                    yield replace(problem, hint=hint)


def split(document: Document) -> dict[str, Document]:
    """Return the parts of a recipe as the documents of a Stackinator recipe, by file name."""
    data = mapping(document.data)
    found = {"config.yaml": _config(document)}
    for key in ("compilers", "environments"):
        if key in data:
            positions = _moved(document, (key,), ())
            found[f"{key}.yaml"] = Document(file=document.file, data=data[key], positions=positions)
    if data.get("packages") is not None:
        inner = {"packages": data["packages"]}
        found["packages.yaml"] = replace(document, data=inner)
    modules = data.get("modules")
    if modules is True and generation_of(data) > 1:
        modules = {}
    if isinstance(modules, dict):
        found["modules.yaml"] = replace(document, data={"modules": modules})
    return found


def _config(document: Document) -> Document:
    own = mapping(document.data)
    data: dict[str, Any] = {"version": generation_of(own)}
    positions: dict[Path, Location] = {(): document.where()}
    for there, here in _CONFIG.items():
        if here in own and here not in {"generation", "modules"}:
            data[there] = own[here]
        positions |= _moved(document, (here,), (there,))
    if generation_of(own) == 1:
        data["modules"] = bool(own.get("modules"))
    return Document(file=document.file, data=data, positions=positions)


def _moved(document: Document, old: Path, new: Path) -> dict[Path, Location]:
    """Return the places of everything below `old`, as they are below `new`."""
    size = len(old)
    return {
        (*new, *path[size:]): place
        for path, place in document.positions.items()
        if path[:size] == old
    }


def read(
    composed: Composed,
    folder: RecipeFolder,
    cluster: ClusterConfig,
    facts: Mapping[str, str],
) -> tuple[SpackStack, PartFindings]:
    """Return the stack that a recipe of good form means on a cluster, and what was found.

    With any problem in the findings the stack is not to be used. `facts` are those of the site
    that it is built for, `architecture` always.
    """
    document = composed.document
    data = document.data
    inner = split(document)
    findings = PartFindings(inner)
    names = dict.fromkeys(inner, b"")
    whole = replace(folder, texts={**folder.texts, **names})
    config = read_config(whole, None, findings)
    if config is None:
        raise AssertionError("a recipe of good form has a generation")
    stack = read_recipe(whole, config, cluster, facts["architecture"], findings)
    image = mapping(data.get("image"))
    stack = _spliced(stack, document, cluster, findings)
    extended = replace(
        stack,
        version=data.get("version", "0"),
        target=_target(document, facts, cluster, findings),
        transports=tuple(data.get("transports", ())),
        compression=image.get("compression", stack.compression),
        compression_level=image.get("level", stack.compression_level),
        source=f"{FORMAT}, generation {stack.generation}",
        site_facts={**stack.site_facts, **_fabric(document, facts)},
    )
    if cluster.site_file:
        for environment, name in unstated_vendors(extended):
            where = document.where("environments", environment, "network", "mpi")
            message, hint = not_stated(name, cluster)
            findings.problem(Reason.SITE_INCOMPLETE, message, where=where, hint=hint)
    return extended, findings


def _spliced(
    stack: SpackStack, document: Document, cluster: ClusterConfig, findings: FindingsList
) -> SpackStack:
    """Return the stack with the MPIs of `splice:` put under its environments."""
    asked = mapping(document.data.get("splice"))
    known = {one.name for one in stack.environments}
    for name in asked.keys() - known:
        there = f"there are: {', '.join(sorted(known))}" if known else None
        message = f"there is no environment `{name}` to be spliced"
        where = document.where("splice", name)
        findings.problem(Reason.INVALID_VALUE, message, where=where, hint=there)
    environments = tuple(
        splice(one, stack, document, cluster, findings) if one.name in asked else one
        for one in stack.environments
    )
    return replace(stack, environments=environments)


def asks_for_microarchitecture(document: Document) -> bool:
    """Return whether a recipe is built for the microarchitecture of its site (`target: site`)."""
    return bool(document.data.get("target") == "site")


def _fabric(document: Document, facts: Mapping[str, str]) -> dict[str, str]:
    """Return what joins the nodes, where the profiles of transports come out by it."""
    asked = "fabric" in facts and document.data.get("transports")
    return {"fabric": facts["fabric"]} if asked else {}


def _target(
    document: Document, facts: Mapping[str, str], cluster: ClusterConfig, findings: FindingsList
) -> str | None:
    if not asks_for_microarchitecture(document):
        target: str | None = document.data.get("target")
        return target
    if "microarchitecture" not in facts:
        site = facts.get("site", "the site")
        hint = "give it with `--fact microarchitecture=NAME`, as `spack arch --target` says"
        if cluster.site_file:
            from stackproof.site import missing  # noqa: PLC0415 - slow, and for what is missing

            asking = missing.command(cluster.site_file)
            hint = f"`{asking}` in a job asks the machine; or {hint}"
        findings.problem(
            Reason.SITE_INCOMPLETE,
            f"`{site}` does not state its microarchitecture, and `target: site` asks for it",
            where=document.where("target"),
            hint=hint,
        )
    return facts.get("microarchitecture")


def _reworded(text: str) -> str:
    for old, new in _WORDS.items():
        text = text.replace(old, new)
    return text


def splice(
    environment: SpackEnvironment,
    stack: SpackStack,
    document: Document,
    cluster: ClusterConfig,
    findings: FindingsList,
) -> SpackEnvironment:
    """Return an environment with the MPI that `splice:` names in the place of its own.

    What its own network gets beside the MPI, the other MPI gets too, so that both have one.
    """
    where = document.where("splice", environment.name)
    spec = str(document.data["splice"][environment.name]).strip()
    own = mapping(document.data["environments"][environment.name]).get("specs") or ()
    network = environment.specs[len(own) :]
    if environment.mpi is None or not network:
        message = f"environment `{environment.name}` has no MPI to be spliced"
        findings.problem(Reason.INVALID_VALUE, message, where=where)
        return environment
    if stack.generation > 1 and not is_there(spec, cluster, findings, where):
        return environment
    if fault := missing_external(spec, stack.packages, cluster.name):
        findings.problem(Reason.INVALID_VALUE, fault[0], where=where, hint=fault[1])
    name, others = package_of(spec), environment.mpi
    reason = mpis.no_splice(
        stack.generation, stack.spack.commit, mpis.release(network[0]), mpis.release(spec)
    )
    if reason:
        hint = "write it as the MPI of the environment: then everything is built with it"
        findings.problem(Reason.UNSUPPORTED, reason, where=where, hint=hint)
    about = [one for one in environment.specs[: len(own)] if package_of(one) == others]
    if about and name != others:
        message = f"`{about[0]}` is about the MPI that `{spec}` takes the place of"
        findings.problem(Reason.INVALID_VALUE, message, where=where)
    return replace(
        environment,
        specs=tuple(one for one in environment.specs if one not in (*about, network[0])),
        mpi=name,
        mpi_requirement=None,
        splice=Splice(
            mpi=others,
            built_with=(network[0], *about),
            specs=(spec, *about, *network[1:]),
        ),
    )
