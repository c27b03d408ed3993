"""Words for what tests can expect of each view of an image, and the file that ReFrame's sites read.

`meta/extra/reframe.yaml` maps an environment to `features`, to `cc`, `cxx` and `ftn`, and to the
`views` that it is started with (config/utilities/uenv.py, github.com/eth-cscs/cscs-reframe-tests).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from stackproof.image.model import MpiFacts

REFRAME = "meta/extra/reframe.yaml"
MPI = "mpi"
_WRAPPERS = ("mpicc", "mpicxx", "mpifort")
_COMPILERS = ("gcc", "g++", "gfortran")


def of_mpi(facts: MpiFacts | None, gpu: str = "", more: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the features of a view with an MPI: that it has one, which, for which GPUs."""
    words = {MPI, facts.family, *([gpu] if gpu else []), *more} if facts else set(more)
    return tuple(sorted(words))


def reframe_yaml(
    views: Mapping[str, tuple[str, ...]], compilers: Mapping[str, tuple[str, ...]] | None = None
) -> str:
    """Return the file for views with their features; `compilers` are those without an MPI's."""
    lines = []
    for name, features in sorted(views.items()):
        own = (compilers or {}).get(name, _COMPILERS)
        names = zip(("cc", "cxx", "ftn"), _WRAPPERS if MPI in features else own, strict=True)
        facts = {"features": list(features), **dict(names), "views": [name]}
        lines.append(f"{json.dumps(name)}:\n")
        lines += [f"  {key}: {json.dumps(value)}\n" for key, value in facts.items()]
    return "".join(lines) or "{}\n"
