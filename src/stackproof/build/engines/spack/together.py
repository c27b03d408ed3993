"""Steps whose calls of Spack do not need each other, as one step that runs them at the same time.

Spack's own locks let several calls install into one store (lib/spack/spack/installer.py,
github.com/spack/spack, v0.23 and v1.1; new_installer.py, v1.2). `effects/together.py` runs them,
with one number of jobs for all, and says before every line whose it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from stackproof.build.engines.spack.layout import ENVIRONMENTS, tool, variables
from stackproof.build.plan import BUILD, PYTHON, TOOLS, Step
from stackproof.core.command import Command
from stackproof.core.value import replace

PROGRAM = f"{TOOLS}/spack_together.py"
_FILE = "together.json"


def join_steps(
    name: str, steps: Mapping[str, Step], needs: Mapping[str, Iterable[str]] | None = None
) -> tuple[Step, ...]:
    """Return one step that does what `steps` do, by whose they are; a single one stays as it is.

    `needs` says what has to have ended well before one begins.
    """
    if len(steps) < 2:
        return tuple(steps.values())
    parts = tuple(steps.values())
    first = parts[0]
    work = {
        key: {"needs": list((needs or {}).get(key, ())), "calls": [*map(_call, step.commands)]}
        for key, step in steps.items()
    }
    file = f"{ENVIRONMENTS}/{name}-{_FILE}"
    build_files = {path: text for step in parts for path, text in step.build_files.items()}
    run = tool(PYTHON, "-I", "-S", PROGRAM, BUILD, f"{BUILD}/{file}", cwd=f"{BUILD}/{ENVIRONMENTS}")
    step = replace(
        first,
        name=f"{name}-{ENVIRONMENTS}",
        description=f"{first.description.rpartition(' ')[0]} {', '.join(steps)}",
        files={path: text for step in parts for path, text in step.files.items()},
        executable=tuple(dict.fromkeys(path for step in parts for path in step.executable)),
        build_files={**build_files, file: json.dumps(work, indent=1) + "\n"},
        commands=(run,),
    )
    return (step,)


def list_calls(step: Step, command: Command) -> dict[str, Command]:
    """Return the last call of each part of a step by whose it is; of another step its command."""
    text = next((t for path, t in step.build_files.items() if path.endswith(_FILE)), None)
    if text is None or PROGRAM not in command.argv:
        return {"": command}
    work = json.loads(text)
    return {
        key: replace(command, argv=tuple(part["calls"][-1]["argv"])) for key, part in work.items()
    }


def split_label(line: str, names: Iterable[str]) -> tuple[str, str]:
    """Return the label of a line and the rest; "" and the line for one without a label."""
    name, colon, text = line.partition(": ")
    return (name, text) if colon and name in names else ("", line)


def group_lines(text: str, names: Sequence[str]) -> dict[str, str]:
    """Return the lines of each name, not mixed any more."""
    lines_by_name: dict[str, list[str]] = {name: [] for name in names}
    for line in text.splitlines():
        name, rest = split_label(line, names)
        lines_by_name.setdefault(name, []).append(rest)
    return {name: "\n".join(lines) for name, lines in lines_by_name.items()}


def _call(command: Command) -> dict[str, object]:
    """Return a call as the program reads it; all have the variables of `layout` already."""
    shared = variables().set.items()
    own = {key: value for key, value in command.env.set.items() if (key, value) not in shared}
    return {"argv": list(command.argv), "env": own}
