"""Words that users of uenv, Spack, Apptainer, Docker or ReFrame type first, to what we have.

It is read after a wrong command line only.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # `typing` is slow to import
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

# In the place of a verb, or behind one: words of others, then the hint.
COMMANDS = {
    "exec": "`stackproof run IMAGE -- COMMAND`",
    "view, views, load, module, env, use": "`stackproof start IMAGE --view VIEW`",
    "mount, umount, unmount, stop": "`stackproof run IMAGE -- COMMAND` or "
    "`stackproof start IMAGE`, whose mounts end with them",
    "mpirun, mpiexec, srun": "`stackproof run IMAGE -- mpirun -n 2 PROGRAM`",
    "list, ls, images, ps, status": "`stackproof image ls`, `stackproof recipe ls` or "
    "`stackproof cluster ls`",
    "search": "`stackproof image find` or `stackproof recipe ls`",
    "info, show": "`stackproof inspect IMAGE` or `stackproof recipe show RECIPE`",
    "spec, concretize, solve, graph, dry-run": "`stackproof plan RECIPE`",
    "validate, lint": "`stackproof check RECIPE`",
    "make, stack-config": "`stackproof build RECIPE --site SITE`",
    "create, init, new, edit": "`stackproof recipe show mpich > mine.yaml`",
    "repo": "`stackproof image ls` or `stackproof image fsck`",
    "cache, clean, gc": "`stackproof image prune`",
    "measure, benchmark, test": "`stackproof bench --quick --baseline IMAGE --challenger IMAGE`",
    "version": "`stackproof --version`",
    "login, logout": "`podman login` or `docker login`, whose files are read",
    "image build": "`stackproof build RECIPE`",
    "image status": "`stackproof image ls` or `stackproof image fsck`",
}

# Actions and options of others; the first of ours counts that a command has.
_ACTIONS = {
    "list": "ls", "remove": "rm", "rmi": "rm", "search": "find", "info": "inspect",
    "show": "inspect", "tag": "add", "import": "add", "create": "add up", "start": "up",
    "stop": "down", "clean": "prune", "gc": "prune", "validate": "check",
}  # fmt: skip
_OPTIONS = {
    "-s": "--site", "--system": "--site", "-j": "--jobs", "-b": "--build-dir",
    "--build": "--build-dir", "-m": "--mirror", "--cache": "--mirror", "-v": "--view --verbose",
    "-n": "--ranks", "-np": "--ranks", "--np": "--ranks", "-f": "--force", "--yes": "--force",
    "-p": "--to", "--prefix": "--to",
}  # fmt: skip
_RECIPE = frozenset({"-r", "-f", "--file", "--recipe"})
_SEEN = frozenset({"-B", "--bind", "--volume", "--mount", "--nv", "--rocm", "--rm", "-it"})


def replace_command(verb: str, word: str, actions: Mapping[str, Collection[str]]) -> str:
    """Return the hint for a word that is no verb, or no action of `verb`; empty for most.

    `actions` are the actions of each verb.
    """
    phrase = f"{verb} {word}".strip()
    hint = next((hint for words, hint in COMMANDS.items() if phrase in words.split(", ")), "")
    if hint:
        return f"write {hint}; "
    if verb:
        ours = next((o for o in _ACTIONS.get(word, "").split() if o in actions[verb]), "")
        return f"`{phrase}` is `{verb} {ours}`; " if ours else ""
    lines = [f"`stackproof {name} {word}`" for name, below in actions.items() if word in below]
    return f"write {' or '.join(lines)}; " if lines else ""


def replace_option(verb: str, option: str, known: Collection[str]) -> str:
    """Return the hint for an option that `verb` has under another word; empty for most."""
    if option == "--dry-run" and verb in {"build", "check"}:
        return "write `stackproof plan RECIPE`, which builds nothing; "
    if option in _RECIPE and verb in {"build", "check", "plan"}:
        return f"write `stackproof {verb} RECIPE`, without an option before it; "
    if option in _SEEN and verb in {"run", "start"}:
        return "leave it out: a command sees all files and devices of this machine; "
    ours = next((name for name in _OPTIONS.get(option, "").split() if name in known), "")
    return f"write `{ours}`; " if ours else ""


def replace_words(verb: str, words: Sequence[str]) -> str:
    """Return the hint for several words where `bench`, `compare` or `report` take one."""
    if verb not in {"bench", "compare", "report"} or len(words) < 2:
        return ""
    import shlex  # noqa: PLC0415 - slow to import

    first, *others = map(shlex.quote, words)
    if verb != "bench" and all(map(os.path.isdir, words)):
        return f"write `stackproof compare {first} --beside {others[0]}`; "
    arms = " ".join(f"--challenger {word}" for word in others)
    line = f"`stackproof bench --quick --baseline {first} {arms}`"
    return f"write {line}; " if verb == "bench" else f"`{verb}` takes results: first {line}; "
