"""What goes with a recipe file for Spack, from disk, and what is there where it is built.

A recipe may name files in its own folder and below, and nothing else: what it brings is what lies
beside it. Symbolic links are followed as far as `build.engines.spack.effects.folders` allows.
"""

from __future__ import annotations

import functools
import hashlib
import os
import posixpath
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import field

from stackproof.build.engines.spack.effects import folders
from stackproof.build.engines.spack.effects.folders import Tree
from stackproof.build.engines.spack.stackinator import cluster as clusters
from stackproof.build.engines.spack.stackinator.cluster import ClusterConfig
from stackproof.build.engines.spack.stackinator.facts import (
    cluster_of_site,
    facts_of_cluster,
    facts_of_site,
)
from stackproof.build.engines.spack.stackinator.findings import Folder
from stackproof.build.engines.spack.stackinator.reader import DOCUMENTS, HOOKS
from stackproof.build.plan import Copy
from stackproof.core.document import Document
from stackproof.core.effects import shipped
from stackproof.core.errors import Location, Problem, Reason, StackproofError
from stackproof.core.value import Value, replace
from stackproof.recipe.effects import inheritance
from stackproof.site.effects import toolchain
from stackproof.site.model import Site

if TYPE_CHECKING:  # of no use to a folder
    from stackproof.build.effects.loaded import Loaded
    from stackproof.build.options import RecipeOptions
    from stackproof.recipe.composition import Composed
    from stackproof.recipe.origins import ValueOrigin


class RecipeContext(Value):
    """Where a stack is to be built: facts for conditions, what Spack gets, where its files lie.

    `folder` is that of the cluster's configuration, None where what Spack gets is from elsewhere.
    """

    facts: Mapping[str, str]
    cluster: ClusterConfig
    blobs: Mapping[str, Path] = field(default_factory=dict)
    folder: str | None = None


def load_files(composed: Composed, chain: tuple[Document, ...]) -> tuple[Folder, dict[str, Path]]:
    """Return the files that go with a recipe, and where their bytes lie by digest.

    Raises `StackproofError` with all problems at once.
    """
    reader = _Files(composed.document, os.path.dirname(composed.document.file) or ".")
    for one in chain:
        name = _name_in_image(one, composed.document)
        reader.take_file(name, one.file)
    reader.take_all()
    if reader.problems:
        raise StackproofError(*reader.problems)
    tree, path = reader.tree, composed.document.file
    folder = Folder(path=path, files=tree.files, texts=tree.texts, places=reader.places, parts={})
    return folder, tree.blobs


def _name_in_image(document: Document, recipe: Document) -> str:
    """Return the path below `meta/recipe` of a recipe file or of one that it inherits."""
    start = os.path.dirname(recipe.file) or "."
    if shipped.has(Path(document.file)) and not shipped.has(Path(recipe.file)):
        place = Path(document.file).resolve().relative_to(shipped.root("recipes").resolve())
        return f"shipped/{place}"
    return os.path.relpath(document.file, start)


class _Files:
    """Collects the files of a recipe as a Stackinator recipe's folder would hold them."""

    def __init__(self, document: Document, root: str) -> None:
        self.document = document
        self.root = root
        self.tree = Tree()
        self.places: dict[str, str] = {}
        self.problems: list[Problem] = []

    def take_all(self) -> None:
        """Take hooks, `repo`, `extra` and `files`."""
        for target, source, where in self._named():
            try:
                document = Document(file=where.file, data=None, positions={})
                full = inheritance.beside(document, source, self.root, where)
                if os.path.isdir(full):
                    self._take_folder(target, full)
                elif target in {"repo", "extra"}:
                    self._missing(f"`{source}` is not a folder", where)
                elif os.path.isfile(full):
                    self.take_file(target, full, keep=True)
                else:
                    self._missing(f"`{source}` does not exist", where)
            except StackproofError as error:
                self.problems += error.problems
        hooks = self.document.data.get("hooks") or {}
        for name in HOOKS:
            if isinstance(hooks.get(name), str):
                self.tree.texts[name] = hooks[name].encode()
                self.places[name] = self.document.where("hooks", name).file

    def _missing(self, message: str, where: Location) -> None:
        self.problems.append(Problem(reason=Reason.FILE_MISSING, message=message, where=where))

    def _named(self) -> Iterator[tuple[str, str, Location]]:
        data: Mapping[str, Any] = self.document.data
        for key in ("repo", "extra"):
            if data.get(key) is not None:
                yield key, data[key], self.document.where(key)
        for target, source in (data.get("files") or {}).items():
            where = self.document.where_key("files", target)
            fault = inheritance.path_fault(target)
            if fault or target.split("/")[0] in {"repo", "extra", *HOOKS}:
                message = f"`{target[:80]}` cannot be the path of a file: {fault or 'it is taken'}"
                self.problems.append(
                    Problem(reason=Reason.INVALID_VALUE, message=message, where=where)
                )
            else:
                yield target, source, self.document.where("files", target)
        for name in HOOKS:
            hook = (data.get("hooks") or {}).get(name)
            if isinstance(hook, dict):
                yield name, hook["file"], self.document.where("hooks", name, "file")

    def _take_folder(self, target: str, folder: str) -> None:
        read_texts = target not in {"repo", "extra"}
        tree = folders.read_tree(folder, root=None, wanted=lambda _: read_texts)
        prefix = "" if target == "." else f"{target}/"
        for path, entry in tree.files.items():
            self.tree.files[f"{prefix}{path}"] = entry
            self.places[f"{prefix}{path}"] = posixpath.join(folder, path)
        self.tree.texts.update({f"{prefix}{path}": text for path, text in tree.texts.items()})
        self.tree.blobs.update(tree.blobs)

    def take_file(self, target: str, path: str, *, keep: bool = False) -> None:
        """Take one file; with `keep` its bytes can be read as a hook or by one."""
        content = folders.read_file(path)
        digest = hashlib.sha256(content).hexdigest()
        executable = bool(os.stat(path).st_mode & 0o100)
        self.tree.files[target] = Copy(sha256=digest, executable=executable)
        self.tree.blobs[digest] = Path(path)
        self.places[target] = path
        if keep:
            self.tree.texts[target] = content


def known_facts(site: str | None, stated: Mapping[str, Any] | None = None) -> dict[str, str]:
    """Return what conditions may ask for: the site's facts, this machine's where it has none.

    `stated` is what a recipe says of its generation, and so of how a cluster's folder is read; the
    facts are the same for all.
    """
    from stackproof.build.engines.spack.recipe import generation_of  # noqa: PLC0415 - as above

    facts = dict(load_place(site, 1 if stated is None else generation_of(stated)).facts)
    facts.setdefault("architecture", toolchain.architecture())
    return facts


@functools.cache
def load_place(site: str | None, generation: int = 2) -> RecipeContext:
    """Return what a site says: a cluster configuration's folder, a site file or a shipped name.

    None is this machine. A site that says nothing of Spack gets what is found on this machine and
    what is known of its fabric. `generation` matters for the folder of a cluster only.
    A command asks more than once, and looking takes time.
    Raises `StackproofError` as `probe.load_site` and `stackinator.load_cluster` do.
    """
    from stackproof.build.engines.spack.effects import machine, stackinator  # noqa: PLC0415 - what it needs
    from stackproof.site.effects import probe  # noqa: PLC0415 - what it needs

    folder, facts = site, {}
    if folder is None or not os.path.isdir(folder):
        found: Site = probe.load_site(site or probe.LOCAL)
        facts = facts_of_site(found)
        if found.spack is None or found.spack.cluster_config is None:
            own = machine.cluster_of(found) if found.spack is None else cluster_of_site(found)
            return RecipeContext(facts=facts, cluster=replace(own, site_file=site or found.name))
        folder = _beside_site(site, found.spack.cluster_config)
    cluster, blobs = stackinator.load_cluster(folder, generation)
    facts = {**facts_of_cluster(cluster), **facts}
    return RecipeContext(facts=facts, cluster=cluster, blobs=blobs, folder=folder)


def _beside_site(site: str | None, folder: str) -> str:
    """Return a folder that a site file names, relative to the file."""
    return os.path.join(os.path.dirname(site) if site and os.sep in site else ".", folder)


def load_site_documents(site: str | None) -> dict[str, Document]:
    """Return the documents in which a site says what Spack gets, by file name; for explaining.

    A site file is `site`, one of a cluster configuration has its own name. What is found on this
    machine is in documents that are called so. Raises `StackproofError` as `load_place` does.
    """
    from stackproof.build.engines.spack.effects import stackinator  # noqa: PLC0415 - what it needs
    from stackproof.build.engines.spack.stackinator.defaults import cluster_documents  # noqa: PLC0415 - as above
    from stackproof.site.effects import probe  # noqa: PLC0415 - what it needs

    if site is not None and os.path.isdir(site):
        return stackinator.load_documents(site, clusters.DOCUMENTS)
    document = probe.read_site_file(site or probe.LOCAL)
    spack = document.data.get("spack") or {}
    if "cluster-config" in spack:
        folder = _beside_site(site, spack["cluster-config"])
        return {"site": document, **stackinator.load_documents(folder, clusters.DOCUMENTS)}
    data = {} if spack else cluster_documents(load_place(site).cluster)
    found: dict[str, Document] = {
        name: Document(file="this machine", data=data[name], positions={})
        for name in ("packages.yaml", "network.yaml")
        if name in data
    }
    return {"site": document, **found}


def origins_of(loaded: Loaded, options: RecipeOptions, key: str) -> tuple[ValueOrigin, ...]:
    """Return every value under a key, with its place and history.

    Raises `StackproofError` (USAGE) for a key that is neither set nor has a default.
    """
    from stackproof.build.effects import stacks  # noqa: PLC0415 - to explain values alone
    from stackproof.build.engines.spack.effects import stackinator  # noqa: PLC0415 - as above
    from stackproof.recipe import origins  # noqa: PLC0415 - as above

    root = (
        loaded.composed.root
        if loaded.composed is not None
        else origins.recipe_tree(stackinator.load_documents(str(loaded.path), DOCUMENTS))
    )
    if loaded.with_site:
        site, given = load_site_documents(options.site), stacks.given_facts(options.fact)
        root = origins.with_site(root, site, options.site or "this machine")
        root = origins.with_facts(root, known_facts(options.site), given, site)
    return tuple(origins.explain(root, key, spack=loaded.with_site))
