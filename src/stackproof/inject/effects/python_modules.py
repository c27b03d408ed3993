"""Scripts of Python that import mpi4py to the extension that their interpreter would load.

Only files are read: no interpreter is started. The folders are those of site.py and of `venv`
(Python 3.13), with Debian's (dist-packages).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence

from stackproof.core import limits
from stackproof.core.errors import StackproofError
from stackproof.inject import python_script
from stackproof.linking.effects.view import RootView

_PYTHON = re.compile(r"(?:python|pypy)(?:3(?:\.\d+)?)?t?")
_VERSION = re.compile(r"python3\.\d+t?")
_EXTENSION = re.compile(r"([A-Za-z]\w*)\.(?:[\w-]+\.)*(?:abi3|cpython-[\w-]+|so)(?:\.so)?")
_PACKAGE, _MODULE = "mpi4py", "MPI"
_WITH_VALUE = frozenset({"-W", "-X", "--check-hash-based-pycs"})


def is_python(program: str) -> bool:
    """Return True for an interpreter of Python, by its name."""
    return _PYTHON.fullmatch(posixpath.basename(program)) is not None


def script_in(words: Sequence[str]) -> str:
    """Return the script that a command line of an interpreter runs, empty for none by a path."""
    left = [*words[1:]]
    while left and left[0].startswith("-"):
        word = left.pop(0)
        if word == "-c" or (word == "-m" and left[:1] != [_PACKAGE]):
            return ""
        if word == "-m" or word in _WITH_VALUE:
            left = left[1:]
    return left[0] if left and left[0].startswith("/") else ""


def text_of(view: RootView, path: str) -> str:
    """Return the text of a file, empty where it is none that can be read."""
    file = view.look(path)
    try:
        content = view.head(file, limits.SMALL_RECORD.bytes) if file else b""
    except StackproofError:
        return ""
    return content.decode(errors="replace")


def imports_mpi4py(view: RootView, script: str) -> bool:
    """Return True for a script of Python whose text imports mpi4py."""
    return python_script.imports(text_of(view, script), _PACKAGE)


def extensions_of(
    view: RootView, script: str, interpreter: str, environment: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the extensions of mpi4py that an interpreter finds first; several are alternatives."""
    for folder in _folders(view, script, interpreter, environment):
        package = posixpath.join(folder, _PACKAGE)
        names = [name for name in view.listing(package) if alternative_of(name) == _MODULE]
        if names:
            return tuple(posixpath.join(package, name) for name in names)
    return ()


def alternative_of(path: str) -> str:
    """Return the folder and the module of an extension of Python, empty for another file.

    `MPI.mpich.abi3.so` and `MPI.openmpi.abi3.so` are two files of one module.
    """
    folder, name = posixpath.split(path)
    match = _EXTENSION.fullmatch(name)
    is_extension = match is not None and not name.startswith("lib")
    return posixpath.join(folder, match[1]) if match and is_extension else ""


def _folders(
    view: RootView, script: str, interpreter: str, environment: Mapping[str, str]
) -> Iterator[str]:
    yield posixpath.dirname(script)
    yield from (word for word in environment.get("PYTHONPATH", "").split(":") if word)
    place = posixpath.dirname(interpreter)
    homes = (posixpath.dirname(place), place)
    settings = {home: text_of(view, posixpath.join(home, "pyvenv.cfg")) for home in homes}
    prefix = next((home for home in homes if settings[home]), "")
    if prefix:
        yield from _of_prefix(view, prefix, "")
        lines = (line.partition("=") for line in settings[prefix].splitlines())
        keys = {key.strip().lower(): value.strip() for key, _, value in lines}
        if keys.get("include-system-site-packages", "").lower() != "true":
            return
        base = posixpath.join(keys.get("home", "/usr/bin"), posixpath.basename(interpreter))
    else:
        base = interpreter
    file = view.look(base)
    real = file.path if file else base
    name = posixpath.basename(real)
    version = name if _VERSION.fullmatch(name) else ""
    if "HOME" in environment:
        yield from _of_prefix(view, posixpath.join(environment["HOME"], ".local"), version)
    yield from _of_prefix(view, posixpath.dirname(posixpath.dirname(real)), version)


def _of_prefix(view: RootView, prefix: str, version: str) -> Iterator[str]:
    """Yield the folders of modules below a prefix; without a version, those of any one."""
    for library in ("local/lib", "lib", "lib64"):
        folder = posixpath.join(prefix, library)
        names = [name for name in view.listing(folder) if _VERSION.fullmatch(name)]
        for name in (version,) if version else names:
            yield posixpath.join(folder, name, "site-packages")
            yield posixpath.join(folder, name, "dist-packages")
        yield posixpath.join(folder, "python3", "dist-packages")
