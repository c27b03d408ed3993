"""Packages that travel with a recipe or a site, and whether they hide others."""

from __future__ import annotations

from collections.abc import Iterable

from stackproof.build.engines.spack.stack import FileEntry, LocalRepository
from stackproof.build.engines.spack.stackinator.findings import FindingsList
from stackproof.build.engines.spack.stackinator.folder import Folder
from stackproof.core.errors import Location

RECIPE = "recipe"
SITE = "alps"


def packages_of(folder: Folder, prefix: str = "") -> dict[str, FileEntry]:
    """Return the files of the packages in a repository's folder, by `<package>/<path>`.

    A file that lies beside the folders of packages belongs to none, and is left out, as what
    Python leaves behind is.
    """
    return {
        path: entry
        for path, entry in folder.below(f"{prefix}packages").items()
        if "/" in path and "__pycache__" not in path.split("/") and not path.endswith(".pyc")
    }


def local_repositories(
    recipe: Folder, site: dict[str, FileEntry], generation: int, findings: FindingsList
) -> tuple[LocalRepository, ...]:
    """Return the repositories of recipe and site, the one that counts most first.

    Spack up to 0.23 gets them as one, as Stackinator made it then: a package of the recipe takes
    the place of the site's.
    """
    own = packages_of(recipe, "repo/")
    for name in sorted({path.partition("/")[0] for path in own}):
        if f"{name}/package.py" not in own:
            findings.note(
                f"`{name}` has no package.py: it is no package",
                where=Location(file=recipe.place(f"repo/packages/{name}")),
            )
    if generation == 1:
        names = {path.partition("/")[0] for path in own}
        rest = {p: entry for p, entry in site.items() if p.partition("/")[0] not in names}
        named = {SITE: {**own, **rest}}
    else:
        named = {RECIPE: own, SITE: site}
    return tuple(
        LocalRepository(
            namespace=namespace,
            files={f"packages/{path}": files[path] for path in sorted(files)},
        )
        for namespace, files in named.items()
        if files
    )


def shadowed(local_names: Iterable[str], builtin_names: Iterable[str]) -> tuple[str, ...]:
    """Return the packages of a recipe or site that hide one of the same name, sorted.

    Spack's folders have `_` where package names have `-`, and `_` in front of a digit; both
    spellings are one name here.
    """
    known = {_canonical(name) for name in builtin_names}
    return tuple(sorted({name for name in local_names if _canonical(name) in known}))


def package_names(repository: LocalRepository) -> tuple[str, ...]:
    """Return the folders of a repository that are packages, sorted."""
    parts = (path.split("/") for path in repository.files)
    return tuple(sorted({p[1] for p in parts if len(p) == 3 and p[2] == "package.py"}))


def _canonical(name: str) -> str:
    plain = name.replace("_", "-").lower()
    return plain.removeprefix("-") if plain[1:2].isdigit() else plain
