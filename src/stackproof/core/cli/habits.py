"""Words that users of uenv, Spack, Apptainer or Docker type first; read after a wrong line only."""

from __future__ import annotations

import os
import shlex

TYPE_CHECKING = False  # `typing` is slow to import
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

HABITS = {
    "exec, mpirun, mpiexec, srun, mount, umount": "run IMAGE -- COMMAND",
    "view, views, load, module, env, use": "start IMAGE --view VIEW",
    "list, ls, images, ps, repo, image status": "image ls",
    "search": "image find",
    "info, show": "inspect IMAGE",
    "spec, concretize, solve, graph, dry-run, build --dry-run, check --dry-run": "plan RECIPE",
    "validate, lint": "check RECIPE",
    "make, stack-config, image build, build -r, build --recipe": "build RECIPE",
    "create, init, new, edit": "recipe show mpich > mine.yaml",
    "cache, clean, gc": "image prune",
    "measure, benchmark, test": "bench --quick --baseline IMAGE --challenger IMAGE",
    "version": "--version",
    "* list": "* ls", "* remove, * rmi": "* rm", "* search": "* find", "* info": "* inspect",
    "* show": "* inspect", "* tag, * create": "* add", "* start": "* up", "* stop": "* down",
    "* -s, * --system": "* --site", "* -j": "* --jobs", "* -m, * --cache": "* --mirror",
    "* -v": "* --view", "* -n, * -np": "* --ranks", "* -f": "* --force",
}  # fmt: skip
"""Words of others, an action or an option behind its verb, and what does it here: `*` is any."""
IN_THE_SHELL = {
    "status": "`echo $STACKPROOF_MOUNTED` shows what is mounted; ",
    "stop": "`exit` leaves a session; ",
}
"""Verbs of others that need no command of ours, by the hint for each."""


def replace_word(verb: str, word: str, known: Collection[str]) -> str:
    """Return the hint for a word or an option that `verb` has under a name among those `known`."""
    if not verb and word in IN_THE_SHELL:
        return IN_THE_SHELL[word]
    phrases = {f"{verb} {word}".strip(), f"* {word}" if verb else word}
    for words, line in HABITS.items():
        if phrases.intersection(words.split(", ")) and (line[0] != "*" or line[2:] in known):
            return f"write `stackproof {line.replace('*', verb)}`; "
    return ""


def add_verb(action: str, actions: Mapping[str, Collection[str]]) -> str:
    """Return the hint for an action without its verb, by the actions of each."""
    verbs = [name for name, below in actions.items() if action in below]
    return f"write `stackproof {verbs[0]} {action}`; " if verbs else ""


def replace_words(verb: str, words: Sequence[str]) -> str:
    """Return the hint for several words where `bench`, `compare` or `report` take one."""
    if verb not in {"bench", "compare", "report"} or len(words) < 2:
        return ""
    has_folder = any(map(os.path.isdir, words))
    words = [*map(shlex.quote, words)]
    if verb != "bench" and has_folder:
        return f"write `stackproof compare {' --beside '.join(words[:2])}`; "
    line = f"stackproof bench --quick --baseline {' --challenger '.join(words)}"
    return f"write `{line}`; " if verb == "bench" else f"`{verb}` takes results: first `{line}`; "
