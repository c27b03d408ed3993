"""Whether the output of one launch means what it seems to mean.

Each check has three answers and quotes its evidence. A check that is BAD keeps the launch out of
every comparison; "cannot tell" does not, but is shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from stackproof.compare import rank_places
from stackproof.core.command import Completed
from stackproof.core.errors import Problem, Reason
from stackproof.launch.launchers import messages
from stackproof.mpi import families, transports
from stackproof.results.case import Case
from stackproof.results.measurement import Check, Output, State
from stackproof.results.metrics import METRICS

_QUOTE_LINES = 3
_UNKNOWN_OPTION = re.compile(r"stackproof-bench: unknown option `[^`\n]{1,40}`")
# What our program, OSU's tests and IMB say of themselves when they are one rank instead of several.
_ALONE = re.compile(
    r"the number of ranks is 1; it must be (?:at least )?\d+"
    r"|This test requires (?:exactly|at least) (?:two|2) process(?:es)?"
    r"|Benchmark \S{1,40} invalid for 1 process(?:es)?"
)
_SEPARATORS = re.compile(r"[: ]+")
_REFUSED_PRELOAD = re.compile(r"object '([^']+)' from LD_PRELOAD cannot be preloaded")
_TAIL_LINES = 20
_PHYSICS = "wrong-physics"
# Names that our programs give to why nothing of what they measured, if anything, counts.
_REFUSED = {
    "no-driver": Reason.NO_GPU,
    "no-device": Reason.NO_GPU,
    "not-gpu-aware": Reason.NO_GPU,
    "out-of-memory": Reason.JOB_FAILED,
    "device-fault": Reason.JOB_FAILED,
    "bad-input": Reason.INVALID_VALUE,
    _PHYSICS: Reason.VALIDATION_FAILED,
}
_ELEMENT = 4
"""Bytes of MPI_INT and MPI_FLOAT, in whole numbers of which an allreduce is measured."""

# Exit codes of a shell for a program that a signal ended, and the signals of a program's own faults
# (signal(7), numbers of Linux).
_SIGNALLED = 128
_FAULTS = {4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 11: "SIGSEGV"}

HINTS: Mapping[Reason, str] = {
    Reason.UNSUPPORTED: "build the image again with this stackproof: the benchmark in it is of "
    "another version",
    Reason.INVALID_VALUE: "correct the program's `options` in the specification",
    Reason.NO_GPU: "ask for nodes with GPUs and for a GPU for each rank, and use an MPI that was "
    "built for them; `memory: host` needs neither",
    Reason.NODE_UNREACHABLE: "look whether the nodes are up: `stackproof cluster status`",
    Reason.SINGLETONS: "the launcher and the MPI library do not belong together: start the job "
    "with the launcher of the MPI that the program uses",
    Reason.WRONG_PLACEMENT: "name CPUs and nodes that the job may use, or change the site's "
    "binding",
    Reason.COMMAND_NOT_FOUND: "check that the image that holds the program is mounted on every "
    "node",
    Reason.JOB_TIMEOUT: "raise the case's `timeout`, or look for a rank that waits for ever",
    Reason.VALIDATION_FAILED: "messages arrived changed: this MPI cannot be used on this path",
    Reason.RANK_CRASHED: "run the program alone with `stackproof run` to see why it ends",
    Reason.JOB_FAILED: "read what the MPI says below; a transport that cannot be had is an error "
    "by intention, `auto` leaves the choice to the MPI",
    Reason.GARBAGE_OUTPUT: "check that the program is the one that the case names",
    Reason.TRUNCATED_OUTPUT: "the program ended before its end; read its messages below",
    Reason.NOT_LOADED: "put the file into the image, or into a folder that every node has (/tmp is "
    "often each node's own), or take the variable out of the arm's `env`",
    Reason.WRONG_MPI: "look for another MPI in LD_LIBRARY_PATH or in the program's run path",
    Reason.WRONG_TRANSPORT: "the MPI took another path than it was told to; the evidence shows "
    "which interfaces sent the messages",
    Reason.CLOCK_JUMPED: "look whether something sets clocks on the nodes, and whether their clock "
    "source is stable (/sys/devices/system/clocksource/clocksource0/current_clocksource)",
    Reason.NO_RESULTS: "ask for benchmarks and sizes that the program measures",
}
"""The remedy for each reason for which a launch is discarded.

They stand in the order in which they explain each other: a node that was not there comes before the
crash that it caused.
"""

ORDER = tuple(HINTS)


def judge(
    output: Output,
    case: Case,
    *,
    mpi_family: str,
    mpi_version: str,
    completed: Completed,
    loader: Mapping[str, str] | None = None,
) -> tuple[Check, ...]:
    """Return every check of one launch.

    `mpi_family` and `mpi_version` are the MPI that was asked for, as the image states it; empty
    where nothing does. `loader` has the LD_PRELOAD and LD_LIBRARY_PATH whose effect must be seen.
    """
    text = (completed.stdout + b"\n" + completed.stderr).decode(errors="replace")
    return (
        _named("nodes", _nodes(output, case, text)),
        _named("end", _ended(output, case, completed, text)),
        _named("output", _output(output, completed)),
        _named("world", _world(output, case, text)),
        _named("placement", _placement(output, case, text)),
        *((_named("memory", _memory(output, case)),) if case.memory else ()),
        _named("validation", _validation(output, case)),
        _named("mpi", _mpi(output, mpi_family, mpi_version)),
        *_loaded(output, loader or {}, text),
        transports.get(case.transport).check(output, case),
        *((clock_check(output),) if any(one.clock for one in output.ranks) else ()),
        _named("results", _results(output, case)),
    )


def first_failure(checks: tuple[Check, ...], stderr: bytes | str = b"") -> Problem | None:
    """Return the failure that explains the others, None when no check is BAD."""
    bad = [check for check in checks if check.state is State.BAD]
    if not bad:
        return None
    worst = min(bad, key=_rank)
    reason = Reason(worst.reason)
    said = stderr.decode(errors="replace") if isinstance(stderr, bytes) else stderr
    lines = said.rstrip("\0 \t\r\n").splitlines()[-_TAIL_LINES:]
    tail = "\n".join("".join(c for c in line if c.isprintable() or c == "\t") for line in lines)
    return Problem(
        reason=reason, message=worst.evidence, hint=HINTS.get(reason), detail=tail or None
    )


def _rank(check: Check) -> int:
    return ORDER.index(check.reason) if check.reason in ORDER else len(ORDER)


_Answer = tuple[State, str, str]
"""State, reason where it is BAD, and evidence."""


def _ok(evidence: str) -> _Answer:
    return State.OK, "", evidence


def _bad(reason: Reason, evidence: str) -> _Answer:
    return State.BAD, reason.value, evidence


def _unknown(evidence: str) -> _Answer:
    return State.UNKNOWN, "", evidence


def _named(name: str, answer: _Answer) -> Check:
    state, reason, evidence = answer
    return Check(name=name, state=state, reason=reason, evidence=evidence)


def _spoke(output: Output) -> bool:
    return bool(output.worlds or output.world_size or output.ranks or output.series)


def _nodes(output: Output, case: Case, text: str) -> _Answer:
    said = messages.unreachable(text)
    if said:
        return _bad(Reason.NODE_UNREACHABLE, f"a node could not be reached: {said}")
    heard = {rank.host for rank in output.ranks}
    if len(heard) >= len(case.placement.nodes):
        return _ok(f"heard from {', '.join(sorted(heard))}")
    return _unknown("no launcher complained, but not every node was heard from")


def _ended(output: Output, case: Case, completed: Completed, text: str) -> _Answer:
    if completed.timed_out:
        since = "after its ranks had started" if _spoke(output) else "and no rank had spoken"
        return _bad(Reason.JOB_TIMEOUT, f"the job did not end within {case.timeout_s:g} s, {since}")
    if completed.returncode == 0:
        return _ok("the launcher exited with 0")
    how = (
        f"the launcher was killed by signal {-completed.returncode}"
        if completed.returncode < 0
        else f"the launcher exited with {completed.returncode}"
    )
    reason, what = _why(output, completed.returncode, text)
    return _bad(reason, f"{what}; {how}")


def _why(output: Output, code: int, text: str) -> tuple[Reason, str]:
    """Return why a job ended with an error, from the most telling words it left."""
    spoke = _spoke(output)
    for name, words in output.refused.items():
        if name in _REFUSED:
            return _REFUSED[name], words
    said = (
        (Reason.UNSUPPORTED, "the image's benchmark is of another version", _stranger(text)),
        (Reason.COMMAND_NOT_FOUND, "the program cannot be started", messages.no_program(text)),
        (Reason.JOB_FAILED, "the MPI could not start", "" if spoke else messages.not_started(text)),
        (Reason.RANK_CRASHED, "a rank ended badly", messages.crashed(text)),
    )
    for reason, what, words in said:
        if words:
            return reason, f"{what}: {words}"
    if output.complete:
        return Reason.JOB_FAILED, "all ranks reached their end"
    if spoke:
        return Reason.RANK_CRASHED, "the program did not reach its end"
    if code - _SIGNALLED in _FAULTS:
        # PRRTE sometimes ends before it has told of the rank.
        return Reason.RANK_CRASHED, f"a rank was killed by {_FAULTS[code - _SIGNALLED]}"
    return Reason.JOB_FAILED, "no rank spoke"


def _stranger(text: str) -> str:
    """Return what a benchmark program of another version says of an option that it lacks."""
    found = _UNKNOWN_OPTION.search(text)
    return found[0] if found else ""


def _output(output: Output, completed: Completed) -> _Answer:
    noise = f"; {len(output.garbage)} foreign lines" if output.garbage else ""
    unread = [text for reason, text in output.refused.items() if reason not in _REFUSED]
    if unread:
        return _bad(Reason.GARBAGE_OUTPUT, f"{'; '.join(unread)}{noise}")
    if not _spoke(output) and not output.complete:
        if completed.stdout.strip():
            quoted = "`, `".join(output.garbage[:_QUOTE_LINES]) or repr(completed.stdout[:80])
            return _bad(Reason.GARBAGE_OUTPUT, f"nothing printed is the program's: `{quoted}`")
        return _bad(Reason.TRUNCATED_OUTPUT, "the program printed nothing")
    if not output.complete:
        return _bad(
            Reason.TRUNCATED_OUTPUT,
            f"the output stops after {len(output.series)} series, before its end{noise}",
        )
    return _ok(f"{len(output.series)} series, complete{noise}")


def _world(output: Output, case: Case, text: str) -> _Answer:
    asked = len(case.placement.ranks)
    alone = _ALONE.search(text)
    if output.worlds > 1:
        ranks = f" of {output.world_size}" if output.world_size else ""
        return _bad(
            Reason.SINGLETONS,
            f"{output.worlds} programs ran as rank 0{ranks}, asked for one of {asked}",
        )
    if not output.world_size and alone:
        return _bad(
            Reason.SINGLETONS,
            f"the program says that it is alone, asked for {asked} ranks: `{alone[0]}`",
        )
    if not output.world_size:
        return _unknown("the program did not tell how many ranks it has")
    if output.world_size != asked:
        return _bad(Reason.SINGLETONS, f"the program has {output.world_size} ranks, not {asked}")
    return _ok(f"one program of {asked} ranks")


def _placement(output: Output, case: Case, text: str) -> _Answer:
    refused = messages.no_cpu(text)
    if refused:
        return _bad(Reason.WRONG_PLACEMENT, f"a rank could not be pinned: {refused}")
    if not output.ranks:
        return _unknown("no rank told where it ran")
    asked = case.placement.ranks
    wrong = [fault for facts in output.ranks for fault in rank_places.faults(facts, case)]
    pinned = {number for number, rank in enumerate(asked) if rank.cpu is not None}
    told = sum(bool(facts.cpus) or facts.rank not in pinned for facts in output.ranks)
    if wrong:
        return _bad(Reason.WRONG_PLACEMENT, "; ".join(wrong))
    if told < len(asked):
        return _unknown(f"{told} of {len(asked)} ranks told where they ran")
    return _ok("; ".join(_where(facts.host, facts.cpus) for facts in output.ranks))


def _where(host: str, cpus: tuple[int, ...]) -> str:
    return f"{host} CPU {','.join(map(str, cpus))}" if cpus else host


def _memory(output: Output, case: Case) -> _Answer:
    """Return whether each rank's buffers lay where the case wants them."""
    told = [(one.rank, one.memory) for one in output.ranks if one.memory is not None]
    wrong = [
        f"rank {rank} had {memory.kind} memory, not {wanted}"
        for rank, memory in told
        if memory.kind != (wanted := case.memory[min(rank, len(case.memory) - 1)])
    ]
    if wrong:
        return _bad(Reason.JOB_FAILED, "; ".join(wrong))
    if len(told) < len(case.placement.ranks):
        return _unknown("not every rank told where its buffers lay")
    return _ok("; ".join(f"rank {rank}: {memory.text}" for rank, memory in told))


def _validation(output: Output, case: Case) -> _Answer:
    if _PHYSICS in output.refused:
        return _bad(Reason.VALIDATION_FAILED, output.refused[_PHYSICS])
    if output.validation_errors:
        shown = "; ".join(wrong.text for wrong in output.wrong[:_QUOTE_LINES])
        more = len(output.wrong) - _QUOTE_LINES
        rest = f"; and {more} more" if more > 0 else ""
        count = f"{output.validation_errors} received bytes were wrong"
        evidence = f"{count}: {shown}{rest}" if shown else count
        return _bad(Reason.VALIDATION_FAILED, evidence)
    # OSU's programs look by an option of their own; ours does where the case asks for it.
    by_itself = any(s.validated is not None and s.printed for s in output.series)
    if not (case.validate or case.spot_check or by_itself):
        return _unknown(f"no byte that {case.program} received was looked at")
    unchecked = [s for s in output.series if s.validated is None]
    if unchecked or not output.series:
        return _unknown(f"{len(unchecked)} series were not validated")
    total = sum(series.validated or 0 for series in output.series)
    took = sum(series.check_s or 0.0 for series in output.series)
    what = f"{total} received bytes" + ("" if case.validate else ", a sample,")
    return _ok(f"{what} were right; to look at them took {took:.2g} s beside what is timed")


def _mpi(output: Output, family: str, version: str) -> _Answer:
    text = output.mpi_library.strip()
    if not text:
        return _unknown("the program did not tell its MPI library")
    if not family:
        return _unknown("nothing says which release of an MPI is meant")
    first = text.splitlines()[0]
    wanted = f"{families.get(family).title} {version}"
    if not is_release(text, family, version):
        return _bad(Reason.WRONG_MPI, f"`{first}` answered, not {wanted}")
    return _ok(f"{wanted} answered: `{first}`")


def is_release(text: str, family: str, version: str) -> bool:
    """Return true where a library that says this of itself is the release of an MPI."""
    known = families.identify(text)
    return known is not None and known[0] == family and families.same_release(known[1], version)


def _loaded(output: Output, loader: Mapping[str, str], text: str) -> Iterator[Check]:
    """Yield the checks of what LD_PRELOAD and LD_LIBRARY_PATH are to give the ranks."""
    name = "preload"
    files = [file for file in _SEPARATORS.split(loader.get("LD_PRELOAD", "")) if file]
    ranks = [rank for rank in output.ranks if rank.preloads is not None]
    gone = [(rank, file) for rank in ranks for file in files if not (rank.preloads or {}).get(file)]
    refused = [file for file in _REFUSED_PRELOAD.findall(text) if file in files]
    if gone:
        rank, file = gone[0]
        where = f"rank {rank.rank} on {rank.host} runs without `{file}`, which LD_PRELOAD names: "
        how = "its loader could not open it" if file in (rank.preloads or {}) else "it was unset"
        yield _named(name, _bad(Reason.NOT_LOADED, f"{where}{how} there"))
    elif refused and not ranks:
        text = f"the loader of a rank ignored `{refused[0]}`, which LD_PRELOAD names"
        yield _named(name, _bad(Reason.NOT_LOADED, text))
    elif files and ranks:
        yield _named(name, _ok(f"every rank has {', '.join(files)}"))
    elif files:
        yield _named(name, _unknown("no rank tells whether it has what LD_PRELOAD names"))
    path = loader.get("LD_LIBRARY_PATH", "")
    for rank in output.ranks if path else ():
        if rank.folders is not None and not any(rank.folders.values()):
            text = (
                f"rank {rank.rank} on {rank.host} has no library from LD_LIBRARY_PATH={path}: the "
                "folders are not there, or the program's own run path comes first"
            )
            yield _named("library path", _bad(Reason.NOT_LOADED, text))
            return


def clock_check(output: Output) -> Check:
    """Return the check of the clocks that timed a launch: they ran steadily, and as one.

    Its ranks tell of their clocks, as those of other programs do not.
    """
    name = "clock"
    told = [(one.rank, one.clock) for one in output.ranks if one.clock is not None]
    wrong = [
        f"the clock of rank {rank} jumped by {_microseconds(clock.jump_us)} during the launch"
        for rank, clock in told
        if clock.jump_us
    ] or [
        f"the clocks of rank 0 and rank {rank} moved apart by {_microseconds(clock.moved_us)} "
        "during the launch"
        for rank, clock in told
        if abs(clock.moved_us) > clock.moved_bound_us
    ]
    wrong += [
        f"the clock of rank {rank} is {_microseconds(clock.skew_us)} from that of rank 0, with "
        "which it should be one"
        for rank, clock in told
        if clock.shared and abs(clock.skew_us) > clock.skew_bound_us
    ]
    if wrong:
        more = f"; and {len(wrong) - _QUOTE_LINES} more" if len(wrong) > _QUOTE_LINES else ""
        text = "; ".join(wrong[:_QUOTE_LINES]) + more
        return _named(name, _bad(Reason.CLOCK_JUMPED, text))
    bound = max((clock.moved_bound_us for _, clock in told), default=0.0)
    text = f"no clock jumped; a change of {_microseconds(bound)} would have shown"
    return _named(name, _ok(text))


def _microseconds(value: float) -> str:
    return f"{abs(value):.3g} µs" if abs(value) < 1e3 else f"{abs(value) / 1e3:.3g} ms"


def _results(output: Output, case: Case) -> _Answer:
    found = {(series.benchmark, series.size) for series in output.series if series.values}
    missing = [
        f"{benchmark} {size}"
        for benchmark in case.benchmarks
        for size in (case.sizes if METRICS[benchmark].sized else (0,))
        if (benchmark, size) not in found
    ]
    measured = {benchmark for benchmark, _ in found}
    left_out = [key for key in missing if _may_skip(key, output, measured)]
    lost = [key for key in missing if key not in left_out]
    if lost:
        few = ", ".join(lost[:_QUOTE_LINES]) + (", …" if len(lost) > _QUOTE_LINES else "")
        return _bad(Reason.NO_RESULTS, f"{len(lost)} results are missing: {few}")
    note = f"; left out as not measurable: {', '.join(left_out)}" if left_out else ""
    return _ok(f"every series asked for is there{note}")


def _may_skip(key: str, output: Output, measured: set[str]) -> bool:
    """Return whether a size may be missing: the program said why, or it is no whole element."""
    benchmark, _, size = key.partition(" ")
    if key in output.skipped:
        return True
    if METRICS[benchmark].kind == "latency":
        return False
    return benchmark in measured and (int(size) < _ELEMENT or int(size) % _ELEMENT != 0)
