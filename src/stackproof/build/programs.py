"""Programs that an MPI's own wrappers compile: from their sources to commands, and to a step.

A bench compiles them for each arm (`bench/effects/compile_program.py`), a build for its image.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from stackproof.build import bom
from stackproof.build.benchmark import NATIVE
from stackproof.build.plan import BUILD, DOWNLOADS, PROGRAM, Step
from stackproof.build.stack import Artefact, SourceFile
from stackproof.core.command import Command, EnvPatch
from stackproof.core.document import Document
from stackproof.core.errors import Location, Problem, Reason, fail
from stackproof.core.value import Value, replace
from stackproof.image.model import MpiFacts
from stackproof.mpi import families

IMB = "IMB-MPI1"
OSU = "OSU"
"""The name for all programs of the OSU micro-benchmarks."""
# make would run autoconf again where a file is newer than what was made of it.
_SAME_AGE = ("find", ".", "-exec", "touch", "-d", "2020-01-01", "{}", "+")
_FOLDER = "compiled"
_PLAIN = re.compile(r"[A-Za-z0-9_+][A-Za-z0-9_.+-]*")
_OUTPUT = re.compile(rf"{_PLAIN.pattern}(/{_PLAIN.pattern})*")
_JOBS = "-j{jobs}"
_MAIN = re.compile(rb"\bmain\s*\(")


class ProgramSource(Value):
    """A program to compile: files by their path, commands, and the paths of what they make.

    Commands run one after the other in the folder with the files; `{c}`, `{c++}` and `{fortran}`
    in their words are the wrappers, `{jobs}` the number of CPUs. Outputs are files or folders; the
    sources stay beside them: whoever doubts a number can read the program that made it.
    """

    name: str
    files: Mapping[str, str | bytes]
    commands: tuple[tuple[str, ...], ...]
    outputs: tuple[str, ...]


class ProgramWish(Value):
    """A program to compile, as an entry of `programs` writes it.

    `name` is IMB-MPI1, OSU for all of its programs, or the user's own. `source` is a folder or an
    archive, `sha256` the archive's. `configure` are words for its `configure`, `build` command
    lines in the place of those that its files tell, `outputs` the programs that these make.
    """

    name: str
    source: str
    sha256: str = ""
    configure: tuple[str, ...] = ()
    build: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()


class StackProgram(Value):
    """A program of a stack: its sources as one file, the commands, and what these make.

    `source` has the digest of the sources as they are now; a lock has that of its own time.
    """

    name: str
    source: SourceFile
    commands: tuple[tuple[str, ...], ...]
    outputs: tuple[str, ...]

    @property
    def artefact(self) -> Artefact:
        """Return the file with the sources; a digest tells one version of them from another."""
        sha256 = self.source.accepted[0].sha256
        return Artefact(
            name=self.name, version=sha256[:12], filename=self.source.filename, sha256=sha256
        )

    def folder(self, mount: str) -> str:
        """Return its folder in a mounted image."""
        return f"{mount}/{_FOLDER}/{self.name}"

    def places(self, mount: str) -> dict[str, str]:
        """Return the paths of its programs in a mounted image, by their names."""
        names = [PurePosixPath(path).name for path in self.outputs]
        return {name: f"{self.folder(mount)}/bin/{name}" for name in names}


def parse_programs(data: Mapping[str, Any]) -> tuple[ProgramWish, ...]:
    """Return the entries of a recipe's `programs`, which its schema has judged."""
    return tuple(
        ProgramWish(**{key: _freeze(value) for key, value in entry.items()})
        for entry in data.get("programs", ())
    )


def _freeze(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def program_problems(document: Document) -> Iterator[Problem]:
    """Yield problems of a recipe's programs beyond its schema."""
    entries = document.data.get("programs")
    called, made = {NATIVE}, {NATIVE}
    for index, entry in enumerate(entries if isinstance(entries, list) else ()):
        if not isinstance(entry, dict):
            continue
        for place, path in enumerate(_texts(entry.get("outputs"))):
            if not _OUTPUT.fullmatch(path):
                yield document.problem(
                    ("programs", index, "outputs", place),
                    f"`{path[:80]}` is no path of a program in the folder of the sources",
                    "write it from that folder on, for example src/halo",
                )
        for place, line in enumerate(_texts(entry.get("build"))):
            if not _split_words(line):
                yield document.problem(
                    ("programs", index, "build", place),
                    f"`{line[:80]}` is no command line: it is empty, or a quote has no end",
                    "write a program and its words; no shell reads them",
                )
        own = _texts([entry.get("name")])
        outputs = [path.rpartition("/")[2] for path in _texts(entry.get("outputs")) or own]
        twice = [name for name in own if name in called]
        for name in outputs:
            twice += [name] if name in made and name not in twice else []
            made.add(name)
        called.update(own)
        for name in twice:
            yield document.problem(
                ("programs", index), f"two programs are called `{name}`", "rename one"
            )


def _texts(data: Any) -> list[str]:
    return [text for text in data if isinstance(text, str)] if isinstance(data, list) else []


def _split_words(line: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(line))
    except ValueError:
        return ()


def source_of(
    wish: ProgramWish, files_of: Mapping[str, bytes], *, plus: bool = True
) -> ProgramSource:
    """Return the source to compile from a program's files; `plus`: there is a C++ wrapper.

    Raises `StackproofError` (UNSUPPORTED) for sources that cannot be compiled as they are.
    """
    cxx = ("CXX={c++}",) if plus else ()
    outputs = wish.outputs
    if wish.name == IMB:
        _require(wish, files_of, "Makefile", "src_cpp/Makefile")
        commands: tuple[tuple[str, ...], ...] = (("make", IMB, "CC={c}", *cxx),)
        outputs = outputs or (IMB,)
    elif wish.name == OSU:
        _require(wish, files_of, "configure")
        commands = _configure_commands(wish, cxx)
        outputs = outputs or _osu_programs(files_of)
    else:
        commands = _own_commands(wish, files_of, cxx)
        outputs = outputs or (wish.name,)
    commands = tuple(map(_split_words, wish.build)) or commands
    return ProgramSource(
        name=wish.name, files=files_of, commands=(_SAME_AGE, *commands), outputs=outputs
    )


def _configure_commands(wish: ProgramWish, cxx: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    return ("sh", "./configure", "CC={c}", *cxx, *wish.configure), ("make", _JOBS)


def _own_commands(
    wish: ProgramWish, files_of: Mapping[str, bytes], cxx: tuple[str, ...]
) -> tuple[tuple[str, ...], ...]:
    """Return the commands for a user's own program, by the files that lie at the top."""
    top = sorted(name for name in files_of if _PLAIN.fullmatch(name))
    if "configure" in top:
        return _configure_commands(wish, cxx)
    if {"Makefile", "makefile", "GNUmakefile"} & set(top):
        return (("make", _JOBS, "CC={c}", *cxx, "FC={fortran}"),)
    for ending, wrapper in (
        (".c", "{c}"),
        (".cpp", "{c++}"),
        (".cc", "{c++}"),
        (".f90", "{fortran}"),
    ):
        units = [name for name in top if name.endswith(ending)]
        if units:
            return ((wrapper, "-O2", "-o", wish.name, *units, "-lm"),)
    if wish.build:
        return ()
    raise fail(
        Reason.UNSUPPORTED,
        f"`{wish.source}` says nowhere how `{wish.name}` is compiled",
        where=Location(file=wish.source),
        hint='add `build`, for example [make CC="{c}"]: there is no configure, no Makefile, and '
        "no source file in C, C++ or Fortran",
    )


def _require(wish: ProgramWish, files_of: Mapping[str, bytes], *names: str) -> None:
    missing = [name for name in names if name not in files_of]
    if missing and not wish.build:
        raise fail(
            Reason.UNSUPPORTED,
            f"`{wish.source}` has no `{missing[0]}`: these are no sources of {wish.name} "
            "that can be compiled",
            where=Location(file=wish.source),
            hint="a checkout of OSU's needs `autoreconf -i` first; a release has `configure`",
        )


def _osu_programs(files_of: Mapping[str, bytes]) -> tuple[str, ...]:
    """Return the paths of OSU's programs, each beside its source; `osu_coll.c` of 5.3 is none.

    Of several with one name the first counts.
    """
    paths = {
        PurePosixPath(name).name: name.removesuffix(".c")
        for name in sorted(files_of, reverse=True)
        if "mpi" in PurePosixPath(name).parts
        and PurePosixPath(name).match("osu_*.c")
        and _MAIN.search(files_of[name])
    }
    return tuple(sorted(paths.values()))


def place_of(name: str, source: ProgramSource, path: str) -> str:
    """Return the path of a program; raises `StackproofError` (UNSUPPORTED) for an unknown name."""
    paths = {PurePosixPath(output).name: output for output in source.outputs}
    if name not in paths:
        raise fail(
            Reason.UNSUPPORTED,
            f"`{path}` has no `{name}`",
            where=Location(file=path),
            hint=f"this release has: {', '.join(paths) or f'nothing of {source.name}'}",
        )
    return paths[name]


def find_changes(
    programs: Iterable[StackProgram], locked: Iterable[SourceFile], where: Location | None
) -> Iterator[Problem]:
    """Yield the programs whose sources are no longer those that a lock pins."""
    pinned = {source.filename: source.accepted[0].sha256 for source in locked}
    for program in programs:
        now, then = program.artefact.sha256, pinned.get(program.source.filename)
        if then not in {now, None}:
            yield Problem(
                reason=Reason.DIGEST_MISMATCH,
                message=f"the sources of `{program.name}` changed after the lock was made",
                detail=f"locked  sha256 {then}\nthey are {now}",
                hint="bring the old ones back, or take these: `stackproof build --update`",
                where=where,
            )


def describe_wishes(programs: Iterable[StackProgram]) -> dict[str, list[Any]]:
    """Return the part of programs in the id of a lock, empty without any; digests are not in it.

    Other sources of the same program are no other wish: `find_changes` refuses them.
    """
    wishes = [
        [program.name, list(map(list, program.commands)), list(program.outputs)]
        for program in programs
    ]
    return {"programs": wishes} if wishes else {}


def program_step(program: StackProgram, mount: str, facts: MpiFacts, env: EnvPatch) -> Step:
    """Return the step that compiles a program with a stack's MPI and puts it into the image.

    `env` is what the wrappers need. They are on PATH, for makefiles that name them.
    """
    work = f"{BUILD}/{_FOLDER}/{program.name}"
    compiler = families.REGISTRY[facts.family].compiler
    words = {
        "{c}": f"{facts.prefix}/bin/{compiler}",
        "{c++}": f"{facts.prefix}/bin/mpicxx",
        "{fortran}": f"{facts.prefix}/bin/mpifort",
    }
    env = EnvPatch(prepend={"PATH": (f"{facts.prefix}/bin",)}).then(env)
    # How many run at once is the machine's, and no part of the step: MAKEFLAGS says it.
    lines = [tuple(_fill_words(word, words) for word in argv if word != _JOBS)
             for argv in program.commands]  # fmt: skip
    return Step(
        name=f"{PROGRAM}{program.name}",
        description=f"compile {program.name} with the stack's {compiler}",
        fetch=(program.artefact,),
        commands=(
            Command(argv=("rm", "-rf", work)),
            Command(argv=("mkdir", "-p", work, f"{program.folder(mount)}/bin")),
            Command(argv=("tar", "-xf", f"{DOWNLOADS}/{program.source.filename}", "-C", work)),
            *(Command(argv=argv, cwd=work, env=env) for argv in lines),
            *(
                Command(argv=("install", "-m", "755", path, place), cwd=work)
                for path, place in zip(program.outputs, program.places(mount).values(), strict=True)
            ),
        ),
        outputs=(f"{_FOLDER}/{program.name}",),
    )


def program_steps(
    programs: Iterable[StackProgram], mount: str, facts: MpiFacts, env: EnvPatch, before: str
) -> tuple[Step, ...]:
    """Return the steps of all programs, each behind the step with the id `before` alone."""
    steps = (program_step(program, mount, facts, env) for program in programs)
    return tuple(replace(step, inputs=(before,)) for step in steps)


def _fill_words(word: str, words: Mapping[str, str]) -> str:
    for name, text in words.items():
        word = word.replace(name, text)
    return word


def program_folders(programs: Iterable[StackProgram], mount: str) -> EnvPatch:
    """Return the variables of a view for programs: their folders are on PATH."""
    folders = tuple(f"{program.folder(mount)}/bin" for program in programs)
    return EnvPatch(prepend={"PATH": folders}) if folders else EnvPatch()


def program_bills(
    programs: Iterable[StackProgram], needs: tuple[str, ...]
) -> tuple[bom.BillEntry, ...]:
    """Return the entries of programs in a bill of materials; `needs` are what they stand on."""
    return tuple(
        bom.BillEntry(
            name=program.name,
            version=program.artefact.version,
            ref=f"program:{program.name}",
            kind="application",
            scope="required",
            sha256=program.artefact.sha256,
            properties={f"source:{program.source.filename}": program.source.accepted[0].provenance},
            needs=needs,
        )
        for program in programs
    )


def program_places(programs: Iterable[StackProgram], mount: str) -> dict[str, str]:
    """Return the paths of all programs in a mounted image, by their names."""
    return {name: path for each in programs for name, path in each.places(mount).items()}


def list_rows(programs: Iterable[StackProgram]) -> Iterator[tuple[str, str]]:
    """Yield a word and a line for each program, for people."""
    for program in programs:
        digest = program.source.accepted[0]
        yield "program", f"{program.name}, {digest.provenance}  sha256 {digest.sha256}"
