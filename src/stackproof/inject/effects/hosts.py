"""Programs to the scripts that run before them: of a host such as R, of an environment of conda.

What such a script puts first in LD_LIBRARY_PATH comes before what an injection puts there.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from stackproof.core import limits
from stackproof.core.errors import StackproofError
from stackproof.inject.startup import Startup, follow
from stackproof.linking.effects.view import RootView
from stackproof.linking.loader import Closure

_R_FOLDERS = ("/usr/lib/R", "/usr/lib64/R", "/usr/local/lib/R", "/usr/local/lib64/R")


def text_of(view: RootView, path: str) -> str:
    """Return the text of a file, empty where it is none that can be read."""
    file = view.look(path)
    try:
        content = view.head(file, limits.SMALL_RECORD.bytes) if file else b""
    except StackproofError:
        return ""
    return content.decode(errors="replace")


def started_by(view: RootView, script: str) -> Startup | None:
    """Return the effects of a shell's script, None for another language."""
    line, _, _ = text_of(view, script).partition("\n")
    words = line.removeprefix("#!").split()
    shell = posixpath.basename(words[-1]) if words and line.startswith("#!") else ""
    if shell not in {"sh", "bash", "dash", "ksh"}:
        return None
    return follow(script, lambda path: text_of(view, path))


def startup_of(view: RootView, closure: Closure) -> Startup | None:
    """Return the start of a program by its host, None without such a host."""
    for script, known in (*_of_r(view, closure), *_of_conda(view, closure)):
        startup = follow(script, lambda path: text_of(view, path), known)
        if startup.changes:
            return startup
    return None


def _of_r(view: RootView, closure: Closure) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the script that R reads its folders from, and where R is."""
    homes = [
        posixpath.dirname(posixpath.dirname(loaded.file.path))
        for loaded in closure.objects
        if (loaded.elf.soname or posixpath.basename(loaded.path)) == "libR.so"
    ]
    path = closure.program.path
    is_module = not closure.program.elf.is_program
    if is_module and any(
        symbol.name == "R_registerRoutines" for symbol in closure.program.elf.imports
    ):
        above = [path[:at] + "/R" for at in range(len(path)) if path.startswith("/R/", at)]
        homes += [*reversed(above), *_R_FOLDERS]
    for home in homes:
        script = f"{home}/etc/ldpaths"
        if view.look(script) is not None:
            yield script, {"R_HOME": home, "R_ARCH": ""}
            return


def _of_conda(view: RootView, closure: Closure) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the scripts that run when the environment of a program is activated."""
    folder = posixpath.dirname(closure.program.path)
    while folder not in {"", "/"}:
        if view.listing(f"{folder}/conda-meta"):
            place = f"{folder}/etc/conda/activate.d"
            for name in view.listing(place):
                if name.endswith(".sh"):
                    yield f"{place}/{name}", {"CONDA_PREFIX": folder}
            return
        folder = posixpath.dirname(folder)
