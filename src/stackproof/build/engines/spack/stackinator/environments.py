"""`environments.yaml`: packages that are built together, with their compilers, MPI and views."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from typing import Any

from stackproof.build.engines.spack.stack import Compiler, SpackEnvironment, SpackView, ViewChange
from stackproof.build.engines.spack.stackinator.cluster import ClusterConfig
from stackproof.build.engines.spack.stackinator.compilers import CONSTRAINT_NAMES, base, satisfies
from stackproof.build.engines.spack.stackinator.config import Config
from stackproof.build.engines.spack.stackinator.findings import (
    FindingsList,
    Folder,
    KeyPath,
    mapping,
    strings,
)
from stackproof.build.engines.spack.stackinator.network import (
    Network,
    first_network,
    missing_external,
    network,
)
from stackproof.build.engines.spack.stackinator.versions import Language
from stackproof.core.document import Document
from stackproof.core.errors import Location, Reason
from stackproof.core.value import Value

# --------------------------------------------------------------------------------------------------
# The views of an environment: which packages they link, which variables they change.

# Variables that hold a list of paths; only these can be extended.
# Source: docs/recipes.md of Stackinator, "the hard-coded prefix paths".
PREFIX_VARIABLES = frozenset(
    {
        "ACLOCAL_PATH",
        "CMAKE_PREFIX_PATH",
        "CPATH",
        "LD_LIBRARY_PATH",
        "LIBRARY_PATH",
        "MANPATH",
        "MODULEPATH",
        "PATH",
        "PKG_CONFIG_PATH",
        "PYTHONPATH",
    }
)
# Views that every image has besides the recipe's.
OWN_VIEWS = ("modules", "spack")
_PLACEHOLDER = re.compile(r"\$@(\w+)@")


def read_views(
    document: Document, at: KeyPath, views: Mapping[str, Any], mount: str, findings: FindingsList
) -> tuple[SpackView, ...]:
    """Return the views of one environment; `at` is the path of its `views`."""
    return tuple(
        _view(document, (*at, name), name, mapping(body), f"{mount}/env/{name}", findings)
        for name, body in views.items()
    )


def _view(
    document: Document,
    at: KeyPath,
    name: str,
    body: Mapping[str, Any],
    root: str,
    findings: FindingsList,
) -> SpackView:
    where = document.where_key(*at)
    findings.check_name(name, "a view", where)
    if name in OWN_VIEWS:
        findings.problem(
            Reason.INVALID_VALUE,
            f"`{name}` cannot be the name of a view: every image has its own view `{name}`",
            where=where,
            hint="give the view another name",
        )
    extra = mapping(body.get("uenv"))
    return SpackView(
        name=name,
        link=body.get("link", "roots"),
        select=strings(body.get("select")),
        exclude=strings(body.get("exclude")),
        projections=mapping(body.get("projections")),
        add_compilers=extra.get("add_compilers", True),
        prefix_paths=_prefix_paths(document, (*at, "uenv", "prefix_paths"), extra, findings),
        changes=_changes(
            document, (*at, "uenv", "env_vars"), mapping(extra.get("env_vars")), root, findings
        ),
    )


def _prefix_paths(
    document: Document, at: KeyPath, extra: Mapping[str, Any], findings: FindingsList
) -> dict[str, tuple[str, ...]]:
    result = {}
    for variable, folders in mapping(extra.get("prefix_paths")).items():
        if variable not in PREFIX_VARIABLES:
            findings.note(
                f"`{variable}` is none of the variables that are known to hold paths",
                where=document.where_key(*at, variable),
                hint=f"known are: {', '.join(sorted(PREFIX_VARIABLES))}",
            )
        for index, folder in enumerate(folders):
            where = document.where(*at, variable, index)
            if findings.check_relative(folder, "the view", where) and set(folder) & set(":,="):
                findings.problem(
                    Reason.INVALID_VALUE,
                    f"`{folder}` is not one folder of the view",
                    where=where,
                    hint="write each folder as an entry of its own",
                )
        result[variable] = tuple(folders)
    return result


def _changes(
    document: Document, at: KeyPath, env_vars: Mapping[str, Any], root: str, findings: FindingsList
) -> tuple[ViewChange, ...]:
    """Return the changes of variables: those that set, then those that extend.

    The last of several that set one variable counts. A path-like variable can only be unset, which
    is what Stackinator's documentation promises (its images empty the variable instead).
    """
    mount, _, view = root.partition("/env/")
    known = {"mount": mount, "view_name": view, "view_path": root}
    set_: dict[str, ViewChange] = {}
    for index, entry in enumerate(env_vars.get("set", [])):
        ((variable, value),) = entry.items()
        where = document.where(*at, "set", index, variable)
        set_.pop(variable, None)
        if value is None:
            set_[variable] = ViewChange(op="unset", variable=variable)
            continue
        text = _filled(value, known, where, findings)
        set_[variable] = ViewChange(op="set", variable=variable, value=text)
        if variable in PREFIX_VARIABLES:
            findings.problem(
                Reason.INVALID_VALUE,
                f"`{variable}` holds a list of paths and cannot be set to a value",
                where=where,
                hint="set it to null to start from nothing, then add entries under `prepend_path` "
                "or `append_path`",
            )
    changes = list(set_.values())
    for key, op in (("prepend_path", "prepend"), ("append_path", "append")):
        for index, entry in enumerate(env_vars.get(key, [])):
            ((variable, value),) = entry.items()
            where = document.where(*at, key, index, variable)
            if variable not in PREFIX_VARIABLES:
                findings.problem(
                    Reason.INVALID_VALUE,
                    f"`{variable}` is none of the variables that hold a list of paths",
                    where=document.where_key(*at, key, index, variable),
                    hint=f"`set` it, or use one of: {', '.join(sorted(PREFIX_VARIABLES))}",
                )
            path = posixpath.normpath(_filled(value, known, where, findings))
            changes.append(ViewChange(op=op, variable=variable, value=path))
    return tuple(changes)


def _filled(text: str, known: Mapping[str, str], where: Location, findings: FindingsList) -> str:
    """Return a text with `$@mount@` and the like replaced; an unknown one is a problem."""
    for name in _PLACEHOLDER.findall(text):
        if name not in known:
            findings.problem(
                Reason.INVALID_VALUE,
                f"`$@{name}@` stands for nothing",
                where=where,
                hint=f"there are: {', '.join(f'$@{key}@' for key in known)}; a variable of the "
                f"user is ${{@{name}@}}",
            )
    return _PLACEHOLDER.sub(lambda found: known.get(found[1], found[0]), text)


FILE = "environments.yaml"
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
    document = findings.parse_needed(folder, FILE, "a recipe")
    language = config.language
    if document is None or not findings.check(document, language.environments, language.version):
        return ()
    result = []
    for name, body in document.data.items():
        where = document.where_key(name)
        findings.check_name(name, "an environment", where)
        if name in language.reserved_environments:
            findings.problem(
                Reason.INVALID_VALUE,
                f"`{name}` is reserved: Stackinator has an environment of this name itself",
                where=where,
                hint="give the environment another name",
            )
        reader = _Reader(document, name, body, config, findings)
        result.append(reader.read(offer))
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


class _Reader:
    """Reads one environment."""

    def __init__(
        self,
        document: Document,
        name: str,
        body: Mapping[str, Any],
        config: Config,
        findings: FindingsList,
    ) -> None:
        self.document = document
        self.name = name
        self.body = body
        self.config = config
        self.findings = findings

    @property
    def language(self) -> Language:
        return self.config.language

    def at(self, *path: str | int) -> Location:
        return self.document.where(self.name, *path)

    def read(self, offer: Offer) -> SpackEnvironment:
        """Return the environment."""
        compilers = offer.compilers
        at: KeyPath = (self.name,)
        own = strings(self.body["specs"])
        if self.language.version == 1:
            mpi = first_network(self.document, at, self.body, self.findings)
            names, specs = self._toolchains(compilers)
        else:
            mpi = network(self.document, at, self.body, offer.cluster, self.findings)
            names, specs = self._compilers(compilers), ()
        roots = (*own, *mpi.specs)
        self._externals_there(own, mpi, offer)
        views = mapping(self.body.get("views"))
        return SpackEnvironment(
            name=self.name,
            compilers=names,
            compiler_specs=specs,
            specs=roots,
            mpi=mpi.mpi,
            mpi_requirement=mpi.requirement,
            unify=_UNIFY.get(self.body.get("unify", True), "when_possible"),
            deprecated=self.body.get("deprecated", False),
            duplicates=mapping(self.body.get("duplicates")).get("strategy", "minimal"),
            variants=strings(self.body.get("variants")),
            prefer=self._prefer(names, compilers),
            require_one_of=_one_of(specs, roots),
            find_external=self._externals(),
            views=read_views(
                self.document, (self.name, "views"), views, self.config.mount, self.findings
            ),
        )

    def _externals_there(self, own: tuple[str, ...], mpi: Network, offer: Offer) -> None:
        """Find root specs that may not be built here and that are not there either."""
        at = self.at("network" if "network" in self.body else "mpi")
        places = [self.at("specs", index) for index in range(len(own))]
        places += [at] * len(mpi.specs)
        for spec, where in zip((*own, *mpi.specs), places, strict=True):
            fault = missing_external(spec, offer.packages, offer.cluster.name)
            if fault:
                self.findings.problem(Reason.INVALID_VALUE, fault[0], where=where, hint=fault[1])

    def _compilers(self, known: tuple[Compiler, ...] | None) -> tuple[str, ...]:
        """Return the compilers' names, each of which must be in compilers.yaml."""
        names = strings(self.body["compiler"])
        if not names:
            self._none()
        there = {compiler.name for compiler in known or ()}
        for index, name in enumerate(names):
            if known is not None and name not in there:
                self.findings.problem(
                    Reason.INVALID_VALUE,
                    f"the compiler `{name}` is not in compilers.yaml",
                    where=self.at("compiler", index),
                    hint=f"add `{name}: version:` there; it has: {', '.join(sorted(there))}",
                )
            elif name in names[:index]:
                self.findings.problem(
                    Reason.DUPLICATE_KEY,
                    f"the compiler `{name}` is there twice",
                    where=self.at("compiler", index),
                    hint="remove one of them",
                )
        self._compiled_by(names)
        return names

    def _compiled_by(self, names: tuple[str, ...]) -> None:
        """Note specs that ask for a compiler which the environment does not list."""
        listed = {CONSTRAINT_NAMES.get(name, name) for name in names}
        known = {CONSTRAINT_NAMES.get(n, n) for n in self.language.compiler_defaults}
        for index, spec in enumerate(strings(self.body["specs"])):
            for name in _COMPILED_BY.findall(spec):
                if name in known - listed:
                    self.findings.note(
                        f"`{spec}` asks for `{name}`, which is not under `compiler` of "
                        f"`{self.name}`",
                        where=self.at("specs", index),
                        hint=f"add it there: compiler: [{', '.join((*names, name))}]",
                    )

    def _none(self) -> None:
        self.findings.problem(
            Reason.INVALID_VALUE,
            f"the environment `{self.name}` has no compiler",
            where=self.at("compiler"),
            hint="name one of compilers.yaml, for example compiler: [gcc]"
            if self.language.version > 1
            else "name one of compilers.yaml as `toolchain: gcc` and `spec: gcc@VERSION`",
        )

    def _toolchains(
        self, known: tuple[Compiler, ...] | None
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return stages of version 1 and the compiler that is used of each."""
        entries = self.body["compiler"]
        if not entries:
            self._none()
        stages = {compiler.name: compiler for compiler in known or ()}
        for index, entry in enumerate(entries):
            stage, spec = entry["toolchain"], entry["spec"]
            if known is None:
                continue
            if stage not in stages:
                self.findings.problem(
                    Reason.INVALID_VALUE,
                    f"the toolchain `{stage}` is not in compilers.yaml",
                    where=self.at("compiler", index, "toolchain"),
                    hint=f"it has: {', '.join(stages)}",
                )
            elif not any(satisfies(built, spec) for built in stages[stage].specs):
                built = ", ".join("@".join(base(item)) for item in stages[stage].specs)
                self.findings.problem(
                    Reason.INVALID_VALUE,
                    f"the compiler `{spec}` is not under `{stage}` of compilers.yaml",
                    where=self.at("compiler", index, "spec"),
                    hint=f"it has: {built}",
                )
        return (
            tuple(entry["toolchain"] for entry in entries),
            tuple(entry["spec"] for entry in entries),
        )

    def _prefer(
        self, names: tuple[str, ...], compilers: tuple[Compiler, ...] | None
    ) -> tuple[str, ...]:
        """Return the recipe's preferences, or one for the first compiler in every language."""
        own = self.body.get("prefer")
        if own is not None or self.language.version == 1 or not names:
            return strings(own)
        first = CONSTRAINT_NAMES.get(names[0], names[0])
        built = [c for c in compilers or () if c.name == names[0] and not c.external]
        if self.language.prefers_exact_compiler and built:
            first = f"{first}@{base(built[0].specs[0])[1]}"
        return (f"%[when=%c] c={first} %[when=%cxx] cxx={first} %[when=%fortran] fortran={first}",)

    def _externals(self) -> tuple[str, ...]:
        """Return packages to find on the machine; version 3 has the key without its effect."""
        names = strings(self.body.get("packages"))
        if names and not self.language.finds_externals:
            self.findings.note(
                "`packages` has no effect in version 3",
                where=self.at("packages"),
                hint="describe them as externals in the packages.yaml of the recipe",
            )
            return ()
        return names


def _one_of(compilers: tuple[str, ...], specs: tuple[str, ...]) -> tuple[str, ...]:
    """Return what version 1 requires of every package where there are several compilers.

    Either the first of them, or one of the specs that name a compiler themselves.
    """
    if len(compilers) < 2:
        return ()
    return (f"%{compilers[0]}", *(spec for spec in specs if "%" in spec))
