"""Plug-ins of a replacement: which of them could not be opened by the program."""

from __future__ import annotations

import itertools
import posixpath
from collections.abc import Iterator

from stackproof.core.errors import StackproofError
from stackproof.inject.findings.symbols import Case
from stackproof.inject.model import Cause, Effect, Finding
from stackproof.linking.loader import Closure, Scope, missing_nodes
from stackproof.linking.loader.binding import unbound_of

_MOST = 500


def plugin_findings(case: Case) -> Iterator[Finding]:
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
