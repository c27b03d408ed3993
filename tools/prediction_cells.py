"""Programs and MPIs: what `inject check` says of each pair, and what two ranks really do.

Used by `predictions.py` and by a test. A pair is judged on the files as they are, then what the
judgement prints is done to the letter: links are made, variables set for the ranks alone, and the
injected MPI's own launcher starts them. Of what is to fail the best that a person would try is
tried: the folders of the MPI, its library under every name that the program asks for.
"""

from __future__ import annotations

import contextlib
import json
import os
import posixpath
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from msgspec import field

from stackproof.core.command import Command, EnvPatch
from stackproof.core.effects.run import check, run
from stackproof.core.value import Value
from stackproof.inject.attempt import Question
from stackproof.inject.effects import known_releases, named
from stackproof.inject.findings.launcher import OFFERS
from stackproof.inject.judge import judge
from stackproof.inject.model import InjectionVerdict, Judgement
from stackproof.inject.program import demand_of
from stackproof.inject.replacement import Replacement, find_replacement
from stackproof.inject.ways import ALIASES, inner_folders
from stackproof.linking.effects.view import RootView, this_machine
from stackproof.linking.loader import LoaderSettings, load_program
from stackproof.mpi import abi

SOURCES = Path(__file__).parent / "prediction_programs"
RANKS = 2
RUNS = "runs"
_RESULT = re.compile(r"RESULT size=(\d+) ok=(\d)")
_MAIN = re.compile(r"libmpi(?:ch)?\.so")
_TIMEOUT_S = 60.0
# Linked against a library without its own dependencies: whatever it needs is found at the start.
LINK = ("-Wl,--allow-shlib-undefined", "-Wl,--unresolved-symbols=ignore-all", "-Wl,-z,lazy")
_ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/",
    "FI_PROVIDER": "tcp",
    "FI_TCP_IFACE": "lo",
    "I_MPI_FABRICS": "shm",
    "OMPI_MCA_pml": "ob1",
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_ALLOW_RUN_AS_ROOT": "1",
    "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
}


class Mpi(Value):
    """An MPI in a folder: its kind (`mpich`, `openmpi`, `intel`), headers and launcher.

    `library` is what programs are linked with; `standard` the same for the standard ABI, with its
    header in `standard_headers`; `needs` are folders that programs must name to find it.
    """

    name: str
    kind: str
    prefix: str
    library: str
    headers: str
    mpiexec: str
    standard: str = ""
    standard_headers: str = ""
    needs: tuple[str, ...] = ()

    @property
    def own(self) -> dict[str, str]:
        """Return what the MPI itself needs to be found where it lies."""
        paths = [*self.needs, posixpath.dirname(self.library)]
        found = {"LD_LIBRARY_PATH": ":".join(dict.fromkeys(paths))}
        if self.kind == "openmpi":
            homes = ("OPAL_PREFIX", "PMIX_PREFIX", "PRTE_PREFIX")
            found |= dict.fromkeys(homes, self.prefix)
        return found


class Program(Value):
    """A compiled program, the MPI that it was built with, and how ranks start it.

    `judged` is the file that is asked about: the program, or the module that it opens.
    """

    name: str
    mpi: Mpi
    judged: str
    argv: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict)


class Cell(Value):
    """A pair: what was said, what came of it, and what of it is to be known."""

    program: str
    mpi: str
    verdict: InjectionVerdict
    runs: bool
    causes: tuple[str, ...]
    seen: str

    @property
    def is_wrong(self) -> bool:
        """Return whether the verdict says another thing than what was seen."""
        if self.verdict is InjectionVerdict.UNKNOWN:
            return False
        return (self.verdict is InjectionVerdict.FAILS) == self.runs


def programs(
    mpi: Mpi, names: Sequence[str], folder: Path, fortran: str = "", sources: Path = SOURCES
) -> Iterator[Program]:
    """Compile programs with an MPI, `name:variant` each; what has no compiler is left out."""
    for text in names:
        name, _, variant = text.partition(":")
        fc = next(iter(sources.glob(f"{name}.f*")), None)
        if fc is not None and not fortran:
            continue
        target = folder / f"{name}{f'-{variant}' if variant else ''}.{mpi.name}"
        if fc is not None:
            _compile((fortran, "-fallow-argument-mismatch"), fc, mpi, target, variant)
        elif name == "module":
            host = folder / "opened"
            if not host.exists():
                check(Command(argv=("gcc", "-o", str(host), str(SOURCES / "opened.c"))))
            target = target.with_suffix(target.suffix + ".so")
            _compile(("gcc", "-shared", "-fPIC"), SOURCES / "module.c", mpi, target, variant)
            yield Program(
                name=target.name, mpi=mpi, judged=str(target), argv=(str(host), str(target))
            )
            continue
        else:
            _compile(("gcc", "-O1"), sources / f"{name}.c", mpi, target, variant)
        yield Program(name=target.name, mpi=mpi, judged=str(target), argv=(str(target),))


def _compile(compiler: tuple[str, ...], source: Path, mpi: Mpi, target: Path, variant: str) -> None:
    library = mpi.standard if variant == "standard" else mpi.library
    headers = mpi.standard_headers if variant == "standard" else mpi.headers
    folder = posixpath.dirname(library)
    how = "--disable-new-dtags" if variant == "rpath" else "--enable-new-dtags"
    # The Fortran libraries come before the main one, in the order that wrappers name them.
    parts = [] if source.suffix == ".c" else _fortran_parts(folder)
    argv = (
        *compiler, "-w", "-o", str(target), *(f"-I{one}" for one in headers.split(":")),
        f"-I{SOURCES}", str(source), "-Wl,--no-as-needed", *parts, library, *LINK,
        *(() if variant == "bare" else (f"-Wl,{how},-rpath,{folder}",)),
    )  # fmt: skip
    check(Command(argv=argv, timeout_s=_TIMEOUT_S))
    if variant == "plain":
        plain = ("--replace-needed", posixpath.basename(library), "libmpi.so")
        check(Command(argv=("patchelf", *plain, str(target)), timeout_s=_TIMEOUT_S))


def _fortran_parts(folder: str) -> list[str]:
    names = [
        name
        for name in sorted(os.listdir(folder))
        if (found := abi.abi_of_name(name))
        and found[1] is abi.LibraryRole.FORTRAN
        and "-" not in name
    ]
    return [f"{folder}/{name}" for name in names]


def runs_natively(program: Program, work: Path) -> tuple[bool, str]:
    """Return whether a program runs with the MPI that it was built with, and its last words."""
    ranks = {**program.variables, **program.mpi.own}
    done, words, _ = _started(program, program.mpi, ranks, work)
    return done, words


def cell(program: Program, mpi: Mpi, work: Path, kept: Mapping[str, str] | None = None) -> Cell:
    """Judge a pair, do what is said, and return both.

    `kept` has what was seen of cells by `key_of`: what was run for the same judgement is not run
    again.
    """
    view = RootView()
    preload = tuple(program.variables.get("LD_PRELOAD", "").split(":"))
    already = tuple(program.variables.get("LD_LIBRARY_PATH", "").split(":"))
    setting = LoaderSettings(
        library_path=(*program.mpi.needs, *filter(None, already)),
        preload=tuple(filter(None, preload)),
    )
    question = Question(
        machine=this_machine(), setting=setting, releases=known_releases.load_releases,
        launcher=named.launcher_kind(mpi.mpiexec, OFFERS), launcher_file=mpi.mpiexec,
    )  # fmt: skip
    replacement = find_replacement(view, mpi.prefix)
    if _is_script(program.judged):
        found = _asked(program, mpi)
    else:
        found = judge(view, program.judged, replacement, question)
    causes = tuple(sorted({one.cause.value for one in found.findings}))
    seen = (kept or {}).get(key_of(program.name, mpi.name, found.verdict.value, causes), "")
    runs = seen == RUNS
    if not seen:
        runs, seen = _followed(program, mpi, found, replacement, work)
        if found.verdict in {InjectionVerdict.FAILS, InjectionVerdict.UNKNOWN} and not runs:
            runs, seen = _forced(program, mpi, replacement, work)
    return Cell(
        program=program.name, mpi=mpi.name, verdict=found.verdict, runs=runs, causes=causes,
        seen=seen,
    )  # fmt: skip


def _is_script(path: str) -> bool:
    with Path(path).open("rb") as file:
        return file.read(2) == b"#!"


def _asked(program: Program, mpi: Mpi) -> Any:
    """Return the answer of the command line on a script, which the judge does not take."""
    argv = (
        sys.executable, "-m", "stackproof", "inject", "check", program.judged, "--with", mpi.prefix,
        "--launcher", mpi.mpiexec, "--json",
    )  # fmt: skip
    done = run(Command(argv=argv, timeout_s=_TIMEOUT_S))
    if not done.stdout.strip():
        raise RuntimeError(done.stderr.decode(errors="replace"))
    text = json.loads(done.stdout)["programs"][0]
    return SimpleNamespace(
        verdict=InjectionVerdict(text["verdict"]),
        findings=[
            SimpleNamespace(cause=SimpleNamespace(value=f["cause"])) for f in text["findings"]
        ],
        environment=text["environment"],
        tree=[SimpleNamespace(path=line["path"]) for line in text["tree"]],
        way=SimpleNamespace(links=text["way"]["links"], rpath=text["way"]["rpath"]),
    )


def key_of(program: str, mpi: str, verdict: str, causes: Sequence[str]) -> str:
    """Return what a cell is kept by: the pair, and what was said of it."""
    return f"{program} {mpi} {verdict} {','.join(causes)}"


def _followed(
    program: Program, mpi: Mpi, found: Judgement, replacement: Replacement, work: Path
) -> tuple[bool, str]:
    """Do what a judgement says; a program counts as running only with the injected MPI."""
    argv = program.argv
    with _folder(work) as place:
        for link, target in found.way.links.items():
            (place / posixpath.basename(link)).symlink_to(target)
        ranks = {
            name: value.replace(ALIASES, str(place)) for name, value in found.environment.items()
        }
        if found.way.rpath:
            copy = place / "copy"
            binary = found.tree[0].path if _is_script(program.judged) else program.judged
            shutil.copy(binary, copy)
            rpath = ":".join(word.replace(ALIASES, str(place)) for word in found.way.rpath)
            check(Command(argv=("patchelf", "--force-rpath", "--set-rpath", rpath, str(copy))))
            if binary != program.judged:
                script = place / "script"
                script.write_text(Path(program.judged).read_text().replace(binary, str(copy)))
                script.chmod(0o755)
                copy = script
            argv = tuple(str(copy) if word == program.judged else word for word in argv)
        changed = Program(
            name=program.name, mpi=program.mpi, judged=program.judged, argv=argv,
            variables=program.variables,
        )  # fmt: skip
        return _ran(changed, mpi, ranks, replacement, work)


def _forced(program: Program, mpi: Mpi, replacement: Replacement, work: Path) -> tuple[bool, str]:
    """Do what somebody would who goes by names alone, for every main library of an MPI."""
    view = RootView()
    names: tuple[str, ...] = ()
    if not _is_script(program.judged):
        machine = this_machine()
        closure = load_program(view, program.judged, machine=machine, setting=LoaderSettings())
        names = demand_of(view, closure).names
    seen = "no main library"
    names = tuple(name for name in names if "/" not in name)
    only_main = tuple(
        name
        for name in names
        if (found := abi.abi_of_name(name)) and found[1] is abi.LibraryRole.MAIN
    )
    mains = [main.path for main in replacement.mains]
    tries = dict.fromkeys((main, linked) for linked in (only_main, names) for main in mains)
    for path, linked in tries:
        with _folder(work) as place:
            for name in linked:
                (place / name).symlink_to(path)
            inner = inner_folders(replacement)
            paths = [str(place), *replacement.folders, *inner, *program.mpi.needs]
            ranks = {**mpi.own, "LD_LIBRARY_PATH": ":".join(paths)}
            runs, seen = _ran(program, mpi, ranks, replacement, work)
            if runs:
                return runs, seen
    return False, seen


def _ran(
    program: Program, mpi: Mpi, ranks: Mapping[str, str], replacement: Replacement, work: Path
) -> tuple[bool, str]:
    done, words, maps = _started(program, mpi, {**program.variables, **ranks}, work)
    # Wheels have copies where links were, and a program may ask for any of them.
    copies = [path for name, path in replacement.names.items() if _MAIN.match(name)]
    mains = {os.path.realpath(path) for path in (*copies, *(one.path for one in replacement.mains))}
    mapped = [paths & mains for paths in maps]
    if done and (len(mapped) != RANKS or not all(mapped)):
        return False, "runs with another MPI"
    return done, words


def _started(
    program: Program, mpi: Mpi, ranks: Mapping[str, str], work: Path
) -> tuple[bool, str, list[set[str]]]:
    """Start two ranks; return whether they were one job with the right result, and their files."""
    witness = _witness(work)
    with _folder(work) as place:
        settings = dict(ranks)
        preload = settings.get("LD_PRELOAD", "")
        settings["LD_PRELOAD"] = f"{witness}:{preload}" if preload else witness
        settings["PREDICTION_FOLDER"] = str(place)
        options = ("--oversubscribe", "--bind-to", "none") if mpi.kind == "openmpi" else ()
        words = [f"{name}={value}" for name, value in settings.items()]
        argv = (mpi.mpiexec, *options, "-n", str(RANKS), "env", *words, *program.argv)
        # What a program chooses instead is for processes too that it spawns.
        chosen = {name: program.variables.get(name, word) for name, word in _ENVIRONMENT.items()}
        env = EnvPatch(set={**chosen, **mpi.own})
        done = run(Command(argv=argv, env=env, timeout_s=_TIMEOUT_S, cwd=str(place)))
        text = (done.stdout + b"\n" + done.stderr).decode(errors="replace")
        results = _RESULT.findall(text)
        right = not done.timed_out and done.returncode == 0 and results == [(str(RANKS), "1")]
        maps = [set(path.read_text().splitlines()) for path in place.glob("maps.*")]
        maps = [{line for line in lines if line.startswith("/")} for lines in maps]
        with_mpi = [lines for lines in maps if any("libmpi" in line for line in lines)]
        return right, RUNS if right else _why(done.timed_out, done.returncode, text), with_mpi


def _why(timed_out: bool, code: int | None, text: str) -> str:  # noqa: FBT001 - of one use
    if timed_out:
        return "hangs"
    results = _RESULT.findall(text)
    if results:
        worlds = f"{len(results)} worlds of {results[0][0]}"
        return "wrong result" if results == [(str(RANKS), "0")] else worlds
    for pattern in (r"undefined symbol: \w+", r"version `\S+' not found", r"[Ss]egmentation fault",
                    r"cannot open shared object file", r"Signal: \w+"):  # fmt: skip
        if match := re.search(pattern, text):
            return match.group()
    return f"exit code {code}"


def _witness(work: Path) -> str:
    target = work / "witness.so"
    if not target.exists():
        source = str(SOURCES / "witness.c")
        check(Command(argv=("gcc", "-shared", "-fPIC", "-O1", "-o", str(target), source)))
    return str(target)


@contextlib.contextmanager
def _folder(work: Path) -> Iterator[Path]:
    place = Path(tempfile.mkdtemp(prefix="cell.", dir=work))
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)
