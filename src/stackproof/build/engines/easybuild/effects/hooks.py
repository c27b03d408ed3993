"""Hooks that EasyBuild loads.

They say on standard output what it does, one JSON object a line, let its scripts before compilers
do their work without starting programs, and write module files in Tcl beside those in Lua.

This file runs inside EasyBuild (--hooks) and knows nothing of what reads the lines. Names and
arguments of hooks: docs.easybuild.io/hooks.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import shlex
import shutil
from collections.abc import Callable
from typing import Any

_MARK = "stackproof-event: "
_TCL = "tcl"  # the name of the folder; a build for real is tested to have its module files there
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
        if step == "prepare":
            _take_compilers(easyblock.toolchain)
        _say(event="step", step=step, module=easyblock.full_mod_name, log=easyblock.logfile or "")

    return hook


def _take_compilers(toolchain: Any) -> None:
    """Have scripts put before the compilers of --minimal-build-env too, as before gcc."""
    chosen = importlib.import_module("easybuild.tools.config").build_option("minimal_build_env")
    named = dict(pair.split(":") for pair in chosen.split(","))
    c, fortran = toolchain.compilers()
    c += [named[name] for name in ("CC", "CXX") if name in named]
    fortran += [named["FC"]] if "FC" in named else []
    toolchain.compilers = lambda: (c, fortran)


def post_module_hook(easyblock: Any, *_: object) -> None:
    """Write the module file in Tcl as well, beside the folder of those in Lua.

    EasyBuild writes one kind in a run; for the other it would have to start again.
    """
    config = importlib.import_module("easybuild.tools.config")
    generator = importlib.import_module("easybuild.tools.module_generator")

    tcl = generator.ModuleGeneratorTcl(easyblock)
    folder = os.path.join(os.path.dirname(config.install_path("mod")), _TCL)
    tcl.get_modules_path = lambda fake=False, mod_path_suffix=None: (  # noqa: ARG005
        os.path.join(folder, mod_path_suffix or "all")
    )
    kept = easyblock.module_generator, easyblock.mod_filepath
    easyblock.module_generator, easyblock.mod_filepath = tcl, tcl.get_module_filepath()
    try:
        easyblock.make_module_step()
    finally:
        easyblock.module_generator, easyblock.mod_filepath = kept


# EasyBuild starts compilers and linkers by scripts that add search paths for libraries. Each starts
# Python and eight programs more, and a compiler that links starts the linker's as well: this takes
# longer than a small file takes to compile. What follows does the same within the shell, as
# easybuild/scripts/rpath_args.py of EasyBuild 5.4 does it, and leaves to the script what is rare.
# A compiler of the system then starts the linker itself: the linker's script could only add the
# compiler's own folders, which are the system's and passed over, and what hides from the compiler's
# script, which is left to EasyBuild's.
_QUICK = """\
slow_path=$PATH
PATH=:$PATH:
for folder in "${{passed_by[@]}}"; do PATH=${{PATH//":$folder:"/:}}; done
PATH=${{PATH#:}} PATH=${{PATH%:}}
words=() folders=() kept=() rare=
for word in "$@"; do
    case $word in
    {links_nothing}) exec {program} "$@" ;;
    {hides}-x | -L | -Xlinker | {prefix}--enable-new-dtags) rare=1 ;;
    -L*) folders+=("${{word#-L}}") words+=("$word") ;;
    {prefix}-rpath=*) folders+=("${{word#*-rpath=}}") ;;
    *) words+=("$word") ;;
    esac
done
if [[ ! $rare ]]; then
    IFS=: read -ra more <<< "${{LIBRARY_PATH:-}}"
    for folder in "${{folders[@]}}" "${{more[@]}}"; do
        [[ $folder == /* && -e $folder && ! $folder =~ $passed_over ]] || continue
        for one in "${{kept[@]}}"; do [[ $folder -ef $one ]] && continue 2; done
        kept+=("$folder")
    done
    set -- {prefix}--disable-new-dtags "${{kept[@]/#/{prefix}-rpath=}}" "${{words[@]}}"
    exec {program} "${{included[@]/#/{prefix}-rpath=}}" "$@"
fi
PATH=$slow_path
"""
_LINKERS = frozenset(("ld", "ld.gold", "ld.bfd", "lld", "ld.lld", "ld64.lld"))
# What gives the linker search paths, or may, and says so to a compiler in other words than -L.
_HIDES = "@* | -B* | --* | -specs* | -Wl,@* | -Wl,*-L* | -Wl,*--library-path* | "
_PROGRAM = re.compile(r"^('[^']+') \"\$\{CMD_ARGS\[@\]\}\"$", re.MULTILINE)
_CALL = re.compile(r""""\$RPATH_ARGS_PY" "\$CMD" '([^']*)' '([^']*)' "\$@" \)$""", re.MULTILINE)
_LOG = re.compile(r"^ *echo (?=[^'\n]*date)[^'\n]*'([^'\n]*)'$", re.MULTILINE)


def post_prepare_hook(*_: object) -> None:
    """Let the scripts before compilers and linkers do their work without starting programs."""
    folders = [one for one in os.environ["PATH"].split(os.pathsep) if "rpath_wrappers" in one]
    scripts = [os.path.join(folder, name) for folder in folders for name in os.listdir(folder)]
    linkers = [os.path.dirname(one) for one in scripts if os.path.basename(one) in _LINKERS]
    for one in scripts:
        _quicken(one, linkers)


def _quicken(path: str, linkers: list[str]) -> None:
    """Put the quick way before the first statement of a script, if the script is what is known."""
    with open(path, encoding="utf-8") as stream:
        text = stream.read()
    program, call, log = _PROGRAM.search(text), _CALL.search(text), _LOG.search(text)
    if not (program and call and log and log[1] == "/dev/null"):
        return
    first, _, rest = text.partition("\n")
    shell = shutil.which("bash")
    if first == "#!/usr/bin/env bash" and shell:
        first = f"#!{shell}"  # one program less to start
    name = os.path.basename(path)
    linker = name in _LINKERS
    # A pattern is held against the beginning, and the last one against the whole.
    patterns = "|".join(f"({one})" for one in f"{call[1]}$".split(","))
    included = call[2].split(",") if call[2] else ()
    passed_by = [os.path.dirname(path)]
    # A compiler of MPI starts another compiler, maybe one without a script: the linker's is needed.
    if not name.startswith("mpi") and re.match(patterns, program[1].strip("'")):
        passed_by += linkers
    quick = _QUICK.format(
        links_nothing="-c" if linker else "-c | -E | -v | -V | --version | -dumpversion",
        hides="" if linker else _HIDES,
        program=program[1],
        prefix="" if linker else "-Wl,",
    )
    with open(path, "w", encoding="utf-8") as stream:
        print(
            first,
            f"passed_by=({' '.join(map(shlex.quote, passed_by))})",
            f"passed_over={shlex.quote(f'^({patterns})')}",
            f"included=({' '.join(map(shlex.quote, included))})",
            quick + rest,
            sep="\n", end="", file=stream,
        )  # fmt: skip


for _step in _STEPS:
    globals()[f"pre_{_step}_hook"] = _begun(_step)


def fail_hook(error: Exception, *_: object) -> None:
    """Say why EasyBuild stops; it ends with this exit code."""
    _say(event="fail", message=str(error), code=int(getattr(error, "exit_code", 1)))
