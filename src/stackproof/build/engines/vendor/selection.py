"""RPMs of a folder to those that a stack is made of; what they hold says what they are.

HPE writes the release into the name of a package (`cray-mpich-8.1.30-gnu123`), and its version is
0. How a compiler is written there has changed, and names as `-ucx`, `-doc` and `-abi` are alike; so
the folders of its files decide (`/opt/cray/pe/mpich/8.1.30/ofi/gnu/12.3/lib`), and the name must
not contradict them.
"""

from __future__ import annotations

import posixpath
import re
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence

from stackproof.build.engines.vendor import releases
from stackproof.build.engines.vendor.rpm import Rpm
from stackproof.build.engines.vendor.stack import VendorLibrary, VendorLock, VendorStack
from stackproof.core.errors import Location, Problem, Reason, StackproofError
from stackproof.core.value import Value

# --------------------------------------------------------------------------------------------------
# What the libraries of a lock need, where each finds it, and what only the machine can bring.

_MAIN = re.compile(r"libmpi(?:_[a-z]+(?:_\d+)?)?\.so\.\d+")
_GTL = re.compile(r"libmpi_gtl_\w+\.so\b.*")
_OLD_HIP = "libamdhip64.so.6"
_XPMEM = "libxpmem.so.0"


class LibraryChange(Value):
    """What is changed in a library: its search path, and names that it needs."""

    rpath: str
    add: tuple[str, ...] = ()
    replace: Mapping[str, str]


def changes(stack: VendorStack, lock: VendorLock) -> dict[str, LibraryChange]:
    """Return what is changed in every library and program of a lock, by its place."""
    gtl = _gtl_sonames(lock)
    found = {}
    for library in lock.libraries:
        add: list[str] = []
        if _MAIN.fullmatch(library.soname) and not _GTL.fullmatch(library.soname):
            add += [*gtl, *([_XPMEM] if stack.xpmem else [])]
        elif library.soname in gtl:
            add += releases.unnamed_needs(stack.gtl, lock.mpi.product_version)
        known = {name.partition(".so")[0] for name in library.needed}
        renamed = {}
        if stack.hip and _OLD_HIP in library.needed:
            renamed[_OLD_HIP] = f"libamdhip64.so.{stack.hip}"
        found[library.target] = LibraryChange(
            rpath=":".join(_search_path(library, stack, lock)),
            add=tuple(name for name in add if name.partition(".so")[0] not in known),
            replace=renamed,
        )
    return found


def _search_path(library: VendorLibrary, stack: VendorStack, lock: VendorLock) -> Iterable[str]:
    """Return where a library looks: beside itself, in the folders of the others, at the site's."""
    own = posixpath.dirname(library.target)
    folders = dict.fromkeys((own, *(f"{one.folder}/lib" for one in lock.packages)))
    for folder in folders:
        way = posixpath.relpath(folder, own)
        yield "$ORIGIN" if way == "." else f"$ORIGIN/{way}"
    yield from stack.libraries


def _gtl_sonames(lock: VendorLock) -> tuple[str, ...]:
    return tuple(one.soname for one in lock.libraries if _GTL.fullmatch(one.soname))


def main_library(lock: VendorLock) -> str:
    """Return what the MPI's own library is linked as: `mpi_gnu_123`; empty without one."""
    folder = f"{lock.mpi.folder}/lib"
    for one in lock.libraries:
        if posixpath.dirname(one.target) == folder and _MAIN.fullmatch(one.soname):
            return one.soname.removeprefix("lib").partition(".so")[0]
    return ""


def gtl_library(lock: VendorLock) -> str:
    """Return what the library for GPUs is linked as; empty without one."""
    return next((one.removeprefix("lib").partition(".so")[0] for one in _gtl_sonames(lock)), "")


def outside(stack: VendorStack, lock: VendorLock) -> dict[str, str]:
    """Return what no RPM of the lock has, and a library that needs it; not what glibc has."""
    have = {posixpath.basename(file.target) for one in lock.packages for file in one.files}
    have |= {one.soname for one in lock.libraries}
    changed = changes(stack, lock)
    found: dict[str, str] = {}
    for library in lock.libraries:
        change = changed[library.target]
        for name in (*library.needed, *change.add):
            name = change.replace.get(name, name)  # noqa: PLW2901 - the name that is looked for
            if name not in have and not releases.is_glibc(name):
                found.setdefault(name, posixpath.basename(library.target))
    return found


def missing(stack: VendorStack, lock: VendorLock) -> tuple[Problem, ...]:
    """Return what RPMs of HPE would bring and none of the lock does."""
    found = []
    for name, user in outside(stack, lock).items():
        package, _, which = releases.vendor_package(name, lock.mpi.product_version).partition(" ")
        if package:
            message = (
                f"`{name}`, which `{user}` needs, is in none of the RPMs: `{package}-*.rpm`{which} "
                "would bring it"
            )
            hint = "put it into the folder of --from"
            found.append(Problem(reason=Reason.FILE_MISSING, message=message, hint=hint))
    return tuple(found)


def wanted_versions(lock: VendorLock, soname: str) -> tuple[str, ...]:
    """Return the version nodes that libraries of a lock want of another one."""
    return tuple(
        dict.fromkeys(node for one in lock.libraries for node in one.versions.get(soname, ()))
    )


def floor(lock: VendorLock) -> tuple[str, str]:
    """Return the oldest glibc that all libraries run with, and one that asks for it."""
    asking = [one for one in lock.libraries if one.glibc]
    newest = max(asking, key=lambda one: releases.number(one.glibc), default=None)
    return (newest.glibc, posixpath.basename(newest.target)) if newest else ("", "")


_NUMBER = r"(?P<release>\d[\w.]*)"
_MPICH = re.compile(
    rf"(?P<root>/opt/cray/pe/mpich/{_NUMBER}/(?P<network>ofi|ucx)/(?P<compiler>[a-z]+)/"
    r"(?P<built>\d[\w.]*))/lib/libmpi\w*\.so\b.*"
)
_OTHERS = {
    "gtl": re.compile(rf"(?P<root>/opt/cray/pe/mpich/{_NUMBER}/gtl)/lib/libmpi_gtl_\w+\.so\b.*"),
    "pmi": re.compile(rf"(?P<root>/opt/cray/pe/pmi/{_NUMBER})/(?:lib|include)/.*"),
    "pals": re.compile(rf"(?P<root>/opt/cray/(?:pe/)?pals/{_NUMBER})/lib/.*"),
}
_IN_NAME = re.compile(r"-(\d+\.\d+[\d.]*\d)(?=-|$)")
_GTL_NAMES = {"cuda": "libmpi_gtl_cuda.", "rocm": "libmpi_gtl_hsa."}
_KEPT = ("bin", "etc", "include", "lib")
_ABI = "lib-abi-mpich"
_STATIC = (".a", ".la")


class Product(Value):
    """What an RPM holds: `role` is mpich, gtl, pmi or pals, `root` its folder in the RPM.

    `compiler` and `built` are what Cray MPICH was compiled with, and its version.
    """

    rpm: Rpm
    role: str
    release: str
    root: str
    network: str = ""
    compiler: str = ""
    built: str = ""

    @property
    def folder(self) -> str:
        """Return where it goes below the mount point."""
        return f"cray-{'mpich' if self.role == 'mpich' else self.role}-{self.release}"


class ChosenRpms(Value):
    """The RPMs of a stack, Cray MPICH first, and what should be known of the choice."""

    products: tuple[Product, ...]
    notes: tuple[str, ...] = ()

    @property
    def mpich(self) -> Product:
        """Return Cray MPICH itself."""
        return self.products[0]


def products(rpm: Rpm) -> Product | None:
    """Return what an RPM holds; None for what is none of the products.

    Raises `StackproofError` (INVALID_VALUE) for one that holds two, or another than its name says.
    """
    found = {}
    for file in rpm.files:
        match = _MPICH.fullmatch(file.path)
        role = "mpich"
        for other, pattern in _OTHERS.items():
            if match is None:
                match, role = pattern.fullmatch(file.path), other
        if match:
            words = {"network": "", "compiler": "", "built": "", **match.groupdict()}
            found[words["root"]] = Product(rpm=rpm, role=role, **words)
    if len(found) > 1:
        raise _contradiction(rpm, f"it holds {' and '.join(sorted(found))} at once")
    product = next(iter(found.values()), None)
    named = _IN_NAME.search(rpm.name)
    if product and named and named[1] != product.release:
        raise _contradiction(rpm, f"its name says {named[1]}, and it holds {product.root}")
    return product


def select(rpms: Sequence[Rpm], stack: VendorStack, folder: str) -> ChosenRpms:
    """Return the RPMs that a stack is made of: the newest that fit where it leaves a choice.

    Raises `StackproofError` with every reason why there are none, and with what none may hold.
    """
    problems: list[Problem] = []
    every: list[Product] = []
    for rpm in rpms:
        try:
            product = products(rpm)
        except StackproofError as error:
            problems += error.problems
            continue
        if product is not None:
            every.append(product)
    here = [one for one in every if one.rpm.architecture in {stack.architecture, "noarch"}]
    mpich = _mpich(every, here, stack, folder)
    if isinstance(mpich, Problem):
        raise StackproofError(*problems, mpich)
    chosen = [mpich]
    if stack.gtl != "none":
        chosen += _gtl(here, mpich, stack.gtl, problems, folder)
    chosen += _pmi(here, mpich, problems, folder)
    chosen += _newest([one for one in here if one.role == "pals"])
    whole, notes = _one_build_each(chosen, here, problems)
    problems += [fault for one in whole for fault in faults(one, stack)]
    if problems:
        raise StackproofError(*problems)
    return ChosenRpms(products=tuple(whole), notes=notes)


def _mpich(
    every: Sequence[Product], here: Sequence[Product], stack: VendorStack, folder: str
) -> Product | Problem:
    """Return the Cray MPICH that is asked for, or why there is none."""
    builds = [one for one in here if one.role == "mpich" and one.network == "ofi"]
    if not builds:
        foreign = sorted({one.rpm.architecture for one in every if one.role == "mpich"})
        others = f"; what is there is for {', '.join(foreign)}, or for UCX" if foreign else ""
        return Problem(
            reason=Reason.FILE_MISSING,
            message=f"`{folder}` has no RPM of Cray MPICH for OFI and {stack.architecture}{others}",
            hint="its RPMs begin with cray-mpich-RELEASE-COMPILER; name their folder with --from",
        )
    wanted, _, built = stack.compiler.partition("-")
    fitting = [one for one in builds if _begins(one.release, stack.mpi_version)]
    if not fitting:
        return _none(Reason.UNKNOWN_VERSION, f"no Cray MPICH {stack.mpi_version}", (
            f"{one.release}" for one in builds
        ), folder)  # fmt: skip
    fitting = [one for one in fitting if one.compiler == wanted and _begins(one.built, built)]
    if not fitting:
        wish = f"no Cray MPICH {stack.mpi_version} for {stack.compiler}".replace("  ", " ")
        return _none(Reason.UNKNOWN_VERSION, wish, (
            f"{one.release} for {one.compiler}-{one.built}" for one in builds
        ), folder)  # fmt: skip
    return max(fitting, key=lambda one: (releases.number(one.release), releases.number(one.built)))


def _none(reason: Reason, message: str, there: Iterable[str], folder: str) -> Problem:
    return Problem(
        reason=reason, message=f"`{folder}` has {message}",
        hint=f"there are: {', '.join(sorted(set(there)))}",
    )  # fmt: skip


def _gtl(
    here: Sequence[Product], mpich: Product, gtl: str, problems: list[Problem], folder: str
) -> list[Product]:
    for release in releases.gtl_of(mpich.release):
        found = [
            one for one in here
            if one.role == "gtl" and one.release == release
            and any(_GTL_NAMES[gtl] in posixpath.basename(file.path) for file in one.rpm.files)
        ]  # fmt: skip
        if found:
            return found
    problems.append(
        Problem(
            reason=Reason.FILE_MISSING,
            message=f"`{folder}` has no RPM with {_GTL_NAMES[gtl]}so for Cray MPICH "
            f"{mpich.release}",
            hint=f"`cray-mpich-{releases.gtl_of(mpich.release)[-1]}-gtl-*.rpm` would bring it; "
            "put it there, or take `gtl` out of the recipe",
        )
    )
    return []


def _pmi(
    here: Sequence[Product], mpich: Product, problems: list[Problem], folder: str
) -> list[Product]:
    """Return the RPMs of the newest PMI that fits; what is missing is told by its libraries."""
    every = [one for one in here if one.role == "pmi"]
    fitting = [one for one in every if not releases.pmi_fault(mpich.release, one.release)]
    if every and not fitting:
        newest = max(every, key=lambda one: releases.number(one.release)).release
        problems.append(
            Problem(
                reason=Reason.UNKNOWN_VERSION,
                message=f"{releases.pmi_fault(mpich.release, newest)}, and `{folder}` has "
                + ", ".join(sorted({one.release for one in every})),
                hint="put the RPM of that release there",
            )
        )
    return _newest(fitting)


def _newest(found: Sequence[Product]) -> list[Product]:
    """Return all RPMs of the newest release: what runs, and what `-devel` adds to it."""
    best = max((releases.number(one.release) for one in found), default=())
    return [one for one in found if releases.number(one.release) == best]


def _one_build_each(
    chosen: Iterable[Product], here: Sequence[Product], problems: list[Problem]
) -> tuple[list[Product], tuple[str, ...]]:
    """Return the newest build of each RPM that is there in several, and what was passed over."""
    found: dict[str, Product] = {}
    for product in chosen:
        alike = [one for one in here if one.rpm.name == product.rpm.name]
        key: Callable[[Product], tuple[int, ...]] = _build_of
        newest = max(alike, key=key)
        same = [one for one in alike if key(one) == key(newest)]
        if len(same) > 1:
            names = " and ".join(f"`{one.rpm.file}`" for one in same)
            problems.append(
                Problem(
                    reason=Reason.INVALID_VALUE,
                    message=f"{names} are both {newest.rpm.nevra}",
                    hint="take one of them away",
                )
            )
        found[newest.rpm.name] = newest
    named = {one.rpm.file for one in found.values()}
    notes = tuple(
        f"`{one.rpm.file}` is passed over: `{found[one.rpm.name].rpm.file}` is newer"
        for one in here
        if one.rpm.name in found and one.rpm.file not in named
    )
    return list(found.values()), notes


def _build_of(product: Product) -> tuple[int, ...]:
    rpm = product.rpm
    return (rpm.epoch, *releases.number(rpm.version), *releases.number(rpm.release))


def _begins(version: str, beginning: str) -> bool:
    """Return whether a version is one, or begins with it; anything begins with nothing."""
    return not beginning or version == beginning or version.startswith(f"{beginning}.")


def place(product: Product, path: str, stack: VendorStack) -> str:
    """Return where a path of an RPM goes below the mount point; empty for what stays out."""
    inner = path.removeprefix(f"{product.root}/")
    top, _, rest = inner.partition("/")
    if inner == path or not rest or inner.endswith(_STATIC):
        return ""
    if top not in _KEPT and not (top == _ABI and stack.abi):
        return ""
    if product.role == "gtl" and top == "lib" and posixpath.basename(path).startswith("libmpi_gtl"):
        wanted = posixpath.basename(path).startswith(_GTL_NAMES[stack.gtl])
        return f"{product.folder}/{inner}" if wanted else ""
    return f"{product.folder}/{inner}"


def faults(product: Product, stack: VendorStack) -> Iterable[Problem]:
    """Yield what no RPM may hold: paths and links out of its folders, set-user-id, devices."""
    links = {file.path for file in product.rpm.files if file.link}
    for file in product.rpm.files:
        words = file.path.split("/")
        if any("/".join(words[:depth]) in links for depth in range(2, len(words))):
            yield _hostile(product, f"the path `{file.path}` goes through a link")
        if ".." in words or not file.path.startswith("/"):
            yield _hostile(product, f"the path `{file.path}` leads out of where it belongs")
            continue
        if stat.S_ISDIR(file.mode) or not place(product, file.path, stack):
            continue
        if not file.regular and not file.link:
            yield _hostile(product, f"`{file.path}` is no file and no link")
        elif file.mode & (stat.S_ISUID | stat.S_ISGID) and file.regular:
            yield _hostile(product, f"`{file.path}` would run with its owner's rights (set-uid)")
        elif file.link:
            target = posixpath.normpath(posixpath.join(posixpath.dirname(file.path), file.link))
            plain = posixpath.normpath(file.link) == file.link
            if not (plain and target.startswith(f"{product.root}/")):
                yield _hostile(product, f"the link `{file.path}` leads to `{file.link}`")


def _hostile(product: Product, message: str) -> Problem:
    return Problem(
        reason=Reason.INVALID_VALUE,
        message=f"the RPM is refused: {message}",
        where=Location(file=product.rpm.file),
        hint="no RPM of HPE's is like that; find out where this file is from",
    )


def _contradiction(rpm: Rpm, message: str) -> StackproofError:
    return StackproofError(
        Problem(
            reason=Reason.INVALID_VALUE,
            message=f"the RPM contradicts itself: {message}",
            where=Location(file=rpm.file),
            hint="take it out of the folder",
        )
    )
