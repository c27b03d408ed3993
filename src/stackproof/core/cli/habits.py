"""Words that users of uenv, Spack, Apptainer or Docker type first; read after a wrong line only."""

from __future__ import annotations

import os

TYPE_CHECKING = False  # `typing` is slow to import
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

COMMANDS = {
    "exec, mpirun, mpiexec, srun, mount, umount": "run IMAGE -- COMMAND",
    "view, views, load, module, env, use": "start IMAGE --view VIEW",
    "list, ls, images, ps, status, repo, image status": "image ls",
    "search": "image find",
    "info, show": "inspect IMAGE",
    "spec, concretize, solve, graph, dry-run": "plan RECIPE",
    "validate, lint": "check RECIPE",
    "make, stack-config, image build": "build RECIPE",
    "create, init, new, edit": "recipe show mpich > mine.yaml",
    "cache, clean, gc": "image prune",
    "measure, benchmark, test": "bench --quick --baseline IMAGE --challenger IMAGE",
    "version": "--version",
}
"""Words in the place of a verb, or with one before them, and the command that does it here."""
_ACTIONS = {
    "list": "ls", "remove": "rm", "rmi": "rm", "search": "find", "info": "inspect", "gc": "prune",
    "show": "inspect", "tag": "add", "create": "add up", "start": "up", "stop": "down",
}  # fmt: skip
_OPTIONS = {
    "-s": "--site", "--system": "--site", "-j": "--jobs", "-b": "--build-dir", "-m": "--mirror",
    "--cache": "--mirror", "-v": "--view", "-n": "--ranks", "-np": "--ranks", "-f": "--force",
}  # fmt: skip
_SEEN = frozenset({"-B", "--bind", "--volume", "--mount", "--nv", "--rocm", "--rm", "-it"})


def replace_command(verb: str, word: str, actions: Mapping[str, Collection[str]]) -> str:
    """Return the hint for a word that is no verb, or none of the `actions` of its verb."""
    phrase = f"{verb} {word}".strip()
    lines = [line for words, line in COMMANDS.items() if phrase in words.split(", ")]
    if verb:
        ours = [name for name in _ACTIONS.get(word, "").split() if name in actions[verb]]
        lines = lines or [f"{verb} {name}" for name in ours[:1]]
    lines = lines or [f"{name} {word}" for name, below in actions.items() if word in below]
    return f"write `{'` or `'.join(f'stackproof {line}' for line in lines)}`; " if lines else ""


def replace_option(verb: str, option: str, known: Collection[str]) -> str:
    """Return the hint for an option that `verb` has under another word; empty for most."""
    if verb in {"build", "check", "plan"} and option in {"--dry-run", "-r", "--recipe"}:
        return f"write `stackproof {'plan' if option == '--dry-run' else verb} RECIPE`; "
    if verb in {"run", "start"} and option in _SEEN:
        return "leave it out: a command sees all files and devices of this machine; "
    ours = _OPTIONS.get(option, "")
    return f"write `{ours}`; " if ours in known else ""


def replace_words(verb: str, words: Sequence[str]) -> str:
    """Return the hint for several words where `bench`, `compare` or `report` take one."""
    if verb not in {"bench", "compare", "report"} or len(words) < 2:
        return ""
    first, *others = words
    if verb != "bench" and all(map(os.path.isdir, words)):
        return f"write `stackproof compare {first} --beside {others[0]}`; "
    line = " --challenger ".join((f"stackproof bench --quick --baseline {first}", *others))
    return f"write `{line}`; " if verb == "bench" else f"`{verb}` takes results: first `{line}`; "
