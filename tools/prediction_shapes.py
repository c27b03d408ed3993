"""Programs that say themselves how they are built: the first lines of a source of `--sources`.

    build: $CC -O3 -flto -o $OUT $SRC $MPI      a line of the shell; several are one script
    judge: $OUT.so                              the file that is asked about, $OUT where left out
    start: $OUT.host $OUT.so                    what ranks start, $OUT where left out
    set: LD_PRELOAD=$OUT.so                     a variable that the program is started with
    needs: mpich intel                          kinds of MPIs that it can be built with
    abi: standard                               it is for the standard ABI of MPI 5.0

`$MPI` links with the MPI and names its folder, `$BARE` only links, `$LIB` and `$DIR` are the
library and its folder, `$SONAME` is its name. A text that is no program is asked about as a script.
"""

from __future__ import annotations

import os
import posixpath
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from string import Template

from prediction_cells import LINK, SOURCES, Mpi, Program
from stackproof.core.command import Command, EnvPatch
from stackproof.core.effects.run import check

_LINE = re.compile(r"^[\s/*!#]*(build|judge|start|set|needs|abi): (.+?)(?: \*/)?$", re.MULTILINE)
_HEAD = 1500
_BUILD_S = 200.0
SUFFIXES = (".c", ".cpp", ".f90", ".sh", ".py")


def shape_of(source: Path) -> dict[str, list[str]]:
    """Return the lines by which a source says how it is built; empty for a plain source."""
    lines: dict[str, list[str]] = {}
    for key, value in _LINE.findall(source.read_text()[:_HEAD]):
        lines.setdefault(key, []).append(value)
    return lines


def shaped(source: Path, shape: dict[str, list[str]], mpi: Mpi, folder: Path) -> Iterator[Program]:
    """Build a source as it says; nothing where the MPI is of another kind."""
    standard = shape.get("abi") == ["standard"]
    kinds = " ".join(shape.get("needs", [mpi.kind])).split()
    if mpi.kind not in kinds or (standard and not mpi.standard):
        return
    library = mpi.standard if standard else mpi.library
    headers = mpi.standard_headers if standard else mpi.headers
    place = posixpath.dirname(library)
    target = folder / f"{source.stem}.{mpi.name}"
    include = " ".join(f"-I{one}" for one in [*headers.split(":"), str(SOURCES)])
    bare = f"{library} {' '.join(LINK)}"
    words = {
        "CC": f"gcc -w {include}", "CXX": f"g++ -w {include}",
        "FC": f"gfortran -w -fallow-argument-mismatch {include}",
        "MPI": f"{bare} -Wl,--enable-new-dtags,-rpath,{place}", "BARE": bare, "LIB": library,
        "DIR": place, "SONAME": posixpath.basename(library), "OUT": str(target),
        "SRC": str(source), "HERE": str(source.parent), "PREFIX": mpi.prefix,
        "PATH": os.environ["PATH"],
    }  # fmt: skip
    for line in shape["build"]:
        argv = ("sh", "-ec", Template(line).safe_substitute(words))
        check(Command(argv=argv, env=EnvPatch(set={"LC_ALL": "C"}), timeout_s=_BUILD_S))
    judged, started = (
        Template(" ".join(shape.get(key, ["$OUT"]))).substitute(words) for key in ("judge", "start")
    )
    settings = (Template(line).substitute(words).partition("=") for line in shape.get("set", ()))
    yield Program(
        name=target.name, mpi=mpi, judged=judged, argv=tuple(shlex.split(started)),
        variables={name: value for name, _, value in settings},
    )  # fmt: skip
