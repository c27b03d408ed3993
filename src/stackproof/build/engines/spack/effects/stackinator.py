"""Stackinator recipes from their folders: read, then left to arrows."""

from __future__ import annotations

import base64
import hashlib
import os
from pathlib import Path

from stackproof.build.effects.loaded import Loaded
from stackproof.build.engines.spack.effects import folders, machine
from stackproof.build.engines.spack.effects.folders import Tree
from stackproof.build.engines.spack.stack import Caches, Mirror
from stackproof.build.engines.spack.stackinator import cluster as clusters
from stackproof.build.engines.spack.stackinator.cluster import ClusterConfig
from stackproof.build.engines.spack.stackinator.config import read_config
from stackproof.build.engines.spack.stackinator.findings import FindingsList, Folder
from stackproof.build.engines.spack.stackinator.reader import REFRAME, read_recipe
from stackproof.core import limits
from stackproof.core.document import Document
from stackproof.core.effects import cache_kinds, files
from stackproof.core.effects import documents as core_documents
from stackproof.core.errors import Location, Problem, Reason, StackproofError
from stackproof.core.value import replace
from stackproof.site.effects import probe, toolchain

# Folders of a recipe whose files are copied and never read here.
_COPIED = ("repo/", "extra/")
_ARMOUR = b"-----BEGIN PGP "
# Packet tags of a key: secret key and public key (RFC 9580, section 5).
_KEY_TAGS = (5, 6)


def load(
    recipe: str,
    *,
    site: str | ClusterConfig | None = None,
    mirrors: str | None = None,
    root: str | None = None,
    architecture: str | None = None,
) -> Loaded:
    """Return a recipe's folder with the stack that it means on a cluster.

    `site` is the folder of a cluster's configuration, or the configuration itself; None is this
    machine's. `mirrors` is a mirrors.yaml or cache.yaml, `root` the folder that links in the
    recipe may not leave (None: the git checkout around it), `architecture` that of the machine
    built for (None: this one's). Raises `StackproofError` with all problems at once.
    """
    findings = FindingsList()
    if os.path.isdir(recipe) and not os.path.lexists(os.path.join(recipe, "config.yaml")):
        # Some other folder, maybe a large one: nothing of it is read.
        read_config(Folder(path=recipe), findings)
        findings.raise_problems()
    tree = folders.read_tree(recipe, root=root, wanted=_is_read)
    folder = Folder(path=recipe, files=tree.files, texts=tree.texts)
    config = read_config(folder, findings)
    generation = config.language.version if config else 2
    cluster, blobs = _cluster(site, generation, findings)
    if config is None:
        findings.raise_problems()
        raise AssertionError("a config.yaml that cannot be read is a problem")
    stack = read_recipe(folder, config, cluster, architecture or toolchain.architecture(), findings)
    caches = _caches(mirrors, config.stack.mount, findings)
    findings.raise_problems()
    return Loaded(
        path=Path(recipe),
        stack=stack,
        blobs={**blobs, **tree.blobs},
        given_caches=caches,
        notes=tuple(findings.notes),
        with_site=True,
    )


def load_cluster(path: str, generation: int = 2) -> tuple[ClusterConfig, dict[str, Path]]:
    """Return a cluster's configuration from its folder, and where its files lie by digest.

    `generation` is the version of the recipe language that it is for: what is read differs.
    Raises `StackproofError` with all problems at once.
    """
    findings = FindingsList()
    found = _cluster(path, generation, findings)
    findings.raise_problems()
    return found


def load_documents(path: str, names: tuple[str, ...]) -> dict[str, Document]:
    """Return those documents of a recipe's or cluster's folder that are there, by file name.

    Raises `StackproofError` with the problems of all of them at once.
    """
    findings = FindingsList()
    folder = Folder(path=path, texts=_documents(path, findings, names))
    found = {name: findings.parse(folder, name) for name in folder.texts}
    findings.raise_problems()
    return {name: document for name, document in found.items() if document is not None}


def _is_read(path: str) -> bool:
    return path == REFRAME or not path.startswith(_COPIED)


def _cluster(
    site: str | ClusterConfig | None, generation: int, findings: FindingsList
) -> tuple[ClusterConfig, dict[str, Path]]:
    if isinstance(site, ClusterConfig):
        return site, {}
    if site is None:
        return machine.cluster_of(probe.load_site(probe.LOCAL)), {}
    if not os.path.isdir(site):
        findings.problem(
            Reason.FILE_MISSING, f"there is no folder `{site}`", where=Location(file=site)
        )
        return ClusterConfig(name=site), {}
    folder = Folder(path=site, texts=_documents(site, findings, clusters.DOCUMENTS))
    repositories: list[Folder] = []
    blobs: dict[str, Path] = {}
    for path, where in clusters.repository_paths(folder, findings):
        if (tree := _repository(site, path, where, findings)) is not None:
            repositories.append(Folder(path=path, files=tree.files))
            blobs |= tree.blobs
    return clusters.read_cluster(folder, tuple(repositories), generation, findings), blobs


def _documents(folder: str, findings: FindingsList, names: tuple[str, ...]) -> dict[str, bytes]:
    """Return documents of a folder; the user names the folder, so links may lead anywhere."""
    found = {}
    for name in names:
        path = os.path.join(folder, name)
        if os.path.lexists(path):
            try:
                found[name] = folders.read_file(path)
            except StackproofError as error:
                findings.problems += error.problems
    return found


def _repository(site: str, path: str, where: Location, findings: FindingsList) -> Tree | None:
    """Return the files of a repository that `repos.yaml` names."""
    folder = os.path.normpath(os.path.join(site, path))
    if os.path.isabs(path) or not os.path.isdir(os.path.join(folder, "packages")):
        findings.problem(
            Reason.INVALID_VALUE,
            f"`{path}` is not a folder with packages, relative to the cluster's",
            where=where,
            hint="it has a folder `packages`, and in that one folder for each package",
        )
        return None
    try:
        return folders.read_tree(folder, root=None, wanted=lambda _: False)
    except StackproofError as error:
        findings.problems += error.problems
        return None


def load_caches(path: str, mount: str) -> tuple[Caches, tuple[Problem, ...]]:
    """Return the caches that a mirrors.yaml or cache.yaml names for a mount point, and notes.

    Raises `StackproofError` with all problems at once.
    """
    findings = FindingsList()
    caches = _caches(path, mount, findings)
    findings.raise_problems()
    return caches, tuple(findings.notes)


def _caches(path: str | None, mount: str, findings: FindingsList) -> Caches:
    if path is None:
        return Caches()
    if os.path.isdir(path):
        return _source_mirror(path, findings)
    try:
        document = core_documents.load(path)
    except StackproofError as error:
        findings.problems += error.problems
        return Caches()
    from stackproof.build.engines.spack.stackinator.mirrors import read_mirrors  # noqa: PLC0415 - few name one

    read = read_mirrors(document, mount, os.environ, findings)
    if read is None:
        return Caches()
    keys: dict[str, str | None] = {}
    folder = os.path.dirname(os.path.abspath(path))
    for at, text in read.named.items():
        where = document.where(*at)
        if at[-1] in {"root", "url"}:
            _check_folder(text, at[-1] == "url", where, findings)
        else:
            keys[str(at[-1])] = _find_key(text, folder, where, findings)
    private, public = keys.get("private_key", keys.get("key")), keys.get("public_key")
    return replace(read.caches, private_key=private, public_keys=(public,) if public else ())


def _source_mirror(folder: str, findings: FindingsList) -> Caches:
    """Return the caches of a folder that `stackproof mirror create` made."""
    if not os.path.isdir(os.path.join(folder, "_source-cache")):
        findings.problem(
            Reason.INVALID_VALUE,
            f"`{folder}` is no mirror of sources: it has no folder `_source-cache`",
            where=Location(file=folder),
            hint="name a mirrors.yaml, or a folder that `stackproof mirror create` made",
        )
    settings = {"fetch": {"url": f"file://{os.path.abspath(folder)}"}, "source": True,
                "binary": False}  # fmt: skip
    return Caches(mirrors=(Mirror(name="mirror", kind="source", settings=settings),))


def _check_folder(path: str, bootstrap: bool, where: Location, findings: FindingsList) -> None:  # noqa: FBT001 - a fact
    if not os.path.isdir(path) and "$" not in path:
        what = "bootstrap mirror" if bootstrap else "build cache"
        message = f"the {what} `{path}` is no folder"
        findings.problem(Reason.FILE_MISSING, message, where=where)
    elif bootstrap and not os.path.isdir(os.path.join(path, "metadata")):
        findings.problem(
            Reason.INVALID_VALUE,
            f"`{path}` is no bootstrap mirror: it has no folder `metadata`",
            where=where,
            hint="make one with `spack bootstrap mirror --binary-packages FOLDER`",
        )


def _find_key(text: str, folder: str, where: Location, findings: FindingsList) -> str | None:
    """Return the path of a GPG key that a document names; that it is none is found.

    A key is a path (relative to `folder`) or base64. What is base64 is written below the cache,
    readable by its owner only.
    """
    path = os.path.join(folder, text)
    if os.path.isfile(path):
        try:
            with open(path, "rb") as stream:
                content = stream.read(limits.KEYS.bytes)
        except OSError as error:
            findings.problems += files.translate(error, path).problems
            return None
        if _is_key(content):
            return os.path.abspath(path)
    else:
        try:
            content = base64.b64decode("".join(text.split()), validate=True)
        except ValueError:
            content = b""
        if _is_key(content):
            name = f"{hashlib.sha256(content).hexdigest()[:32]}.gpg"
            target = cache_kinds.home("keys") / name
            files.write(target, content, mode=0o600)
            return str(target)
    findings.problem(
        Reason.INVALID_VALUE,
        "the key is no GPG key" if len(text) > 100 else f"`{path}` is no GPG key",
        where=where,
        hint="name a file made by `spack gpg export` or `gpg --export`, or give it in base64",
    )
    return None


def _is_key(content: bytes) -> bool:
    """Return whether bytes begin as a GPG key does, in armour or without."""
    if content.startswith(_ARMOUR):
        return True
    if len(content) < 2 or not content[0] & 0x80:
        return False
    new_form = content[0] & 0x40
    return (content[0] & 0x3F if new_form else content[0] >> 2 & 0x0F) in _KEY_TAGS
