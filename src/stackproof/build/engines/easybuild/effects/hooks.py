"""Hooks that EasyBuild loads: say on standard output what it does, one JSON object a line.

This file runs inside EasyBuild (--hooks) and knows nothing of what reads the lines. Names and
arguments of hooks: docs.easybuild.io/hooks.
"""

from __future__ import annotations

import json
import os
import re
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


# EasyBuild starts compilers by scripts that add search paths for the linker. Each of them starts
# Python and eight programs more, which takes as long as a small file takes to compile.
_COMPILES = """\
for word in "$@"; do
    case $word in -c) exec {compiler} "$@" ;; esac  # nothing is linked
done
"""
_LAST = re.compile(r"^('[^']+') \"\$\{CMD_ARGS\[@\]\}\"$", re.MULTILINE)
_UNREAD_LOG = re.compile(r"^ *echo .*date.*'/dev/null'$", re.MULTILINE)


def post_prepare_hook(*_: object) -> None:
    """Let the scripts before compilers start at once what only compiles; no log is for nobody."""
    for folder in os.environ["PATH"].split(os.pathsep):
        if "rpath_wrappers" in folder:
            for name in os.listdir(folder):
                if not name.startswith("ld"):
                    _quicken(os.path.join(folder, name))


def _quicken(path: str) -> None:
    with open(path, encoding="utf-8") as stream:
        text = stream.read()
    last = _LAST.search(text)
    if last:
        first, _, rest = _UNREAD_LOG.sub("    :", text).partition("\n")
        with open(path, "w", encoding="utf-8") as stream:
            stream.write("\n".join((first, _COMPILES.format(compiler=last[1]) + rest)))


for _step in _STEPS:
    globals()[f"pre_{_step}_hook"] = _begun(_step)


def fail_hook(error: Exception, *_: object) -> None:
    """Say why EasyBuild stops; it ends with this exit code."""
    _say(event="fail", message=str(error), code=int(getattr(error, "exit_code", 1)))
