"""`environments.yaml`: packages that are built together, with their compilers, MPI and views."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from typing import Any

from stackproof.build.engines.spack.stack import (
    PATH_VARIABLES,
    Compiler,
    SpackEnvironment,
    SpackView,
    ViewChange,
)
from stackproof.build.engines.spack.stackinator.cluster import ClusterConfig
from stackproof.build.engines.spack.stackinator.compilers import CONSTRAINT_NAMES, base, satisfies
from stackproof.build.engines.spack.stackinator.config import Config
from stackproof.build.engines.spack.stackinator.findings import (
    DocumentPart,
    FindingsList,
    Folder,
    mapping,
    strings,
)
from stackproof.build.engines.spack.stackinator.network import (
    first_network,
    is_there,
    missing_external,
    network,
)
from stackproof.build.engines.spack.stackinator.versions import Language
from stackproof.core.document import KEY, Document
from stackproof.core.errors import Location, Reason
from stackproof.core.value import Value

# --------------------------------------------------------------------------------------------------
# The views of an environment: which packages they link, which variables they change.

# Views that every image has besides the recipe's.
OWN_VIEWS = ("modules", "spack")
_PLACEHOLDER = re.compile(r"\$@(\w+)@")


def _view(entry: DocumentPart, name: str, body: Mapping[str, Any], mount: str) -> SpackView:
    entry.check_name(name, "a view")
    if name in OWN_VIEWS:
        entry.problem(
            (KEY,),
            f"`{name}` cannot be the name of a view: every image has its own view `{name}`",
            "give the view another name",
        )
    extra = mapping(body.get("uenv"))
    known = {"mount": mount, "view_name": name, "view_path": f"{mount}/env/{name}"}
    return SpackView(
        name=name,
        link=body.get("link", "roots"),
        select=strings(body.get("select")),
        exclude=strings(body.get("exclude")),
        projections=mapping(body.get("projections")),
        add_compilers=extra.get("add_compilers", True),
        prefix_paths=_prefix_paths(entry.below("uenv", "prefix_paths"), extra),
        changes=_changes(entry.below("uenv", "env_vars"), mapping(extra.get("env_vars")), known),
    )


def _prefix_paths(entry: DocumentPart, extra: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    result = {}
    for variable, folders in mapping(extra.get("prefix_paths")).items():
        if variable not in PATH_VARIABLES:
            entry.note(
                (variable, KEY),
                f"`{variable}` is none of the variables that are known to hold paths",
                f"known are: {', '.join(PATH_VARIABLES)}",
            )
        for index, folder in enumerate(folders):
            at = (variable, index)
            if entry.check_relative(at, folder, "the view") and set(folder) & set(":,="):
                message = f"`{folder}` is not one folder of the view"
                entry.problem(at, message, "write each folder as an entry of its own")
        result[variable] = tuple(folders)
    return result


def _changes(
    entry: DocumentPart, env_vars: Mapping[str, Any], known: Mapping[str, str]
) -> tuple[ViewChange, ...]:
    """Return the changes of variables: those that set, then those that extend.

    The last of several that set one variable counts. A path-like variable can only be unset, which
    is what Stackinator's documentation promises (its images empty the variable instead).
    """
    set_: dict[str, ViewChange] = {}
    for index, ((variable, value),) in enumerate(map(dict.items, env_vars.get("set", []))):
        at = ("set", index, variable)
        set_.pop(variable, None)
        if value is None:
            set_[variable] = ViewChange(op="unset", variable=variable)
            continue
        text = _filled(entry.below(*at), value, known)
        set_[variable] = ViewChange(op="set", variable=variable, value=text)
        if variable in PATH_VARIABLES:
            entry.problem(
                at,
                f"`{variable}` holds a list of paths and cannot be set to a value",
                "set it to null to start from nothing, then add entries under `prepend_path` "
                "or `append_path`",
            )
    changes = list(set_.values())
    for key, op in (("prepend_path", "prepend"), ("append_path", "append")):
        for index, ((variable, value),) in enumerate(map(dict.items, env_vars.get(key, []))):
            if variable not in PATH_VARIABLES:
                entry.problem(
                    (key, index, variable, KEY),
                    f"`{variable}` is none of the variables that hold a list of paths",
                    f"`set` it, or use one of: {', '.join(PATH_VARIABLES)}",
                )
            path = posixpath.normpath(_filled(entry.below(key, index, variable), value, known))
            changes.append(ViewChange(op=op, variable=variable, value=path))
    return tuple(changes)


def _filled(entry: DocumentPart, text: str, known: Mapping[str, str]) -> str:
    """Return a text with `$@mount@` and the like replaced; an unknown one is a problem."""
    for name in _PLACEHOLDER.findall(text):
        if name not in known:
            there = ", ".join(f"$@{key}@" for key in known)
            hint = f"there are: {there}; a variable of the user is ${{@{name}@}}"
            entry.problem((), f"`$@{name}@` stands for nothing", hint)
    return _PLACEHOLDER.sub(lambda found: known.get(found[1], found[0]), text)


_UNIFY = {True: "true", False: "false"}
# `%gcc`, `%fortran=nvhpc`, `%c,cxx=llvm`, `%[when=%c] c=gcc`.
_COMPILED_BY = re.compile(r"%(?:\[[^\]]{0,300}\]\s*)?(?:[a-z,]+=)?([A-Za-z][\w-]*)")


class Offer(Value):
    """What environments choose from: the stack's compilers, the cluster, all packages.

    With `compilers` None (compilers.yaml is not valid) nothing is said of compilers.
    """

    compilers: tuple[Compiler, ...] | None
    cluster: ClusterConfig
    packages: Mapping[str, Any]


def read_environments(
    folder: Folder, config: Config, offer: Offer, findings: FindingsList
) -> tuple[SpackEnvironment, ...]:
    """Return the environments in the order of the file."""
    language = config.language
    schema = language.schema("environments")
    document = findings.parse(folder, "environments.yaml", "a recipe")
    if document is None:
        return ()
    if not findings.check(document, schema, language.version):
        for name, body in mapping(
            document.data
        ).items():  # their MPIs can be asked about all the same
            if isinstance(spec := mapping(mapping(body).get("network")).get("mpi"), str):
                part = DocumentPart(document, findings, (name, "network", "mpi"))
                is_there(part, spec, offer.cluster)
        return ()
    result = []
    for name, body in document.data.items():
        entry = DocumentPart(document, findings, (name,))
        entry.check_name(name, "an environment")
        if name in language.reserved_environments:
            entry.problem(
                (KEY,),
                f"`{name}` is reserved: Stackinator has an environment of this name itself",
                "give the environment another name",
            )
        result.append(_environment(entry, name, body, config, offer))
    if not result:
        findings.note("the recipe has no environment", where=document.where())
    _check_views(document, findings)
    return tuple(result)


def _check_views(document: Document, findings: FindingsList) -> None:
    """Find views of one name: a name is there once in the whole recipe."""
    first: dict[str, Location] = {}
    for environment, body in document.data.items():
        for view in mapping(body.get("views")):
            where = document.where_key(environment, "views", view)
            if view in first:
                findings.problem(
                    Reason.DUPLICATE_KEY,
                    f"the view `{view}` is there twice in this recipe",
                    where=where,
                    hint=f"rename one of them; the first is at line {first[view].line}",
                )
            first.setdefault(view, where)


def _environment(
    entry: DocumentPart, name: str, body: Mapping[str, Any], config: Config, offer: Offer
) -> SpackEnvironment:
    language, used = config.language, body["compiler"]
    if language.version == 1:
        mpi = first_network(entry.below("mpi"), mapping(body.get("mpi")))
        names = tuple(compiler["toolchain"] for compiler in used)
        specs = tuple(compiler["spec"] for compiler in used)
        form = "`toolchain: gcc` and `spec: gcc@VERSION`"
        hint = f"name one of {entry.findings.called('compilers.yaml')} as {form}"
    else:
        mpi = network(entry.below("network"), mapping(body.get("network")), offer.cluster)
        names, specs = strings(used), ()
        form = "for example compiler: [gcc]"
        hint = f"name one of {entry.findings.called('compilers.yaml')}, {form}"
    if not used:
        entry.problem(("compiler",), f"the environment `{name}` has no compiler", hint)
    _check_compilers(entry.below("compiler"), names, specs, offer.compilers)
    if language.version > 1:
        known = {CONSTRAINT_NAMES.get(n, n) for n in language.compiler_defaults}
        _check_specs(entry, name, strings(body["specs"]), names, known)
    roots = (*strings(body["specs"]), *mpi.specs)
    for index, spec in enumerate(roots):
        asked = index < len(roots) - len(mpi.specs)
        there = entry.findings.called("in a packages.yaml")
        if fault := missing_external(spec, offer.packages, offer.cluster.name, there):
            entry.problem(
                ("specs", index) if asked else ("network" if "network" in body else "mpi",), *fault
            )
    return SpackEnvironment(
        name=name,
        compilers=names,
        compiler_specs=specs,
        specs=roots,
        mpi=mpi.mpi,
        mpi_requirement=mpi.requirement,
        unify=_UNIFY.get(body.get("unify", True), "when_possible"),
        deprecated=body.get("deprecated", False),
        duplicates=mapping(body.get("duplicates")).get("strategy", "minimal"),
        variants=strings(body.get("variants")),
        prefer=_prefer(body.get("prefer"), names, language, offer.compilers),
        require_one_of=_one_of(specs, roots),
        find_external=_externals(entry, strings(body.get("packages")), language),
        views=tuple(
            _view(entry.below("views", view), view, mapping(inner), config.stack.mount)
            for view, inner in mapping(body.get("views")).items()
        ),
    )


def _check_compilers(
    entry: DocumentPart,
    names: tuple[str, ...],
    specs: tuple[str, ...],
    compilers: tuple[Compiler, ...] | None,
) -> None:
    """Find compilers that compilers.yaml lacks; `specs` are those of version 1."""
    called = entry.findings.called
    there = {compiler.name: compiler for compiler in compilers or ()}
    for index, name in enumerate(names):
        known = compilers is None or name in there
        if specs and not known:
            message = f"the toolchain `{name}` is not {called('in compilers.yaml')}"
            entry.problem((index, "toolchain"), message, f"it has: {', '.join(there)}")
        elif specs:
            built = there[name].specs if there else (specs[index],)
            if not any(satisfies(spec, specs[index]) for spec in built):
                file = called("compilers.yaml")
                message = f"the compiler `{specs[index]}` is not under `{name}` of {file}"
                has = ", ".join("@".join(base(spec)) for spec in built)
                entry.problem((index, "spec"), message, f"it has: {has}")
        elif not known:
            message = f"the compiler `{name}` is not {called('in compilers.yaml')}"
            hint = f"add `{name}: version:` there; it has: {', '.join(sorted(there))}"
            entry.problem((index,), message, hint)
        elif name in names[:index]:
            message = f"the compiler `{name}` is there twice"
            entry.problem((index,), message, "remove one of them", Reason.DUPLICATE_KEY)


def _check_specs(
    entry: DocumentPart, name: str, specs: tuple[str, ...], names: tuple[str, ...], known: set[str]
) -> None:
    """Note specs that ask for a known compiler which the environment does not list."""
    listed = {CONSTRAINT_NAMES.get(name, name) for name in names}
    for index, spec in enumerate(specs):
        for other in _COMPILED_BY.findall(spec):
            if other in known - listed:
                entry.note(
                    ("specs", index),
                    f"`{spec}` asks for `{other}`, which is not under `compiler` of `{name}`",
                    f"add it there: compiler: [{', '.join((*names, other))}]",
                )


def _prefer(
    own: Any, names: tuple[str, ...], language: Language, compilers: tuple[Compiler, ...] | None
) -> tuple[str, ...]:
    """Return the recipe's preferences, or one for the first compiler in every language."""
    if own is not None or language.version == 1 or not names:
        return strings(own)
    first = CONSTRAINT_NAMES.get(names[0], names[0])
    built = [c for c in compilers or () if c.name == names[0] and not c.external]
    if language.prefers_exact_compiler and built:
        first = f"{first}@{base(built[0].specs[0])[1]}"
    return (f"%[when=%c] c={first} %[when=%cxx] cxx={first} %[when=%fortran] fortran={first}",)


def _externals(entry: DocumentPart, names: tuple[str, ...], language: Language) -> tuple[str, ...]:
    """Return packages to find on the machine; version 3 has the key without its effect."""
    if not names or language.finds_externals:
        return names
    there = entry.findings.called("the packages.yaml of the recipe")
    hint = f"describe them as externals in {there}"
    entry.note(("packages",), "`packages` has no effect in version 3", hint)
    return ()


def _one_of(compilers: tuple[str, ...], specs: tuple[str, ...]) -> tuple[str, ...]:
    """Return what version 1 requires of every package where there are several compilers.

    Either the first of them, or one of the specs that name a compiler themselves.
    """
    if len(compilers) < 2:
        return ()
    return (f"%{compilers[0]}", *(spec for spec in specs if "%" in spec))
