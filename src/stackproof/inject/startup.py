"""Scripts of a shell that start a program, or that its host reads first, to what they change.

Only what is plain is followed: variables, files that are read in, and `exec`. Branches are all
taken, one after the other. What a command would print is not known, nor what comes of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

_PATH = "LD_LIBRARY_PATH"
_OLD, _UNKNOWN = "\0", "\1"
_ASSIGNS = re.compile(r"(?:export\s+)?([A-Za-z_]\w*)=(.*)", re.DOTALL)
_DEFAULTS = re.compile(r':\s+"?\$\{([A-Za-z_]\w*):?=(.*)\}"?', re.DOTALL)
_OWN_FOLDER = re.compile(
    r'\$\(\s*dirname\s+(?:--\s+)?"?(?:\$0|\$\{?BASH_SOURCE(?:\[0\]\})?)"?\s*\)'
)
_COMMAND = re.compile(r"\$\([^()]*\)|`[^`]*`")
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w*)(?:(:?[-+=?])([^{}]*))?\}|([A-Za-z_]\w*))")
_OTHER = re.compile(r"\$(?:\{[^{}]*\}|[@*#?0-9])")
_DEEPEST, _MOST_LINES = 5, 2000


@dataclass(slots=True, kw_only=True)
class Startup:
    """What a script does before its program runs.

    `first` are the folders that it puts before those of LD_LIBRARY_PATH, `anew` says that it may
    drop these, `program` is what it starts (empty where that is not plain), `scripts` what was
    read.
    """

    variables: dict[str, str] = field(default_factory=dict)
    first: tuple[str, ...] = ()
    anew: bool = False
    program: str = ""
    scripts: tuple[str, ...] = ()


def follow(path: str, read: Callable[[str], str], known: dict[str, str] | None = None) -> Startup:
    """Return the effects of a script; `read` gives the text of a file, empty for no file."""
    startup = Startup(variables={**(known or {})})
    _run(startup, path, read, 0)
    return startup


def _run(startup: Startup, path: str, read: Callable[[str], str], depth: int) -> None:
    text = read(path)
    if not text or depth > _DEEPEST:
        return
    startup.scripts = (*startup.scripts, path)
    folder = path.rpartition("/")[0] or "/"
    for line in re.split(r"\n|;(?!;)|&&", text.replace("\\\n", " "))[:_MOST_LINES]:
        command = line.strip().removeprefix("then ").removeprefix("else ").strip()
        command = _OWN_FOLDER.sub(folder, command)
        if match := _DEFAULTS.fullmatch(command):
            startup.variables.setdefault(match[1], _expanded(startup, match[2]))
        elif match := _ASSIGNS.fullmatch(command):
            _assign(startup, match[1], match[2])
        elif command.startswith((". ", "source ")):
            name = _expanded(startup, command.split(None, 1)[1].strip())
            if name.startswith("/") and _UNKNOWN not in name:
                _run(startup, name, read, depth + 1)
        elif command.startswith("exec ") and not startup.program:
            words = [_expanded(startup, word) for word in command.split()[1:]]
            startup.program = next((word for word in words if word), "")


def _assign(startup: Startup, name: str, text: str) -> None:
    if name != _PATH:
        startup.variables[name] = _expanded(startup, text)
        return
    value = _expanded(startup, text)
    before, old, _ = value.partition(_OLD)
    folders = [word for word in before.split(":") if word.startswith("/") and _UNKNOWN not in word]
    startup.first = tuple(dict.fromkeys((*folders, *startup.first)))
    startup.anew = not old


def _expanded(startup: Startup, text: str) -> str:
    """Return a word with its variables put in; LD_LIBRARY_PATH stands for what it was before."""
    words = re.split(r"\s+#", text)[0].strip().replace('"', "").replace("'", "")
    words = _COMMAND.sub(_UNKNOWN, words)
    for _ in range(20):
        again = _VARIABLE.sub(lambda match: _value(startup, match), words)
        if again == words:
            break
        words = again
    return _OTHER.sub(_UNKNOWN if "/" in words else "", words)


def _value(startup: Startup, match: re.Match[str]) -> str:
    name = match[1] or match[4]
    value = _OLD if name == _PATH else startup.variables.get(name)
    sign, other = (match[2] or "").lstrip(":"), match[3] or ""
    if sign == "+":
        return other if value else ""
    if sign in {"-", "="} and not value:
        return other
    return _UNKNOWN if value is None else value
