"""A build that was run, or that failed, as the command that runs something else in its sandbox."""

from __future__ import annotations

import os
from pathlib import Path

from stackproof.build.effects import visible, workspace
from stackproof.build.effects.executor import IMAGE_LIST, LAST_COMMAND
from stackproof.core import noun
from stackproof.core.command import Bind, Command, EnvPatch, Sandbox
from stackproof.core.effects import files
from stackproof.core.errors import Location, Reason, fail
from stackproof.core.value import replace


def find_build(name: str) -> Path:
    """Return the folder of a build by its id, by its path, or by the image it made.

    Raises `StackproofError`: FILE_MISSING for none, naming those there are; USAGE for several.
    """
    home = workspace.builds_home()
    for path in (Path(name), home / name):
        if (path / LAST_COMMAND).is_file():
            return path
    every = sorted(path.parent for path in home.glob(f"*/{LAST_COMMAND}"))
    image = Path(name)
    if image.is_file():
        digest = files.sha256(image)
        found = [path for path in every if digest in _digests(path)]
    else:
        found = [path for path in every if _is_named(path.name, name)]
        found = [path for path in found if workspace.find(path).store.is_dir()] or found
    if len(found) == 1:
        return found[0]
    if found:
        raise fail(
            Reason.USAGE,
            f"`{name}` stands for several builds",
            hint=f"name one: {', '.join(path.name for path in found)}",
        )
    known = ", ".join(path.name for path in every) or "none"
    guess = f"`stackproof start {name}` opens a shell with an image; " if image.is_file() else ""
    raise fail(
        Reason.FILE_MISSING,
        f"there is no build `{name}` in `{home}`",
        hint=f"{guess}there are: {known}",
    )


def _is_named(folder: str, wanted: str) -> bool:
    """Return whether a folder `<name>-<id>` is meant by its name, its id, or how they begin."""
    name, _, number = folder.rpartition("-")
    begins = number.startswith(wanted) or (folder.startswith(wanted) and len(wanted) > len(name))
    return wanted in {folder, name} or (len(wanted) >= 4 and begins)


def _digests(folder: Path) -> list[str]:
    try:
        return (folder / IMAGE_LIST).read_text(encoding="utf-8").split()
    except FileNotFoundError:
        return []


def shell_command(folder: Path, words: tuple[str, ...], *, network: bool) -> Command:
    """Return the command that runs `words` as the last command of a build ran.

    Raises `StackproofError` (FILE_MISSING) when the tree of the build is gone.
    """
    last = noun.from_json(Command, (folder / LAST_COMMAND).read_bytes(), file=str(folder))
    space = workspace.find(folder)
    box = last.sandbox or Sandbox()
    gone = next((bind.source for bind in box.binds if not os.path.exists(bind.source)), None)
    if gone is not None or not space.store.is_dir():
        raise fail(
            Reason.FILE_MISSING,
            "the tree of this build is gone: "
            + ("it was in memory" if space.in_memory else f"`{gone or space.store}` is missing"),
            where=Location(file=str(folder)),
            hint="a finished build in memory is cleared away; build with --in-memory=no to keep it",
        )
    if network and not box.network:
        have = {bind.target for bind in box.binds}
        more = [
            Bind(source=path, target=path) for path in visible.network_files() if path not in have
        ]
        box = replace(box, network=True, binds=(*box.binds, *more))
    prompt = EnvPatch(set={"PS1": f"{space.home.name}:\\w\\$ "})
    return replace(
        last,
        # A shell in between: it says what cannot be run, with the exit codes of POSIX.
        argv=("sh", "-c", 'exec "$@"', "sh", *words) if words else ("bash", "--norc", "-i"),
        env=last.env if words else last.env.then(prompt),
        sandbox=box,
        timeout_s=None,
    )
