"""Scripts of a shell that start a program, or that its host reads first, to what they change.

Only what is plain is followed: variables, files that are read in, and `exec`. Branches are all
taken, one after the other. What a command would print is not known, nor what comes of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct, field

_PATH, _PRELOAD = "LD_LIBRARY_PATH", "LD_PRELOAD"
_OLD, _UNKNOWN = "\0", "\1"
_ASSIGNS = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_WORD = re.compile(
    r"""(?:"(?:\$\([^()]*+\)|[^"])*+"|'[^']*+'|\$\([^()]*+\)|`[^`]*+`"""
    r"""|\$\{[^{}]*+(?:\$\{[^{}]*+\}[^{}]*+)?\}|[^\s"'`])+"""
)
_DOCUMENT = re.compile(r"(?<!<)<<-?[ \t]*(['\"]?)([A-Za-z_]\w*)\1")
_OPENS = frozenset({"if", "for", "while", "until", "case", "select"})
_CLOSES = frozenset({"fi", "done", "esac", "}"})
_DEFAULTS = re.compile(r':\s+"?\$\{([A-Za-z_]\w*):?=(.*)\}"?', re.DOTALL)
_OWN_FOLDER = re.compile(
    r'\$\(\s*dirname\s+(?:--\s+)?"?(?:\$0|\$\{?BASH_SOURCE(?:\[0\]\})?)"?\s*\)'
)
_COMMAND = re.compile(r"\$\([^()]*\)|`[^`]*`")
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w*)(?:(:?[-+=?])([^{}]*))?\}|([A-Za-z_]\w*))")
_OTHER = re.compile(r"\$(?:\{[^{}]*\}|[@*#?0-9])")
_ENDS = re.compile(r"(?:exit|return|wait|:)\b|\w+=\$\?$")
_DEEPEST, _MOST_SCRIPTS = 5, 64
"""Scripts that read in others, or themselves, are followed so far."""
_LONGEST = 1 << 16
"""Characters of a value: one that is made of itself doubles with every line."""

# Options that take the next word: util-linux 2.38 (taskset, ionice, setarch, chrt, setsid), GNU
# coreutils 9.1 (nice, nohup, stdbuf, timeout), time 1.9, numactl 2.0.16, bash 5.2 (exec).
_WITH_VALUE = {
    "chrt": ("T", "P", "D", "sched-runtime", "sched-period", "sched-deadline"),
    "command": (),
    "exec": ("a",),
    "ionice": ("c", "n", "p", "P", "u", "class", "classdata"),
    "nice": ("n", "adjustment"),
    "nohup": (),
    "numactl": (
        "i", "N", "c", "m", "C", "p", "P", "w", "interleave", "cpunodebind", "cpubind", "membind",
        "physcpubind", "preferred", "preferred-many", "weighted-interleave",
    ),
    "setarch": (),
    "setsid": (),
    "stdbuf": ("i", "o", "e", "input", "output", "error"),
    "taskset": (),
    "time": ("f", "o", "format", "output"),
    "timeout": ("k", "s", "kill-after", "signal"),
}  # fmt: skip
_PLACES = {"chrt": 1, "taskset": 1, "timeout": 1}
"""Tools that take so many words before the program: a mask or list, a priority, a time."""
_MACHINES = frozenset({"x86_64", "aarch64", "linux32", "linux64", "i386", "i686", "uname26"})


class Startup(Struct, kw_only=True):
    """What a script does before its program runs.

    `first` and `last` are the folders that it puts before and behind those of LD_LIBRARY_PATH,
    `anew` says that it may drop these, `dropped` that it does. `preloads` are files that it puts
    into LD_PRELOAD, which `preload_anew` says to be without what was there, and `preload_unknown`
    with what only shows when it runs. `program` is what it starts (no path where that is not plain,
    or one of several), `words` that with its arguments, and `is_settled` says that it starts that
    under all conditions; `scripts` what was read.
    """

    variables: dict[str, str] = field(default_factory=dict)
    first: tuple[str, ...] = ()
    last: tuple[str, ...] = ()
    anew: bool = False
    dropped: bool = False
    preloads: tuple[str, ...] = ()
    preload_anew: bool = False
    preload_unknown: bool = False
    program: str = ""
    words: tuple[str, ...] = ()
    is_settled: bool = False
    scripts: tuple[str, ...] = ()

    @property
    def changes(self) -> bool:
        """Return True where the loader is told something else than before."""
        preload = self.preloads or self.preload_anew or self.preload_unknown
        return bool(self.first or self.last or self.anew or preload)


def follow(path: str, read: Callable[[str], str], known: dict[str, str] | None = None) -> Startup:
    """Return the effects of a script; `read` gives the text of a file, empty for no file."""
    startup = Startup(variables={**(known or {})})
    _run(startup, path, read, 0)
    return startup


def _run(startup: Startup, path: str, read: Callable[[str], str], depth: int) -> None:
    text = read(path)
    if not text or depth > _DEEPEST or len(startup.scripts) >= _MOST_SCRIPTS:
        return
    startup.scripts = (*startup.scripts, path)
    folder = path.rpartition("/")[0] or "/"
    commands = [*_commands(text)]
    last = max((n for n, (line, _) in enumerate(commands) if not _ENDS.match(line)), default=0)
    for number, (line, sure) in enumerate(commands):
        command = _OWN_FOLDER.sub(folder, line)
        words = _WORD.findall(re.split(r"(?:^|\s)#", command)[0])
        if match := _DEFAULTS.fullmatch(command):
            startup.variables.setdefault(match[1], _expanded(startup, match[2]))
        elif words[:1] in (["."], ["source"]):
            name = _expanded(startup, "".join(words[1:2]))
            if name.startswith("/") and _UNKNOWN not in name:
                _run(startup, name, read, depth + 1)
        elif words[:1] == ["unset"]:
            for name in words[1:]:
                _assign(startup, name, "", sure=sure)
        else:
            is_last = depth == 0 and number == last
            _simple(startup, words[words[:1] == ["export"] :], sure=sure, is_last=is_last)


def _commands(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the commands of a script, each with True where it is run whatever the others say."""
    level, chained = 0, False
    plain_text = _without_documents(text.replace("\\\n", " "))
    parts = re.split(r"(\n|;(?!;)|&&|\|\|)", plain_text)
    for command, after in zip(parts[::2], (*parts[1::2], "\n"), strict=True):
        plain = command.strip()
        first = plain.partition(" ")[0]
        level += first in _OPENS or plain.endswith("{")
        level -= first in _CLOSES
        plain = re.sub(r"^(?:then|else|do)\s+", "", plain)
        if plain:
            yield plain, level == 0 and not chained
        chained = after in {"&&", "||"}


def _without_documents(text: str) -> str:
    """Return a script without the lines of here-documents, which are no commands."""
    lines = text.split("\n")
    ends = {line.strip() for line in lines}
    kept, end = [], ""
    for line in lines:
        if end:
            end = "" if line.strip() == end else end
            continue
        match = _DOCUMENT.search(line)
        end = match[2] if match and match[2] in ends else ""
        kept.append(line[: match.start()] if match and end else line)
    return "\n".join(kept)


def _simple(startup: Startup, words: list[str], *, sure: bool, is_last: bool) -> None:
    """Follow the assignments of a command, and what it starts where that is the program."""
    left = list(words)
    while left and (match := _ASSIGNS.fullmatch(left[0])):
        _assign(startup, match[1], match[2], sure=sure)
        left.pop(0)
    starts = left[:1] == ["exec"] or any(word.strip('"') in {"$@", "${@}"} for word in left)
    starts |= is_last and bool(left) and (_is_starter(left[0]) or _is_env(left[0]))
    if not starts or startup.is_settled:
        return
    while left and (_is_starter(left[0]) or _is_env(left[0])):
        env = _is_env(left[0])
        left = _after_env(startup, left[1:], sure=sure) if env else _after_starter(left)
    words = [_expanded(startup, word) for word in left]
    startup.words = tuple(words)
    program = next((word for word in words if word), "")
    if program.startswith("/") or words != left:
        # Of two programs the condition decides, which is not known here.
        startup.program = program if startup.program in {"", program} else _UNKNOWN
        startup.is_settled = sure


def _is_env(word: str) -> bool:
    return word.rpartition("/")[2] == "env"


def _after_env(startup: Startup, words: list[str], *, sure: bool) -> list[str]:
    """Follow env(1) and return the command that it starts."""
    left = list(words)
    while left and (left[0].startswith("-") or "=" in left[0]):
        word = left.pop(0)
        if word in {"-u", "--unset"} and left:
            _assign(startup, left.pop(0), "", sure=sure)
        elif word.startswith(("-u", "--unset=")):
            _assign(startup, word.removeprefix("--unset=").removeprefix("-u"), "", sure=sure)
        elif word in {"-i", "-", "--ignore-environment"}:
            for name in (_PATH, _PRELOAD):
                _assign(startup, name, "", sure=sure)
        elif match := _ASSIGNS.fullmatch(word):
            _assign(startup, match[1], match[2], sure=sure)
        elif word != "--":
            return []  # an option that is not known
    return left


def _is_starter(word: str) -> bool:
    """Return True for a tool that starts the program behind it."""
    return word.rpartition("/")[2] in _WITH_VALUE


def _after_starter(words: Sequence[str]) -> list[str]:
    """Return the words behind a tool and its options: a program with its arguments."""
    tool, left = words[0].rpartition("/")[2], list(words[1:])
    with_value = _WITH_VALUE[tool]
    if tool == "setarch" and left and left[0] in _MACHINES:
        left = left[1:]
    while left and left[0].startswith("-") and left[0] != "-":
        word = left.pop(0)
        if word == "--":
            break
        name = word[2:] if word.startswith("--") else word[-1]
        several = not word.startswith("--") and any(one in with_value for one in word[1:-1])
        if name in with_value and not several:  # a value may stand behind a letter at once
            left = left[1:]
    return left[_PLACES.get(tool, 0) :]


def _assign(startup: Startup, name: str, text: str, *, sure: bool) -> None:
    value = _expanded(startup, text)
    before, old, after = value.partition(_OLD)
    if name == _PRELOAD:
        known = [word for word in re.split(rf"[\s:{_OLD}]+", value) if word]
        plain = [word for word in known if word.startswith("/") and _UNKNOWN not in word]
        startup.preload_unknown |= len(plain) < len(known) or not sure
        startup.preloads = (*plain, *(startup.preloads if old else ()))
        startup.preload_anew |= not old
    elif name != _PATH:
        startup.variables[name] = value
    elif old or not sure:
        startup.first = tuple(dict.fromkeys((*_folders(before), *startup.first)))
        startup.last = tuple(dict.fromkeys((*startup.last, *_folders(after))))
        startup.anew = not old
    else:
        startup.first, startup.last = tuple(dict.fromkeys(_folders(value))), ()
        startup.anew = startup.dropped = True


def _folders(text: str) -> list[str]:
    return [word for word in text.split(":") if word.startswith("/") and _UNKNOWN not in word]


def _expanded(startup: Startup, text: str) -> str:
    """Return a word with its variables put in; LD_LIBRARY_PATH stands for what it was before."""
    words = re.split(r"\s#", text)[0].strip().replace('"', "").replace("'", "")
    words = _COMMAND.sub(_UNKNOWN, words)
    for _ in range(20):
        again = _VARIABLE.sub(lambda match: _value(startup, match), words)[:_LONGEST]
        if again == words:
            break
        words = again
    return _OTHER.sub(_UNKNOWN if "/" in words else "", words)


def _value(startup: Startup, match: re.Match[str]) -> str:
    name = match[1] or match[4]
    value = _OLD if name in {_PATH, _PRELOAD} else startup.variables.get(name)
    sign, other = (match[2] or "").lstrip(":"), match[3] or ""
    if sign == "+":
        return other if value else ""
    if sign in {"-", "="} and not value:
        return other
    return _UNKNOWN if value is None else value
