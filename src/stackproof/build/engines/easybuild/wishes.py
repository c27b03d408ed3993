"""What a request says of single components: options, files, copies that an MPI brings along.

Each must come to something: a wish for what plays no part is refused, and never passed over.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from stackproof.build.engines.easybuild.components import COMPILERS
from stackproof.build.engines.easybuild.selection import WORD, SelectedComponent, Selection
from stackproof.core.errors import Reason, did_you_mean
from stackproof.mpi.families.openmpi import OPENMPI

# What a configure script is told twice counts as it was told last.
_SWITCH = re.compile(
    r"--(?:with|without|enable|disable)-([A-Za-z0-9-]+)|([A-Z][A-Z0-9_]*)=|-D(\w+)"
)
_OPTION = re.compile(r"(--?[A-Za-z]|[A-Z][A-Z0-9_]*=)[A-Za-z0-9_@+=:,./~-]*")
_NETWORKS = ("ucx", "ucc")
_TOOLCHAINS = ("system", "SystemCompilerGCC", "GCC", "GCCcore", *COMPILERS)


def check_wishes(found: Selection) -> None:
    """Note every problem of a selection that a wish for one component or a compiler makes."""
    _check_toolchain(found)
    _check_bundled(found)
    _check_networks(found)
    request = found.request
    keys: Mapping[str, Mapping[str, object]] = {
        "options": request.options,
        "patches": request.patches,
        "source-files": request.source_files,
    }
    for key, wishes in keys.items():
        for name in wishes:
            part = found.parts.get(name)
            found.refuse_unknown(name, (key, name))
            if name not in found.catalogue.components:
                continue
            if part is None and not found.problems:
                found.refuse(
                    f"`{key}` speaks of `{name}`, which is not in this chain",
                    f"there are: {', '.join(_built(found))}",
                    at=(key, name),
                )
            elif part is not None and part.source is None:
                found.refuse(
                    f"`{key}` speaks of `{name}`, which is the machine's and not built",
                    "leave it out of `externals`, or the wish",
                    at=(key, name),
                )
    for name in request.options:
        if name in _built(found):
            _check_options(found, found.parts[name])
    for name in request.patches:
        _check_patches(found, name)


def _check_toolchain(found: Selection) -> None:
    toolchain, at = found.request.toolchain, ("toolchain",)
    if toolchain.name not in _TOOLCHAINS:
        hint = f"it is one of: {', '.join(_TOOLCHAINS)}"
        found.refuse(f"`{toolchain.name}` is no toolchain", hint, at=at)
    if (toolchain.name == "system") is bool(toolchain.version):
        found.refuse(
            f"the toolchain `{toolchain.name}` with version `{toolchain.version}`",
            "`system` has no version; every other toolchain has one",
            at=at,
        )
    elif toolchain.version and not WORD.fullmatch(toolchain.version):
        hint = "write numbers, such as 12.2.0"
        found.refuse(f"`{toolchain.version}` is no version", hint, at=at)
    prefix, compilers = toolchain.prefix, toolchain.compilers
    if prefix and compilers is None:
        hint = f"it goes with one of: {', '.join(COMPILERS)}"
        found.refuse(f"the toolchain `{toolchain.name}` has no prefix", hint, at=at)
    elif prefix:
        found.check_place(prefix, toolchain.name, at)
    elif compilers and not compilers.on_path:
        found.refuse(
            f"where `{toolchain.name}` is installed is not known",
            f"add its `prefix`, the folder whose `bin` has `{compilers.c}`",
            Reason.MISSING_KEY,
            at,
        )


def _check_patches(selection: Selection, name: str) -> None:
    """Refuse a patch that mends a conflict that nobody knows, or one of other components."""
    known = {conflict.id: conflict for conflict in selection.catalogue.conflicts}
    mine = [
        identifier
        for identifier, conflict in known.items()
        if name in {package.name for package in conflict.packages}
    ]
    for index, patch in enumerate(selection.request.patches[name]):
        for number, identifier in enumerate(patch.mends):
            at = ("patches", name, index, "mends", number)
            if identifier not in known:
                hint = did_you_mean(identifier, known).strip() or "`check` prints the ids"
                selection.refuse(f"no conflict `{identifier}` is known", hint, at=at)
            elif identifier not in mine:
                hint = f"conflicts of {name}: {', '.join(mine) or 'none'}"
                selection.refuse(f"`{identifier}` is no conflict of `{name}`", hint, at=at)


def _built(found: Selection) -> list[str]:
    return [name for name, part in found.parts.items() if part.source is not None]


def _check_options(found: Selection, part: SelectedComponent) -> None:
    name, build = part.component.name, found.build(part)
    own = found.request.options[name]
    for index, option in enumerate(own):
        if not _OPTION.fullmatch(option):
            found.refuse(
                f"`{option}` is no option of a configure script",
                "write --with-x, --enable-x=VALUE, -DX=VALUE or CFLAGS=VALUE, without blanks",
                at=("options", name, index),
            )
    if build.commands:
        found.refuse(
            f"`{name}` is built by commands, and has no configure script to give options to",
            "leave it out of `options`; a patch may change its sources",
            Reason.UNSUPPORTED,
            ("options", name),
        )
    theirs = (one.text for one in build.options if found.holds(one.when, part.version))
    given = [word for text in (*found.need_options(part), *theirs) for word in text.split()]
    for option in own:
        for other in dict.fromkeys(given):
            if _switch(option) and _switch(option) == _switch(other) and option != other:
                found.note(f"{name}: `{option}` of the recipe takes the place of `{other}`")


def _switch(option: str) -> str:
    match = _SWITCH.match(option)
    return next(filter(None, match.groups()), "") if match else ""


def _check_networks(found: Selection) -> None:
    """Refuse UCX and UCC where there is no Open MPI to use them."""
    request = found.request
    family = request.mpi[0] if request.mpi else ""
    for name in _NETWORKS:
        if getattr(request, name) and family != OPENMPI.name:
            found.refuse(
                f"`{name}` is for Open MPI, and this recipe has {family or 'no MPI'}",
                "MPICH is built for libfabric alone, which has a provider `ucx`"
                if family
                else "add `mpi`, or leave it out",
                Reason.UNSUPPORTED,
                (name,),
            )
    if request.ucc and not request.ucx and family == OPENMPI.name:
        found.refuse("UCC works through UCX", "add `ucx: true`", Reason.MISSING_KEY, ("ucc",))


def _check_bundled(selection: Selection) -> None:
    """Refuse copies that an MPI has not, or the machine has too, and those that go together."""
    request = selection.request
    if request.mpi is None or request.mpi[0] not in selection.catalogue.components:
        return
    mpi = selection.catalogue.components[request.mpi[0]]
    copies = [need.component for need in mpi.needs if need.when.flag == "no-bundled"]
    for index, name in enumerate(request.bundled_parts):
        if name not in copies:
            selection.refuse(
                f"{mpi.software} brings no copy of `{name}` along",
                f"it has: {', '.join(copies)}" if copies else "leave `bundled` out",
                at=("bundled", index),
            )
    taken = copies if request.bundled else [n for n in request.bundled_parts if n in copies]
    for name in taken:
        if name in selection.machine:
            selection.refuse(
                f"`{name}` is to be the machine's, and the copy in {mpi.name}'s sources",
                "choose one: without `bundled`, the others are built",
                at=("bundled",),
            )
    # EasyBuild's own code for Open MPI takes libevent and PMIx together or not at all
    # (easybuild/easyblocks/o/openmpi.py, 5.4.1); PMIx is built on a hwloc and PRRTE on a PMIx, and
    # these must be the same.
    together = (("hwloc", "pmix"), ("libevent", "pmix"), ("pmix", "libevent"), ("pmix", "prrte"))
    for one, other in together:
        if one in taken and other in copies and other not in taken:
            selection.refuse(
                f"with the copy of `{one}` goes that of `{other}`",
                f"add `{other}` to `bundled`, or take `{one}` out",
                at=("bundled",),
            )
