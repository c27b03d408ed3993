"""Accepted sources of the operating system to a package repository that has them.

Spack checks a source against the digest in its package. A package of the repository made here is
the original one and one more version: the operating system's file under its own digest, with its
address. So the choice is explicit: it is part of the solution and of the package's hash, and the
image holds the package, the bill of materials the provenance.

A package takes over by inheritance, as Spack documents it for 0.23 and 1.x ("Overriding builtin
packages", https://spack.readthedocs.io/en/latest/repositories.html).
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping

from stackproof.build.engines.spack.stack import FileEntry, LocalRepository, OsSource, SpackStack
from stackproof.core import ids
from stackproof.core.errors import Location, Problem, Reason
from stackproof.core.value import replace

NAMESPACE = "os_sources"
TOOLS = ("autoconf", "automake", "libtool", "m4")
"""What makes a `configure` script, by Spack's names."""
# What may stand in a list of accepted sources: the values become Python text and paths.
_FORMS: Mapping[str, re.Pattern[str]] = {
    "name": re.compile(r"[a-z0-9][a-z0-9-]*", re.ASCII),
    "version": re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII),
    "sha256": re.compile(r"[0-9a-f]{64}", re.ASCII),
    "url": re.compile(r"(https?|file)://[A-Za-z0-9._~:/%+@-]+", re.ASCII),
    "suite": re.compile(r"[A-Za-z0-9._ /-]+", re.ASCII),
    "source": re.compile(r"[a-z0-9][a-z0-9+.-]+", re.ASCII),
    "source_version": re.compile(r"[A-Za-z0-9.+:~-]+", re.ASCII),
    "dsc": re.compile(r"[0-9a-f]{64}", re.ASCII),
    "extends": re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII),
}

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

    Their repository comes before all others: a package there extends the one that would be used
    without it, be that the recipe's own.
    """
    if not sources:
        return stack, {}
    texts = {
        package_path(source.name, stack.generation): render_package(source, stack.generation)
        for source in sources
    }
    content = {ids.digest(text.encode()): text.encode() for text in texts.values()}
    entries: Mapping[str, FileEntry] = {
        path: FileEntry(sha256=ids.digest(text.encode())) for path, text in texts.items()
    }
    repository = LocalRepository(namespace=NAMESPACE, files=entries)
    others = tuple(r for r in stack.local_repositories if r.namespace != NAMESPACE)
    return (
        replace(stack, local_repositories=(repository, *others), os_sources=sources),
        content,
    )


def source_problems(sources: tuple[OsSource, ...], file: str) -> tuple[Problem, ...]:
    """Return what a list of accepted sources has that can be no name, version or digest."""
    found = []
    seen: set[str] = set()
    for source in sources:
        values = {key: getattr(source, key) for key in _FORMS}
        values |= {f"needs[{number}]": need for number, need in enumerate(source.needs)}
        bad = [key for key, value in values.items() if not _fits(key, value)]
        messages = [f"`{values[key][:80]}` can be no {key} of a source" for key in bad]
        if source.name in seen:
            messages.append(f"two sources of `{source.name}` are accepted, and one can be")
        seen.add(source.name)
        found += [
            Problem(
                reason=Reason.INVALID_VALUE,
                message=message,
                where=Location(file=file),
                hint="remove the entry, and let `stackproof mirror add-os-sources` write it again",
            )
            for message in messages
        ]
    return tuple(found)


def _fits(key: str, value: str) -> bool:
    if key == "extends" and any(map(keyword.iskeyword, value.split("."))):
        return False
    return bool(_FORMS["name" if key.startswith("needs[") else key].fullmatch(value))


def render_package(source: OsSource, generation: int) -> str:
    """Return the `package.py` that adds one version to the original package."""
    name = _module(source.name)
    if generation == 1:
        module = f"spack.pkg.{source.extends}.{name}"
    else:
        module = f"spack_repo.{source.extends}.packages.{name}.package"
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


def package_path(name: str, generation: int) -> str:
    """Return the path of a package in a repository: since Spack 1.0 a Python name."""
    return f"packages/{name if generation == 1 else _module(name)}/package.py"


def class_name(name: str) -> str:
    """Return the class of a package (Spack's `naming.py`: PyNumpy for py-numpy, _3proxy)."""
    words = name.replace("_", "-").split("-")
    joined = "".join(word[:1].upper() + word[1:] for word in words)
    return f"_{joined}" if joined[:1].isdigit() or keyword.iskeyword(joined) else joined


def _module(name: str) -> str:
    module = name.replace("-", "_")
    return f"_{module}" if module[:1].isdigit() or keyword.iskeyword(module) else module
