"""A recipe of stackproof's own format with `engine: spack` to the Spack stack it means.

The words inside `compilers`, `environments`, `packages` and `modules` are those of Stackinator's
recipes, so what they mean is decided in one place, `stackproof.build.engines.spack.stackinator`:
the one document is handed there in parts, each of which keeps the file, line and column of every
value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from stackproof.build.engines.spack import mpis
from stackproof.build.engines.spack.stack import SpackEnvironment, SpackStack, Splice
from stackproof.build.engines.spack.stackinator.cluster import ClusterConfig
from stackproof.build.engines.spack.stackinator.config import read_config
from stackproof.build.engines.spack.stackinator.findings import (
    DocumentPart,
    FindingsList,
    Folder,
    mapping,
)
from stackproof.build.engines.spack.stackinator.network import (
    is_there,
    missing_external,
    not_stated,
    package_of,
    unstated_vendors,
)
from stackproof.build.engines.spack.stackinator.reader import read_recipe
from stackproof.build.engines.spack.stackinator.versions import LANGUAGES
from stackproof.build.meaning import image_problems
from stackproof.core import document as documents
from stackproof.core.document import Document, Path
from stackproof.core.errors import Location, Problem, Reason
from stackproof.core.value import replace
from stackproof.recipe.composition import Composed, parts

SCHEMA = "spack-recipe"
DEFAULT_GENERATION = 2
FORMAT = "stackproof recipe"
"""How `SpackStack.source` begins for recipes of this format."""

# The keys of config.yaml as they are called here, and what is called differently there.
_CONFIG = (
    "name", "mount", "spack", "generation", "description", "default-view", "cleanup", "modules",
)  # fmt: skip
_THERE = {"mount": "store", "generation": "version"}


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
                for problem in _form_problems(_as_part(part), inner)
                if problem.reason is not Reason.MISSING_KEY
            ]
    found += image_problems(composed.document)
    unique = {(p.reason, p.message, p.where): p for p in found}
    return tuple(sorted(unique.values(), key=_place))


def _as_part(part: Document) -> Document:
    """Return what the form of a part can be told of.

    Keys that are null remove something that another part set; one that removes nothing is still
    there in the composed document, and judged there, as the form of `spack: packages:` is.
    """
    data = _without_null(part.data)
    spack = data.get("spack")
    if isinstance(spack, dict):
        data["spack"] = {key: value for key, value in spack.items() if key != "packages"}
    return replace(part, data=data)


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
        ("config.yaml", language.schema("config")),
        ("compilers.yaml", language.schema("compilers")),
        ("environments.yaml", language.schema("environments")),
        ("packages.yaml", "stackinator-packages"),
        ("modules.yaml", "stackinator-modules"),
    ):
        part = inner.get(name)
        if part is not None and isinstance(part.data, dict):
            findings = FindingsList(one_file=True)
            findings.check(part, schema, generation)
            yield from (p for p in findings.problems if p.where not in places)


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
    for here in _CONFIG:
        there = _THERE.get(here, here)
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
    folder: Folder,
    cluster: ClusterConfig,
    facts: Mapping[str, str],
) -> tuple[SpackStack, FindingsList]:
    """Return the stack that a recipe of good form means on a cluster, and what was found.

    With any problem in the findings the stack is not to be used. `facts` are those of the site
    that it is built for, `architecture` always.
    """
    document = composed.document
    data = document.data
    findings = FindingsList(one_file=True)
    whole = replace(folder, parts=split(document))
    config = read_config(whole, findings)
    if config is None:
        raise AssertionError("a recipe of good form has a generation")
    stack = read_recipe(whole, config, cluster, facts["architecture"], findings)
    image = mapping(data.get("image"))
    entry = DocumentPart(document, findings)
    extended = replace(
        _spliced(stack, entry, cluster),
        version=data.get("version", "0"),
        target=_target(entry, facts, cluster),
        transports=tuple(data.get("transports", ())),
        compression=image.get("compression", stack.compression),
        compression_level=image.get("level", stack.compression_level),
        source=f"{FORMAT}, generation {stack.generation}",
        site_facts={**stack.site_facts, **_fabric(document, facts)},
    )
    if cluster.site_file:
        for environment, spec in unstated_vendors(extended):
            at = ("environments", environment, "network", "mpi")
            entry.problem(at, *not_stated(spec, cluster), Reason.SITE_INCOMPLETE)
    return extended, findings


def _spliced(stack: SpackStack, entry: DocumentPart, cluster: ClusterConfig) -> SpackStack:
    """Return the stack with the MPIs of `splice:` put under its environments."""
    asked = mapping(entry.document.data.get("splice"))
    known = {one.name for one in stack.environments}
    for name in asked.keys() - known:
        there = f"there are: {', '.join(sorted(known))}" if known else None
        entry.problem(("splice", name), f"there is no environment `{name}` to be spliced", there)
    environments = tuple(
        splice(one, stack, entry, cluster) if one.name in asked else one
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


def _target(entry: DocumentPart, facts: Mapping[str, str], cluster: ClusterConfig) -> str | None:
    if not asks_for_microarchitecture(entry.document):
        target: str | None = entry.document.data.get("target")
        return target
    if "microarchitecture" not in facts:
        site = facts.get("site", "the site")
        hint = "give it with `--fact microarchitecture=NAME`, as `spack arch --target` says"
        if cluster.site_file:
            from stackproof.site import missing  # noqa: PLC0415 - slow, and for what is missing

            asking = missing.command(cluster.site_file)
            hint = f"`{asking}` in a job asks the machine; or {hint}"
        message = f"`{site}` does not state its microarchitecture, and `target: site` asks for it"
        entry.problem(("target",), message, hint, Reason.SITE_INCOMPLETE)
    return facts.get("microarchitecture")


def splice(
    environment: SpackEnvironment, stack: SpackStack, entry: DocumentPart, cluster: ClusterConfig
) -> SpackEnvironment:
    """Return an environment with the MPI that `splice:` names in the place of its own.

    What its own network gets beside the MPI, the other MPI gets too, so that both have one.
    """
    data = entry.document.data
    there = entry.below("splice", environment.name)
    spec = str(data["splice"][environment.name]).strip()
    own = mapping(data["environments"][environment.name]).get("specs") or ()
    network = environment.specs[len(own) :]
    if environment.mpi is None or not network:
        there.problem((), f"environment `{environment.name}` has no MPI to be spliced", None)
        return environment
    if stack.generation > 1 and not is_there(there, spec, cluster):
        return environment
    words = entry.findings.called("in a packages.yaml")
    if fault := missing_external(spec, stack.packages, cluster.name, words):
        there.problem((), *fault)
    name, others = package_of(spec), environment.mpi
    reason = mpis.no_splice(
        stack.generation, stack.spack.commit, mpis.release(network[0]), mpis.release(spec)
    )
    if reason:
        hint = "write it as the MPI of the environment: then everything is built with it"
        there.problem((), reason, hint, Reason.UNSUPPORTED)
    about = [one for one in environment.specs[: len(own)] if package_of(one) == others]
    if about and name != others:
        message = f"`{about[0]}` is about the MPI that `{spec}` takes the place of"
        there.problem((), message, None)
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
