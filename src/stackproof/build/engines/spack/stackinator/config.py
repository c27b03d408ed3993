"""`config.yaml`: what a recipe is, which Spack builds it, where it is mounted."""

from __future__ import annotations

import re
from typing import Any

from stackproof.build.engines.spack.stack import GitSource, PackageRepository, SpackStack
from stackproof.build.engines.spack.stackinator.findings import (
    DocumentPart,
    FindingsList,
    Folder,
    mapping,
)
from stackproof.build.engines.spack.stackinator.versions import LANGUAGES, Language, SpackVersion
from stackproof.core.document import KEY, Document
from stackproof.core.errors import Reason
from stackproof.core.mountlist import bad_mount_point, normal
from stackproof.core.value import Value

MOUNT = "/user-environment"
NOT_A_RECIPE = (
    "a folder is taken for a Stackinator recipe (config.yaml, compilers.yaml, environments.yaml); "
    "name the file of a recipe of one file"
)
"""What to do where a folder has no config.yaml."""
_RESERVED_REPOSITORIES = {"alps": "cluster", "recipe": "recipe"}
_REPOSITORY_NAME = re.compile(r"[A-Za-z0-9][\w-]*", re.ASCII)


class Config(Value):
    """What `config.yaml` says: the stack as far as it goes, and whether there are modules.

    `modules` is None where the file does not say.
    """

    language: Language
    stack: SpackStack
    modules: bool | None
    document: Document


def version_of(commit: str | None) -> SpackVersion | None:
    """Return major and minor version in a branch's or tag's name; None in a commit's."""
    found = re.search(r"(?:^|[^\w.])v?(\d+)\.(\d+)(?:\.\w+)*$", commit or "")
    return (int(found[1]), int(found[2])) if found else None


def read_config(folder: Folder, findings: FindingsList) -> Config | None:
    """Return what `config.yaml` says; None when it does not even say the version."""
    document = findings.parse(folder, "config.yaml", "a recipe's folder", NOT_A_RECIPE)
    if document is None:
        return None
    language = _language(document, findings)
    if language is None:
        return None
    valid = findings.check(document, language.schema("config"), language.version)
    data = mapping(document.data)
    if not valid:
        return _config(document, _harmless(data), language, ())
    entry = DocumentPart(document, findings)
    _check_mount(entry, data.get("store", MOUNT))
    _check_name(entry, data["name"])
    repositories = _repositories(entry, data["spack"].get("packages"))
    _check_spack(entry, data["spack"].get("commit"), language)
    if "system" in data:
        entry.note(
            ("system", KEY),
            f"`system: {data['system']}` names the cluster as recipes did in 2023; what is read is "
            "the cluster of `--site`, without it this machine",
        )
    return _config(document, data, language, repositories)


def _language(document: Document, findings: FindingsList) -> Language | None:
    """Return the language of the version a recipe says; without one it is 1."""
    if not isinstance(document.data, dict):
        findings.check(document, LANGUAGES[1].schema("config"))
        return None
    version = document.data.get("version", 1)
    if isinstance(version, int | float) and not isinstance(version, bool) and version in LANGUAGES:
        return LANGUAGES[int(version)]
    findings.problem(
        Reason.INVALID_VALUE if isinstance(version, int | float) else Reason.WRONG_TYPE,
        f"`{version}` is not a version of the recipe language",
        where=document.where("version"),
        hint="it is 1 (Spack up to 0.23), 2 (Spack 1.0 and newer) or 3 (Spack 1.2 and newer), "
        "without quotes",
    )
    return None


def _harmless(data: dict[str, Any]) -> dict[str, Any]:
    """Return enough of an invalid document that the others can still be read."""
    spack = mapping(data.get("spack"))
    texts = {key: data.get(key) for key in ("name", "store", "description", "default-view")}
    kept: dict[str, Any] = {k: v if isinstance(v, str) else None for k, v in texts.items()}
    commit = spack.get("commit")
    kept["spack"] = {"repo": "", "commit": commit if isinstance(commit, str) else None}
    kept["modules"] = data.get("modules") if isinstance(data.get("modules"), bool) else None
    kept["store"] = kept["store"] or MOUNT
    return kept


def _config(
    document: Document,
    data: dict[str, Any],
    language: Language,
    repositories: tuple[PackageRepository, ...],
) -> Config:
    spack = data["spack"]
    stack = SpackStack(
        name=data.get("name") or "",
        generation=language.version,
        mount=normal(data.get("store") or MOUNT),
        spack=GitSource(url=spack["repo"], commit=spack.get("commit")),
        architecture="",
        description=data.get("description") or "",
        default_view=data.get("default-view"),
        package_repositories=repositories,
        cleanup=data.get("cleanup") or "none",
        source=f"Stackinator recipe, version {language.version}",
    )
    return Config(language=language, stack=stack, modules=data.get("modules"), document=document)


def _check_mount(entry: DocumentPart, mount: str) -> None:
    if fault := bad_mount_point(mount):
        message = f"`{mount}` cannot be a mount point: {fault}"
        hint = f"use a path of its own, for example {MOUNT}"
        entry.problem(("store",), message, hint, Reason.BAD_MOUNT_POINT)


def _check_name(entry: DocumentPart, name: str) -> None:
    if not name.isprintable() or "/" in name or name.strip(". ") == "":
        message = f"`{name[:80]!r}` cannot be the name of a stack"
        entry.problem(("name",), message, "use letters, digits, `_`, `-` and `.`")


def _repositories(entry: DocumentPart, packages: Any) -> tuple[PackageRepository, ...]:
    """Return the repositories of packages, those that count most first."""
    if packages is None:
        return ()
    at: tuple[str, ...] = ("spack", "packages")
    if isinstance(packages.get("repo"), str):
        named = {"builtin": (packages, at)}
    else:
        named = {name: (body, (*at, name)) for name, body in packages.items()}
    result = []
    for name, (body, path) in named.items():
        if whose := _RESERVED_REPOSITORIES.get(name):
            message = f"`{name}` is reserved: it names the packages of the {whose}"
            entry.problem((*path, KEY), message, "give the repository another name")
        elif not _REPOSITORY_NAME.fullmatch(name):
            message = f"`{name[:80]}` cannot be the name of a package repository"
            entry.problem((*path, KEY), message, "use letters, digits, `_` and `-`")
        folder = body.get("path", f"repos/spack_repo/{name}")
        entry.check_relative((*path, "path"), folder, "the repository")
        source = GitSource(url=body["repo"], commit=body.get("commit"))
        result.append(PackageRepository(name=name, source=source, path=folder))
    return tuple(result)


def _check_spack(entry: DocumentPart, commit: str | None, language: Language) -> None:
    """Find a Spack that the recipe's version cannot be built with, as far as its name tells.

    One that is taken here, and older than those that Stackinator itself takes, is noted.
    """
    found, number = version_of(commit), language.version
    if found is None:
        return
    newest = f"such as releases/v{_newest(language)}"
    if found < language.spack_from:
        needs = f"Spack {_dotted(language.spack_from)} or newer"
        hint = f"ask for a newer Spack, {newest}"
        if number > 1:
            hint += ", or write the recipe in version 1"
    elif language.spack_before and found >= language.spack_before:
        needs = f"a Spack before {_dotted(language.spack_before)}"
        hint = (
            "write `version: 2`, `spack: packages:` and `network:` instead of `mpi:`, or ask for "
            f"an older Spack, {newest}"
        )
    else:
        if found < language.spack_meant and not entry.findings.one_file:
            entry.note(
                ("spack", "commit"),
                f"Stackinator builds recipes of version {number} with Spack "
                f"{_dotted(language.spack_meant)} and newer; `{commit}` is older, which works here",
            )
        return
    message = f"a recipe of version {number} needs {needs}, and this one asks for `{commit}`"
    entry.problem(("spack", "commit"), message, hint, Reason.UNSUPPORTED)


def _newest(language: Language) -> str:
    return "0.23" if language.version == 1 else _dotted(language.spack_meant)


def _dotted(version: SpackVersion) -> str:
    return f"{version[0]}.{version[1]}"
