"""Accepted sources of the operating system to a package repository that has them.

Spack checks a source against the digest in its package. A package of the repository made here is
the original one and one more version: the operating system's file under its own digest, with its
address. So the choice is explicit: it is part of the solution and of the package's hash, and the
image holds the package, the bill of materials the provenance.

A package takes over by inheritance, as Spack documents it for 0.23 and 1.x ("Overriding builtin
packages", https://spack.readthedocs.io/en/latest/repositories.html).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from stackproof import ids
from stackproof.spackstack import FileEntry, LocalRepository, OsSource, SpackStack

NAMESPACE = "os_sources"

_PACKAGE = """\
# Written by stackproof: {name} {version} from the operating system's source package.
#   {suite}: {source} {source_version}, .dsc sha256 {dsc}
# Builders and helpers of the original come with it; only a version is added.
from spack.package import *
from {module} import *
from {module} import {class_name} as _Original


class {class_name}(_Original):
    __doc__ = _Original.__doc__

    version(
        "{version}",
        sha256="{sha256}",
        url="{url}",
        preferred=True,
    )
{needs}"""


def with_os_sources(
    stack: SpackStack, sources: tuple[OsSource, ...]
) -> tuple[SpackStack, dict[str, bytes]]:
    """Return the stack that accepts the sources, and the bytes of its new files by digest.

    The recipe's own packages come first, the site's and Spack's after these.
    """
    if not sources:
        return stack, {}
    texts = {
        f"packages/{_folder(source, stack.generation)}/package.py": render_package(
            source, stack.generation
        )
        for source in sources
    }
    content = {ids.digest(text.encode()): text.encode() for text in texts.values()}
    entries: Mapping[str, FileEntry] = {
        path: FileEntry(sha256=ids.digest(text.encode())) for path, text in texts.items()
    }
    repository = LocalRepository(namespace=NAMESPACE, files=entries)
    others = tuple(r for r in stack.local_repositories if r.namespace != NAMESPACE)
    return (
        replace(stack, local_repositories=(*others, repository), os_sources=sources),
        content,
    )


def render_package(source: OsSource, generation: int) -> str:
    """Return the `package.py` that adds one version to the original package."""
    folder = _folder(source, generation)
    if generation == 1:
        module = f"spack.pkg.{source.extends}.{_module(source.name)}"
    else:
        module = f"spack_repo.{source.extends}.packages.{folder}.package"
    needs = "".join(
        f'    depends_on("{tool}", type="build", when="@{source.version}")\n'
        for tool in source.needs
    )
    return _PACKAGE.format(
        name=source.name, version=source.version, suite=source.suite, source=source.source,
        source_version=source.source_version, dsc=source.dsc, module=module,
        class_name=class_name(source.name), sha256=source.sha256, url=source.url,
        needs=f"\n{needs}" if needs else "",
    )  # fmt: skip


def package_folders(name: str, generation: int) -> str:
    """Return the folder of a package in a repository: Spack 1.0 made it a Python name."""
    return name if generation == 1 else _module(name)


def class_name(name: str) -> str:
    """Return the class of a package (Spack's `naming.py`: PyNumpy for py-numpy, _3proxy)."""
    words = name.replace("_", "-").split("-")
    joined = "".join(word[:1].upper() + word[1:] for word in words)
    return f"_{joined}" if joined[:1].isdigit() else joined


def _folder(source: OsSource, generation: int) -> str:
    return package_folders(source.name, generation)


def _module(name: str) -> str:
    module = name.replace("-", "_")
    return f"_{module}" if module[:1].isdigit() else module
