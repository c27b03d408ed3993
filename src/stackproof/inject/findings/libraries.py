"""Libraries of a replacement that would come from elsewhere, and plug-ins that would not open.

A DT_RUNPATH comes after LD_LIBRARY_PATH: where the program's own path has a libfabric, an injected
MPI takes that one and not the one that it was made with. Symbols and versions may all fit, and the
MPI still find no provider in it: seen with MPICH 4.3.1 and 4.0.3 over the libfabric of Intel MPI.
"""

from __future__ import annotations

import itertools
import posixpath
import re
from collections.abc import Iterator

from stackproof.core.errors import StackproofError
from stackproof.inject.findings.symbols import InjectionAttempt
from stackproof.inject.model import Cause, Effect, Finding
from stackproof.inject.ways import inner_folders
from stackproof.linking.loader import Closure, Scope, missing_nodes
from stackproof.linking.loader.binding import unbound_of

# What carries messages, and what plug-ins are opened by; of libz any one will do.
_CARRIES = re.compile(r"lib(?:fabric|uc[pstm]|cxi|psm2?|pmix|xpmem)\.so.*")


def mixed_findings(case: InjectionAttempt) -> Iterator[Finding]:
    """Yield every library that an injected one takes from elsewhere and has beside itself."""
    replacement, after = case.replacement, case.after
    own = {
        name: posixpath.join(folder, name)
        for folder in inner_folders(replacement)
        for name in case.view.listing(folder)
    }
    seen = set()
    for edge in after.edges:
        if edge.to is None or edge.name not in own or not _CARRIES.fullmatch(edge.name):
            continue
        taken, asking = after.objects[edge.to], after.objects[edge.by]
        if replacement.owns(taken.path) or not replacement.owns(asking.path):
            continue
        if taken.number not in seen:
            seen.add(taken.number)
            yield Finding(
                cause=Cause.MIXED,
                effect=Effect.CANNOT_TELL,
                message=f"`{edge.name}` would be `{taken.path}`, not the one that the replacement "
                "brings",
                file=asking.path,
                provider=taken.path,
                remedy=f"put `{posixpath.dirname(own[edge.name])}` first in LD_LIBRARY_PATH",
            )


_MOST = 500


def plugin_findings(case: InjectionAttempt) -> Iterator[Finding]:
    """Yield the plug-ins that the program could not open, by reason: MPI goes on without them."""
    if case.after.missing or case.after.unreadable:
        return
    caller = next((o for o in case.after.objects if case.replacement.owns(o.path)), None)
    if caller is None:
        return
    groups: dict[str, list[str]] = {}
    for path in itertools.islice(case.replacement.plugins(case.view), _MOST):
        why = fault_of(case.after, path, caller.number, case.scope)
        if why:
            groups.setdefault(why, []).append(path)
    for why, paths in groups.items():
        names = ", ".join(f"`{posixpath.basename(path)}`" for path in paths)
        yield Finding(
            cause=Cause.PLUGIN,
            effect=Effect.NOTE,
            message=f"the program cannot open {names}: {why}",
            file=paths[0],
        )


def fault_of(closure: Closure, path: str, caller: int, below: Scope | None = None) -> str:
    """Return why an object of a closure could not open a plug-in, empty when it can.

    `below` is the scope of the closure, for those who have it already.
    """
    try:
        opened = closure.opened(path, caller)
    except StackproofError as error:
        return error.problems[0].message
    if opened is None:
        return ""
    known = len(closure.objects)
    missing = sorted({edge.name for edge in opened.missing})
    if missing:
        return f"{', '.join(f'`{name}`' for name in missing)} not found"
    for node in missing_nodes(opened, known):
        return f"version `{node.need.name}` is not in `{node.provider.path}`"
    scope = Scope(opened, below)
    for loaded in opened.objects[known:]:
        for entry in unbound_of(loaded, scope):
            if entry.eager:
                return f"nothing defines `{entry.name}`"
    return ""
