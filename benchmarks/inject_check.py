"""What does `stackproof inject check` cost, and what does its own ELF reader save?

    python benchmarks/inject_check.py PROGRAM PREFIX [--folder FOLDER] [--rounds N]

1. Every file that the program loads with the MPI at PREFIX is read by our reader and by
   pyelftools (dynamic symbols with their versions, needed version nodes, dynamic section), in
   turns. Printed is the ratio pyelftools / ours: the median, and the middle half of the rounds.
2. The whole check of the program, without and with what earlier runs kept.
3. With --folder the check of all programs below a folder, as a command of its own: cold, then warm.

Times are of the processor, which a busy machine changes less than those of the clock.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection, GNUVerSymSection
from elftools.elf.sections import SymbolTableSection

from stackproof.inject.attempt import Question
from stackproof.inject.judge import judge
from stackproof.inject.model import Judgement
from stackproof.inject.replacement import find_replacement
from stackproof.linking.effects.cache import ElfCache
from stackproof.linking.effects.view import RootView, this_machine
from stackproof.linking.elf import BytesSource, read


def spent(work: Callable[[], object]) -> float:
    """Return the processor time of some work in milliseconds."""
    start = time.process_time()
    work()
    return (time.process_time() - start) * 1e3


def check(program: str, prefix: str, kept: ElfCache | None) -> Judgement:
    """Judge a program once, as if it was the first one of a command."""
    view = RootView("/", None, kept)
    return judge(view, program, find_replacement(view, prefix), Question(machine=this_machine()))


def peer(path: str) -> int:
    """Read with pyelftools what our reader reads; return how many symbols there were."""
    count = 0
    with open(path, "rb") as stream:
        for section in ELFFile(stream).iter_sections():
            if isinstance(section, GNUVerSymSection):
                count += sum(1 for symbol in section.iter_symbols() if symbol["ndx"])
            elif isinstance(section, SymbolTableSection) and section.name == ".dynsym":
                count += sum(1 for symbol in section.iter_symbols() if symbol.name)
            elif isinstance(section, GNUVerNeedSection):
                count += sum(
                    1 for _, nodes in section.iter_versions() for node in nodes if node.name
                )
            elif isinstance(section, DynamicSection):
                count += sum(1 for _ in section.iter_tags())
    return count


def spread(values: list[float]) -> str:
    """Return the median of some values, and their middle half."""
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle:.1f} (middle half of {len(values)}: {low:.1f} to {high:.1f})"


def compare_readers(paths: list[str], rounds: int) -> None:
    """Print how long both readers take for some files, in turns."""
    ours, theirs, ratios = [], [], []
    for number in range(rounds):
        works = [
            lambda: [read(BytesSource(path, Path(path).read_bytes())) for path in paths],
            lambda: [peer(path) for path in paths],
        ]
        first = number % 2
        times = {first: spent(works[first]), 1 - first: spent(works[1 - first])}
        ours.append(times[0])
        theirs.append(times[1])
        ratios.append(times[1] / times[0])
    print(f"reading {len(paths)} files: ours {spread(ours)} ms, pyelftools {spread(theirs)} ms")
    print(f"pyelftools / ours: {spread(ratios)}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("prefix")
    parser.add_argument("--folder")
    parser.add_argument("--rounds", type=int, default=11)
    args = parser.parse_args()
    program, prefix = os.path.abspath(args.program), os.path.abspath(args.prefix)
    found = check(program, prefix, None)
    paths = sorted({os.path.realpath(line.path) for line in found.tree if line.path})
    print(f"{found.program}: {found.verdict}, {len(paths)} files")
    compare_readers(paths, args.rounds)
    with tempfile.TemporaryDirectory() as folder:
        kept = ElfCache(Path(folder))
        check(program, prefix, kept)
        plain = [spent(lambda: check(program, prefix, None)) for _ in range(args.rounds)]
        warm = [spent(lambda: check(program, prefix, kept)) for _ in range(args.rounds)]
        print(f"one check: {spread(plain)} ms, with what was kept {spread(warm)} ms")
        if args.folder:
            env = {**os.environ, "STACKPROOF_CACHE": f"{folder}/cache"}
            argv = [
                sys.executable,
                "-m",
                "stackproof",
                "inject",
                "check",
                args.folder,
                "--with",
                prefix,
            ]
            for name in ("cold", "warm", "warm"):
                before = os.times()
                subprocess.run(argv, env=env, stdout=subprocess.DEVNULL, check=False)
                after = os.times()
                cpu = after.children_user - before.children_user
                cpu += after.children_system - before.children_system
                clock = after.elapsed - before.elapsed
                print(f"{args.folder}: {name} {cpu:.2f} s of processor time, {clock:.2f} s")


if __name__ == "__main__":
    main()
