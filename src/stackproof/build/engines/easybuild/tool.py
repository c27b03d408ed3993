"""EasyBuild itself: its packages on the Python package index, and its words while it builds."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from stackproof.build import pip_answers
from stackproof.build.plan import PYTHON
from stackproof.build.stack import Artefact
from stackproof.core.command import Command, Completed
from stackproof.core.errors import Reason, StackproofError, fail
from stackproof.core.value import Value

VERSION = "5.4.1"
"""The release that recipes get which name none; stacks were built with it."""
PACKAGES = ("easybuild-framework", "easybuild-easyblocks")
"""What is needed of EasyBuild: the easyconfigs are our own."""
LICENCE = "GPL-2.0-only"
# SHA-256 of source distributions as the Python package index states them, where files of a release
# never change: with them a lock needs no network.
_DIGESTS: Mapping[tuple[str, str], str] = {
    ("easybuild-framework", "5.4.1"):
        "18c7cb3cdb448a2ec9b4f9cdc38517b5f9ca1b63b5691f1589f67f114958c2c9",
    ("easybuild-easyblocks", "5.4.1"):
        "ec76f56bfb6398ecb863dfc456a15aacc8da8c1ebf21e560a1410d8210825386",
}  # fmt: skip
_VERSIONS = re.compile(r"\(from versions: ([^)]*)\)")


def artefact(name: str, version: str, filename: str = "", sha256: str = "") -> Artefact:
    """Return one of EasyBuild's packages as files of a lock are named.

    `sha256` is empty for a release whose digest is neither given nor known.
    """
    return Artefact(
        name=name,
        version=version,
        filename=filename or f"{name.replace('-', '_')}-{version}.tar.gz",
        sha256=sha256 or _DIGESTS.get((name, version), ""),
        licence=LICENCE,
    )


def fetch_command(file: Artefact, folder: str) -> Command:
    """Return the call that downloads one source distribution into `folder`, and runs nothing of it.

    Its digest is checked before it is opened, where the lock names one.
    """
    return Command(
        argv=(
            PYTHON, "-P", "-m", "stackproof.build.effects.sdist", folder, file.name, file.version,
            file.sha256,
        ),
        timeout_s=1800,
    )  # fmt: skip


def explain(version: str, done: Completed) -> StackproofError:
    """Return the error for a release of EasyBuild that could not be downloaded."""
    text = done.stderr.decode(errors="replace")
    named = _VERSIONS.search(text)
    versions = [word for word in (named[1].split(", ") if named else []) if word != "none"]
    if versions:
        return fail(
            Reason.UNKNOWN_VERSION,
            f"the package index has no EasyBuild {version}",
            hint=f"published versions: {', '.join(reversed(versions[-8:]))}",
        )
    tail = "\n".join(text.rstrip().splitlines()[-6:])
    if named or any(sign in text for sign in pip_answers.OFFLINE):
        return fail(
            Reason.NO_NETWORK,
            f"EasyBuild {version} cannot be downloaded: the package index does not answer",
            hint="connect to a network, set pip's index, or put EasyBuild's source distributions "
            "into the folder that --mirror names",
            detail=tail,
        )
    return fail(Reason.BUILD_FAILED, f"pip could not download EasyBuild {version}", detail=tail)


# Lines of our hooks, and the exit code, to progress and reasons.
MARK = "stackproof-event: "  # tested to be that of build/engines/easybuild/effects/hooks.py
# EasyBuildExit of easybuild-framework 5.4.1, easybuild/tools/build_log.py; what is not named here
# is a build that failed.
_REASONS: Mapping[int, Reason] = {
    30: Reason.FILE_MISSING,
    32: Reason.TOOL_MISSING,
    41: Reason.NO_NETWORK,
    42: Reason.DIGEST_MISMATCH,
}


class EasyBuildFailure(Value):
    """How EasyBuild ended: its words, its exit code, the step it was in, and the path of its log.

    `step` and `log` are empty when it had not begun with a component.
    """

    message: str
    code: int
    step: str = ""
    log: str = ""

    @property
    def reason(self) -> Reason:
        """Return the reason that the exit code stands for."""
        return _REASONS.get(self.code, Reason.BUILD_FAILED)


def event(line: str) -> Mapping[str, Any] | None:
    """Return the event that a line of output holds; None for any other line."""
    if not line.startswith(MARK):
        return None
    try:
        found = json.loads(line[len(MARK) :])
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def failure(output: str) -> EasyBuildFailure | None:
    """Return how EasyBuild failed by its own words; None when it did not say."""
    step = log = ""
    for line in output.splitlines():
        found = event(line)
        if found is None:
            continue
        if found.get("event") == "step":
            step, log = str(found.get("step", "")), str(found.get("log", ""))
        elif found.get("event") == "fail":
            code = found.get("code")
            return EasyBuildFailure(
                message=" ".join(str(found.get("message", "")).split()),
                code=code if isinstance(code, int) else 1,
                step=step,
                log=log,
            )
    return None
