"""RPMs that were chosen and read to the lock: which file goes where, and what each library is."""

from __future__ import annotations

import posixpath
import re
import stat
from collections.abc import Iterator, Mapping

from stackproof.build.engines.vendor import releases, selection
from stackproof.build.engines.vendor.rpm import PackagedFile
from stackproof.build.engines.vendor.selection import ChosenRpms, Product
from stackproof.build.engines.vendor.stack import (
    VendorFile,
    VendorLibrary,
    VendorLock,
    VendorRpm,
    VendorStack,
    wants,
)
from stackproof.core.errors import Location, Problem, Reason, StackproofError
from stackproof.core.value import Value
from stackproof.linking.elf import ElfFile

_GLIBC = re.compile(r"GLIBC_(\d+(?:\.\d+)+)")
_TEXTS = (".pc", ".conf", ".cmake")


class ReadRpm(Value):
    """An RPM that was unpacked: its own digest, those of its files, and the ELF files by digest."""

    product: Product
    sha256: str
    files: Mapping[str, str]
    elfs: Mapping[str, ElfFile]


def make_lock(stack: VendorStack, chosen: ChosenRpms, read: tuple[ReadRpm, ...]) -> VendorLock:
    """Return the lock of a stack.

    Raises `StackproofError` (INVALID_VALUE) for libraries of another machine, and for two RPMs that
    bring different files of one name.
    """
    packages = tuple(_package(one, stack) for one in read)
    problems = [*_clashes(packages), *_foreign(read, packages, stack)]
    if problems:
        raise StackproofError(*problems)
    libraries = tuple(
        _library(file, one.elfs[file.sha256])
        for one, package in zip(read, packages, strict=True)
        for file in package.files
        if file.kind == "elf"
    )
    return VendorLock(
        wants=wants(stack),
        compiler=f"{chosen.mpich.compiler}-{chosen.mpich.built}",
        packages=packages,
        libraries=libraries,
        notes=chosen.notes,
    )


def _package(read: ReadRpm, stack: VendorStack) -> VendorRpm:
    product, rpm = read.product, read.product.rpm
    found = []
    for file in sorted(rpm.files, key=lambda one: one.path):
        target = selection.place(product, file.path, stack)
        if target and not stat.S_ISDIR(file.mode):
            found.append(_file(read, file, target))
    return VendorRpm(
        filename=rpm.file,
        sha256=read.sha256,
        name=rpm.name,
        epoch=rpm.epoch,
        version=rpm.version,
        release=rpm.release,
        architecture=rpm.architecture,
        licence=rpm.licence,
        vendor=rpm.vendor,
        product=product.role,
        product_version=product.release,
        root=product.root,
        folder=product.folder,
        scripts=rpm.scripts,
        files=tuple(found),
    )


def _file(read: ReadRpm, file: PackagedFile, target: str) -> VendorFile:
    if file.link:
        return VendorFile(path=file.path, target=target, kind="link", link=file.link)
    sha256 = read.files[file.path]
    kind = "plain"
    if sha256 in read.elfs:
        kind = "elf" if read.elfs[sha256].dynamic else "plain"
    elif "/bin/" in target or target.endswith(_TEXTS):
        kind = "text"
    executable = bool(file.mode & stat.S_IXUSR)
    return VendorFile(
        path=file.path, target=target, kind=kind, sha256=sha256, executable=executable
    )


def _library(file: VendorFile, elf: ElfFile) -> VendorLibrary:
    nodes = [match[1] for need in elf.version_needs if (match := _GLIBC.fullmatch(need.name))]
    numbers = {node: tuple(map(int, node.split("."))) for node in nodes}
    wanted: dict[str, list[str]] = {}
    for need in elf.version_needs:
        if not need.weak and not releases.is_glibc(need.library):
            wanted.setdefault(need.library, []).append(need.name)
    return VendorLibrary(
        target=file.target,
        soname=elf.soname,
        needed=elf.needed,
        glibc=max(numbers, key=lambda node: numbers[node], default=""),
        versions={library: tuple(names) for library, names in wanted.items()},
    )


def _clashes(packages: tuple[VendorRpm, ...]) -> Iterator[Problem]:
    """Yield what two RPMs bring under one name; the same file twice is none."""
    seen: dict[str, tuple[VendorRpm, VendorFile]] = {}
    for package in packages:
        for file in package.files:
            other = seen.setdefault(file.target, (package, file))
            if (other[1].sha256, other[1].link) != (file.sha256, file.link):
                yield Problem(
                    reason=Reason.INVALID_VALUE,
                    message=f"`{other[0].filename}` and `{package.filename}` bring a different "
                    f"`{file.path}`",
                    hint="take away the one that does not belong there",
                )


def _foreign(
    read: tuple[ReadRpm, ...], packages: tuple[VendorRpm, ...], stack: VendorStack
) -> Iterator[Problem]:
    for one, package in zip(read, packages, strict=True):
        for file in package.files:
            if file.kind == "elf" and one.elfs[file.sha256].machine != stack.architecture:
                yield Problem(
                    reason=Reason.INVALID_VALUE,
                    message=f"`{posixpath.basename(file.path)}` is for "
                    f"{one.elfs[file.sha256].machine}, and the stack for {stack.architecture}",
                    where=Location(file=package.filename),
                    hint="take the RPM out of the folder",
                )
