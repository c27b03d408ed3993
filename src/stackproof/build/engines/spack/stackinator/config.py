"""`config.yaml`: what a recipe is, which Spack builds it, where it is mounted."""

from __future__ import annotations

import re
from typing import Any

from stackproof.build.engines.spack.stack import GitSource, PackageRepository
from stackproof.build.engines.spack.stackinator.findings import FindingsList, Folder, mapping
from stackproof.build.engines.spack.stackinator.versions import LANGUAGES, Language, SpackVersion
from stackproof.core.document import Document
from stackproof.core.errors import Location, Reason
from stackproof.core.mountlist import bad_mount_point, normal
from stackproof.core.value import Value

MOUNT = "/user-environment"
NOT_A_RECIPE = (
    "a folder is taken for a Stackinator recipe (config.yaml, compilers.yaml, environments.yaml); "
    "name the file of a recipe of one file"
)
"""What to do where a folder has no config.yaml."""
_RESERVED_REPOSITORIES = ("alps", "recipe")
_REPOSITORY_NAME = re.compile(r"[A-Za-z0-9][\w-]*", re.ASCII)


class Config(Value):
    """What `config.yaml` says, with its defaults.

    `modules` is None where the file does not say; `modules_at`, `default_view_at` and `spack_at`
    are the places of those values.
    """

    language: Language
    name: str
    mount: str
    spack: GitSource
    repositories: tuple[PackageRepository, ...]
    modules: bool | None
    description: str
    default_view: str | None
    cleanup: str
    modules_at: Location
    default_view_at: Location
    spack_at: Location

    @property
    def spack_version(self) -> SpackVersion | None:
        """Return the Spack version that the commit's name says, None when it says none."""
        return version_of(self.spack.commit)


def version_of(commit: str | None) -> SpackVersion | None:
    """Return major and minor version in a branch's or tag's name; None in a commit's."""
    found = re.search(r"(?:^|[^\w.])v?(\d+)\.(\d+)(?:\.\w+)*$", commit or "")
    return (int(found[1]), int(found[2])) if found else None


def read_config(folder: Folder, mount: str | None, findings: FindingsList) -> Config | None:
    """Return what `config.yaml` says; None when it does not even say the version."""
    document = findings.parse_needed(folder, "config.yaml", "a recipe's folder", NOT_A_RECIPE)
    if document is None:
        return None
    language = _language(document, findings)
    if language is None:
        return None
    valid = findings.check(document, language.config, language.version)
    data = mapping(document.data)
    if mount is not None:
        data = {**data, "store": mount}
    if not valid:
        return _config(document, _harmless(data), language, ())
    _check_mount(document, data, findings)
    _check_name(document, data, findings)
    repositories = _repositories(document, data["spack"].get("packages"), findings)
    config = _config(document, data, language, repositories)
    _check_spack(config, findings)
    if "system" in data:
        findings.note(
            f"`system: {data['system']}` names the cluster as recipes did in 2023; what is read is "
            "the cluster of `--site`, without it this machine",
            where=document.where_key("system"),
        )
    return config


def _language(document: Document, findings: FindingsList) -> Language | None:
    """Return the language of the version a recipe says; without one it is 1."""
    if not isinstance(document.data, dict):
        findings.check(document, LANGUAGES[1].config)
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
    return Config(
        language=language,
        name=data.get("name") or "",
        mount=normal(data.get("store") or MOUNT),
        spack=GitSource(url=spack["repo"], commit=spack.get("commit")),
        repositories=repositories,
        modules=data.get("modules"),
        description=data.get("description") or "",
        default_view=data.get("default-view"),
        cleanup=data.get("cleanup") or "none",
        modules_at=document.where("modules"),
        default_view_at=document.where("default-view"),
        spack_at=document.where("spack", "commit"),
    )


def _check_mount(document: Document, data: dict[str, Any], findings: FindingsList) -> None:
    mount = data.get("store", MOUNT)
    fault = bad_mount_point(mount)
    if fault:
        findings.problem(
            Reason.BAD_MOUNT_POINT,
            f"`{mount}` cannot be a mount point: {fault}",
            where=document.where("store"),
            hint=f"use a path of its own, for example {MOUNT}",
        )


def _check_name(document: Document, data: dict[str, Any], findings: FindingsList) -> None:
    name = data["name"]
    if not name.isprintable() or "/" in name or name.strip(". ") == "":
        findings.problem(
            Reason.INVALID_VALUE,
            f"`{name[:80]!r}` cannot be the name of a stack",
            where=document.where("name"),
            hint="use letters, digits, `_`, `-` and `.`",
        )


def _repositories(
    document: Document, packages: Any, findings: FindingsList
) -> tuple[PackageRepository, ...]:
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
        where = document.where_key(*path)
        if name in _RESERVED_REPOSITORIES:
            findings.problem(
                Reason.INVALID_VALUE,
                f"`{name}` is reserved: it names the packages of the "
                f"{'cluster' if name == 'alps' else 'recipe'}",
                where=where,
                hint="give the repository another name",
            )
        elif not _REPOSITORY_NAME.fullmatch(name):
            findings.problem(
                Reason.INVALID_VALUE,
                f"`{name[:80]}` cannot be the name of a package repository",
                where=where,
                hint="use letters, digits, `_` and `-`",
            )
        folder = body.get("path", f"repos/spack_repo/{name}")
        findings.check_relative(folder, "the repository", document.where(*path, "path"))
        source = GitSource(url=body["repo"], commit=body.get("commit"))
        result.append(PackageRepository(name=name, source=source, path=folder))
    return tuple(result)


def _check_spack(config: Config, findings: FindingsList) -> None:
    """Find a Spack that the recipe's version cannot be built with, as far as its name tells."""
    language, found = config.language, config.spack_version
    if found is None:
        return
    asked, number = f"`{config.spack.commit}`", language.version
    if found < language.spack_from:
        findings.problem(
            Reason.UNSUPPORTED,
            f"a recipe of version {number} needs Spack {_dotted(language.spack_from)} or newer, "
            f"and this one asks for {asked}",
            where=config.spack_at,
            hint=f"ask for a newer Spack, such as releases/v{_newest(language)}"
            + ("" if number == 1 else ", or write the recipe in version 1"),
        )
    elif language.spack_before and found >= language.spack_before:
        findings.problem(
            Reason.UNSUPPORTED,
            f"a recipe of version {number} needs a Spack before {_dotted(language.spack_before)}, "
            f"and this one asks for {asked}",
            where=config.spack_at,
            hint="write `version: 2`, `spack: packages:` and `network:` instead of `mpi:`, or ask "
            f"for an older Spack, such as releases/v{_newest(language)}",
        )


def note_older_spack(config: Config, findings: FindingsList) -> None:
    """Note a Spack that is taken here, and older than those that Stackinator itself takes."""
    language, found = config.language, config.spack_version
    if found is not None and language.spack_from <= found < language.spack_meant:
        findings.note(
            f"Stackinator builds recipes of version {language.version} with Spack "
            f"{_dotted(language.spack_meant)} and newer; `{config.spack.commit}` is older, which "
            "works here",
            where=config.spack_at,
        )


def _newest(language: Language) -> str:
    return "0.23" if language.version == 1 else _dotted(language.spack_meant)


def _dotted(version: SpackVersion) -> str:
    return f"{version[0]}.{version[1]}"
