"""Libraries of a replacement that would come from elsewhere, though it brings its own.

A DT_RUNPATH comes after LD_LIBRARY_PATH: where the program's own path has a libfabric, an injected
MPI takes that one and not the one that it was made with. Symbols and versions may all fit, and the
MPI still find no provider in it: seen with MPICH 4.3.1 and 4.0.3 over the libfabric of Intel MPI.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from stackproof.inject.findings.symbols import Case
from stackproof.inject.model import Cause, Effect, Finding
from stackproof.inject.ways import inner_folders

# What carries messages, and what plug-ins are opened by; of libz any one will do.
_CARRIES = re.compile(r"lib(?:fabric|uc[pstm]|cxi|psm2?|pmix|xpmem)\.so.*")


def mixed_findings(case: Case) -> Iterator[Finding]:
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
