"""What a pack is: programs that find themselves, and a list of what could not be moved."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import ClassVar

from msgspec import field

from stackproof.core.command import EnvPatch
from stackproof.core.errors import Reason, fail
from stackproof.core.value import Value
from stackproof.image.model import MpiFacts

# ---------------------- Where things lie in a pack, and how one finds the other from its own place

C_LIBRARY = re.compile(
    r"(?:ld-linux[\w-]*|ld64|libc|libm|libmvec|libpthread|libdl|librt|libutil|libresolv|libanl|"
    r"libnsl|libnss_\w+|libBrokenLocale|libthread_db|libgcc_s)\.so\.\d+"
)
"""What goes with the loader of a pack: glibc's libraries, and libgcc_s, which threads open."""
_NODE = re.compile(r"GLIBC_2\.(\d+)(?:\.\d+)?")
_RELATIVE_RELOCATIONS = 36  # glibc 2.36 brought GLIBC_ABI_DT_RELR


def is_inside(path: str, mount: str) -> bool:
    """Return true for a path below a mount point, whatever `..` it has."""
    return posixpath.normpath(path).startswith(f"{mount}/")


def is_loader(interpreter: str) -> bool:
    """Return true for the name of glibc's loader: what a program names may be any file."""
    name = posixpath.basename(interpreter)
    return name.startswith("ld") and C_LIBRARY.fullmatch(name) is not None


def program_place(path: str) -> str:
    """Return where the program itself lies, when its entry point takes its path.

    It is as deep in the tree and has the same name: what looks for `../lib` from there finds it.
    """
    folder, name = posixpath.split(path)
    above, last = posixpath.split(folder)
    return posixpath.join(above, f".{last}", name)


def run_path(file: str, folders: Iterable[str]) -> str:
    """Return a run path that leads from a file to folders, all of them paths in the pack."""
    here = posixpath.dirname(file)
    found = dict.fromkeys(posixpath.relpath(folder, here) for folder in folders)
    return ":".join("$ORIGIN" if path == "." else f"$ORIGIN/{path}" for path in found)


def floor_of(nodes: Iterable[str]) -> int:
    """Return the x of the newest GLIBC_2.x among version nodes, 0 for none."""
    found = [0]
    for node in nodes:
        match = _NODE.fullmatch(node)
        if match:
            found.append(int(match[1]))
        elif node == "GLIBC_ABI_DT_RELR":
            found.append(_RELATIVE_RELOCATIONS)
    return max(found)


def check_inside(text: str, option: str) -> str:
    """Return a path in the pack as it is written there; raises `StackproofError` (USAGE)."""
    path = posixpath.normpath(text.strip("/"))
    if not path or path.split("/")[0] in {"..", "."}:
        raise fail(
            Reason.USAGE,
            f"`{option} {text}`: this is no path in the pack",
            hint="write it from the pack's folder on, for example `opt/bin`",
        )
    return path


STACK, LIBRARIES, LOADER, PROGRAMS = "stack", "lib", "glibc", "bin"
"""Folders of a pack: the image's tree, this machine's libraries, its C library, entry points."""
SPARE = f"{LIBRARIES}/spare"
"""The folder of a pack for libraries that are used where a machine has none of its own."""
OF_ITSELF = "meta"
"""The folder of a pack for what it says of itself, which is no part of its tree's digest."""
ROOT = "\x01"
"""In values of entry points: the folder that the pack lies in."""


class TextKind(StrEnum):
    """What names a place that a pack is no longer at."""

    RUN_PATH = "run path"
    DLOPEN = "dlopen"
    DATA = "data"
    DEBUG = "debug information"
    SHEBANG = "shebang"
    PC = ".pc"
    CMAKE = "cmake"
    LIBTOOL = "libtool"
    COMPILING = "compiling"
    PYTHON = "Python prefix"
    GCONV = "gconv"
    LOCALE = "locale"
    TERMINFO = "terminfo"
    CERTIFICATES = "certificates"


class Moved(Value):
    """A text that named the old place, or a place of this machine, and what was done about it.

    `file` is a path in the pack, `offset` in bytes in the file as it was found; `done` is empty
    where nothing explains why the program does without.
    """

    file: str
    offset: int
    kind: TextKind
    text: str
    done: str = ""


class Loading(Value):
    """With which loader programs start: the machine's, if its C library is new enough.

    `floor` is the x of the newest GLIBC_2.x that anything in the pack needs; `interpreter` is what
    the programs name; `own` is the loader in the pack, `libraries` are paths of machines' libc.
    `spare` maps names in the folder `SPARE` to the versions that a machine's own has to define to
    be used in their place.
    """

    floor: int
    interpreter: str
    own: str
    libraries: tuple[str, ...]
    spare: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class Mounting(Value):
    """Tier 1: the stack is also where it was built for, in a mount that the ranks of a node share.

    `because` says what asks for it there, as words that end a sentence.
    """

    place: str
    because: str


class EntryPoint(Value):
    """A program of a pack as it is started.

    `place` is the file that is started, `program` what it becomes, both paths in the pack.
    `launcher`: the program looks for others beside the name that it was started by. `script`: its
    interpreter is the machine's. `name` and `arguments` are what an interpreter of the pack is told
    of a script. `mounting` is what tier 1 needs, None in tier 0.
    """

    place: str
    program: str
    env: EnvPatch = field(default_factory=EnvPatch)
    launcher: bool = False
    script: bool = False
    name: str = ""
    arguments: tuple[str, ...] = ()
    mounting: Mounting | None = None


class Origin(Value):
    """What a pack was made of; nothing in it tells when, where or by whom.

    `tree` is the digest that the image records of its own tree, empty where it has none.
    """

    image: str
    image_sha256: str
    stack: str
    lock: str
    tree: str
    glibc: str
    stackproof: str


class Pack(Value):
    """What a pack says of itself, its provenance: what it was made of, and what became of it.

    `tier` is 0 where nothing is mounted to run it; 1 where the stack is, as `mounting` says.
    `programs` maps names in `bin/` to paths in the pack; `main` is the only one that was asked for,
    empty for none or several; `libraries` are those that came from the machine that packed, with
    their SHA-256; `tree` is the digest of paths, contents, modes and links, whatever the format.
    Without `redistribute` the image holds files that may not be handed on. `missing` are names that
    nothing was found for, with a file that asks: they are left to the machine. `notes` should be
    known and keep nobody from running it. `documents` are the image's own. The prefix of `mpi` is a
    path in the pack; None is none, or a pack of a release that did not say. `architecture` is that
    of its programs as `uname -m` says it, empty for such a pack.
    """

    SCHEMA: ClassVar[str] = "stackproof/pack/1"

    name: str
    tier: int
    origin: Origin
    floor: int
    programs: Mapping[str, str]
    main: str = ""
    mounting: Mounting | None = None
    libraries: Mapping[str, str]
    tree: str
    redistribute: bool = True
    missing: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    moved: tuple[Moved, ...] = ()
    documents: Mapping[str, str] = field(default_factory=dict)
    mpi: MpiFacts | None = None
    architecture: str = ""
