"""What is known of a file or folder that other programs read: found before anybody rewrites it."""

from __future__ import annotations

import os

from stackproof.build import other_files
from stackproof.core import limits
from stackproof.core.effects import documents, files
from stackproof.core.errors import Problem, StackproofError
from stackproof.site.effects import probe

_IN_A_FOLDER = ("Containerfile", "Dockerfile")


def problems(path: str, site: str | None) -> tuple[Problem, ...]:
    """Return the known faults of a file or folder of another program, for a site if one is given.

    Files of Spack have their own (`known.environment_problems`).
    """
    judge = other_files.JUDGES.get(documents.kind_of(path))
    if os.path.isdir(path):
        within = (os.path.join(path, name) for name in _IN_A_FOLDER)
        path = next(filter(os.path.isfile, within), path)
    if judge is None or not os.path.isfile(path):
        return ()
    try:
        text = files.read_bounded(path, limits.DOCUMENT).decode(errors="replace")
        return tuple(judge(text, path, probe.load_site(site).fabric.type if site else None))
    except StackproofError as error:
        return error.problems
