"""Hooks that EasyBuild loads: say on standard output what it does, one JSON object a line.

This file runs inside EasyBuild (--hooks) and knows nothing of what reads the lines. Names and
arguments of hooks: docs.easybuild.io/hooks.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

_MARK = "stackproof-event: "
_STEPS = (
    "fetch", "ready", "extract", "patch", "prepare", "configure", "build", "test", "install",
    "postproc", "sanitycheck", "module",
)  # fmt: skip


def _say(**facts: object) -> None:
    os.write(1, (_MARK + json.dumps(facts) + "\n").encode())


def _begun(step: str) -> Callable[..., None]:
    def hook(easyblock: Any, *_: object) -> None:
        if step == "fetch":
            # A newer config.guess would have to come from the network: the source's own is used.
            easyblock.obtain_config_guess = lambda *_, **__: None
        _say(event="step", step=step, module=easyblock.full_mod_name, log=easyblock.logfile or "")

    return hook


for _step in _STEPS:
    globals()[f"pre_{_step}_hook"] = _begun(_step)


def fail_hook(error: Exception, *_: object) -> None:
    """Say why EasyBuild stops; it ends with this exit code."""
    _say(event="fail", message=str(error), code=int(getattr(error, "exit_code", 1)))
