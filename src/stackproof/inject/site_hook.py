"""EESSI's variables to its folder of the site; settings to a part of the site's `SitePackage.lua`.

EESSI's own SitePackage.lua runs the site's, `host_injections/VERSION/software/linux/CPU/.lmod/
SitePackage.lua`, last (software-layer-scripts, create_lmodsitepackage.py). Lmod before 8.7.35 keeps
one function for a hook and gives it to nobody, so that a part of the file asks to be called along
with whatever is registered, by EESSI or by the site. A site may have such a file of its own: only
the part between two lines is ours.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping

from msgspec import field

from stackproof.core.errors import Reason, fail
from stackproof.core.value import Value

VARIABLE = "EESSI_SOFTWARE_PATH"
FILE = ".lmod/SitePackage.lua"
"""Where EESSI looks for the site's hooks, below the folder of a version and a processor."""
SWITCH, OFF = "STACKPROOF_SITE_HOOK", "off"
"""The variable, and its value, with which our part sets nothing: a module is then EESSI's alone."""

_VERSIONS, _SITES = "/versions/", "/host_injections/"
# Modules whose names are not EasyBuild's names of their toolchains.
_MODULES = {"IntelMPI": "impi"}
_COMPILERS = {"LLVM": "llvm-compilers", "ROCm": "rocm-compilers", "Intel": "intel-compilers"}


class Settings(Value):
    """What a load of an MPI's module sets: variables, and folders in front of PATH.

    `name` tells several parts of one file apart; `compiler` is empty for modules of every compiler.
    """

    name: str
    family: str
    compiler: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    paths: tuple[str, ...] = ()


def folder_of(environment: Mapping[str, str]) -> str:
    """Return the site's folder for the EESSI that is set up; raises `StackproofError` (USAGE)."""
    path = environment.get(VARIABLE, "")
    if _VERSIONS not in path:
        raise fail(
            Reason.USAGE,
            f"`{VARIABLE}` is `{path}`, which is no folder of EESSI"
            if path
            else f"no EESSI is set up here: there is no `{VARIABLE}`",
            hint="`module load EESSI/2025.06`, or `source …/init/bash`; or name the folder: "
            "`--eessi DIR`",
        )
    return posixpath.normpath(path.replace(_VERSIONS, _SITES, 1))


def parse_settings(words: tuple[str, ...]) -> dict[str, str]:
    """Return variables of NAME=VALUE; raises `StackproofError` (USAGE)."""
    found = {}
    for word in words:
        name, sign, value = word.partition("=")
        if not sign or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise fail(
                Reason.USAGE, f"`{word}` is no NAME=VALUE", hint="as in `--set FI_PROVIDER=cxi`"
            )
        found[name] = value
    return found


def render_part(settings: Settings) -> str:
    """Return the part of the file, empty where nothing is to be set."""
    if not settings.variables and not settings.paths:
        return ""
    module = _MODULES.get(settings.family, settings.family)
    pattern = f"^{_escaped(module)}/"
    if settings.compiler:
        compiler = _COMPILERS.get(settings.compiler, settings.compiler)
        pattern += f".*%-{_escaped(compiler)}%-"
    begin, end = _marks(settings.name)
    return "\n".join((begin, *_lines(settings, pattern), end, ""))


def with_part(text: str, name: str, part: str) -> str:
    """Return the text of the file with the part of a name put in, replaced, or taken out."""
    begin, end = (re.escape(mark) for mark in _marks(name))
    found = re.search(rf"(?ms)^{begin}$.*?^{end}$\n?", text)
    if found is not None:
        return text[: found.start()] + part + text[found.end() :]
    if not part:
        return text
    return f"{text}{'' if not text or text.endswith(chr(10)) else chr(10)}{part}"


def _marks(name: str) -> tuple[str, str]:
    return (
        f"-- begin {name}: written by `stackproof inject apply`, removed by `inject undo`",
        f"-- end {name}",
    )


def _lines(settings: Settings, pattern: str) -> Iterator[str]:
    yield "do"
    yield '   local hook = require("Hook")'
    yield "   local function settings(t)"
    yield f'      if os.getenv("{SWITCH}") == "{OFF}" then return end'
    yield f"      if string.find(t.modFullName or '', {_quoted(pattern)}) then"
    for name, value in settings.variables.items():
        yield f"         setenv({_quoted(name)}, {_quoted(value)})"
    for path in settings.paths:
        yield f'         prepend_path("PATH", {_quoted(path)})'
    yield "      end"
    yield "   end"
    # An unload takes back what is set while it is going on, as it does for modules.
    yield "   local apply = hook.apply"
    yield "   hook.apply = function(name, t, ...)"
    yield '      if name == "load" or name == "unload" then settings(t) end'
    yield "      return apply(name, t, ...)"
    yield "   end"
    yield "end"


def _quoted(text: str) -> str:
    """Return a string of Lua."""
    for old, new in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"), ("\0", "\\0")):
        text = text.replace(old, new)
    return f'"{text}"'


def _escaped(text: str) -> str:
    """Return a text as a pattern of Lua that finds it."""
    return re.sub(r"([^A-Za-z0-9_])", r"%\1", text)
