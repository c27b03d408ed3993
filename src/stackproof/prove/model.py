"""What was predicted of an injection against what happened: arms that were run, and the answer.

Three arms carry a proof. The program's own MPI must run, or nothing can be said. The injected one
must do what was predicted, and its ranks must have mapped the files that were predicted. A wrong
one must be refused and must fail, or a check that always says yes would pass as well.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import ClassVar

from msgspec import field

from stackproof.core import harmless
from stackproof.core.mountlist import normal
from stackproof.core.numbers import percent_text, size_text
from stackproof.core.value import Value
from stackproof.inject.model import InjectionVerdict

OWN, INJECTED, WRONG = "own", "injected", "wrong"
"""The names of the arms."""
AGAIN = f"{OWN}-again"
"""The null arm of a comparison: the own MPI once more."""

_SYSTEM_FILES = ("/dev/", "/SYSV", "/memfd:", "/anon_hugepage")
_MOST_SHOWN = 12
_SYSTEM_FOLDERS = ("/usr/lib/", "/lib/", "/usr/lib64/", "/lib64/")
_IMB_WORLD = re.compile(r"^# #processes = (\d+)", re.MULTILINE)
_IMB_START = re.compile(r"^#\s+MPI Version\s*:", re.MULTILINE)
# These end with an error where there are not exactly two ranks, before they print a heading.
_OSU_PAIR = re.compile(
    r"^# OSU MPI\S* (?:Bi-Directional )?(?:Latency|Bandwidth) Test", re.MULTILINE
)
_OWN_START = re.compile(r'"kind":"start"(?:(?!"kind":"start").)*?"world_size":(\d+)')


class ProofOutcome(StrEnum):
    """What a proof comes to."""

    PROVEN = "proven"
    WRONG = "not proven"
    UNKNOWN = "cannot tell"


class Mapped(Value):
    """A file with code that a rank had in its memory; `build_id` is empty where it has none."""

    path: str
    build_id: str = ""


class Witnessed(Value):
    """What was seen of one rank: how it ended, and all files that it ever mapped.

    `exit` is None when a signal ended it; `library_path` is the LD_LIBRARY_PATH that it had.
    """

    SCHEMA: ClassVar[str] = "stackproof/rank-witness/1"

    host: str
    pid: int
    exit: int | None
    signal: int
    library_path: str = ""
    files: tuple[Mapped, ...] = ()


class LoadedFile(Value):
    """A file of an arm: in how many ranks it was, and whether the prediction named it.

    What was not predicted was opened later, as a plug-in is.
    """

    path: str
    build_id: str
    ranks: int
    predicted: bool


class Prediction(Value):
    """What was said beforehand; `files` are real paths. The own MPI's arm has no verdict.

    Of `marks` every rank must have one in its memory, whatever else was predicted: they are the
    main libraries of the MPI that is meant, or all libraries of what lies below one.
    """

    verdict: InjectionVerdict | None = None
    reasons: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()


class ArmProof(Value):
    """One arm: the MPI, the transport that was forced, what was predicted, and what happened.

    `exit` is the launcher's exit code, None when it was stopped after its time; `world` and
    `worlds` are what the program's output says of the size of its world and of how many there
    were, 0 where it says nothing; `expected` whether the output had the text that it should,
    None when none was asked for. `missing` are predicted files that a rank did not map, `doubled`
    files that it mapped beside a predicted one of the same name. `wrong_bytes` says which message
    of a timed launch was not the one that was sent.
    """

    name: str
    mpi: str
    prediction: Prediction
    wanted_ranks: int
    transport: str = ""
    argv: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    exit: int | None = None
    ranks: tuple[Witnessed, ...] = ()
    world: int = 0
    worlds: int = 0
    expected: bool | None = None
    output: str = ""
    files: tuple[LoadedFile, ...] = ()
    missing: tuple[str, ...] = ()
    doubled: tuple[str, ...] = ()
    wrong_bytes: str = ""

    @property
    def fault(self) -> str:
        """Return why the arm did not run as one job, empty when it did."""
        signals = sorted({rank.signal for rank in self.ranks if rank.signal})
        alone = self.worlds > 1 or (self.world and self.world != self.wanted_ranks)
        faults = (
            (self.exit is None, "it did not end in its time"),
            (signals, f"ranks were ended by signal {', '.join(map(str, signals))}"),
            (self.exit, f"it exited with {self.exit}"),
            (
                len(self.ranks) != self.wanted_ranks,
                f"{len(self.ranks)} of {self.wanted_ranks} ranks were seen",
            ),
            (alone, f"{max(self.worlds, 1)} worlds of {self.world} ranks, not one job"),
            (self.expected is False, "its output lacks the text that it should have"),
            (self.wrong_bytes, self.wrong_bytes),
        )
        return next((text for is_so, text in faults if is_so), "")

    @property
    def agrees(self) -> bool:
        """Return whether every rank mapped every file that was predicted, and no other instead."""
        return bool(self.ranks) and not self.missing and not self.doubled

    @property
    def unmarked(self) -> int:
        """Return how many ranks had nothing in memory that shows the MPI which is meant."""
        marks = {normal(path) for path in self.prediction.marks}
        if not marks:
            return 0
        return sum(not any(file.path in marks for file in rank.files) for rank in self.ranks)

    @property
    def is_one_job(self) -> bool:
        """Return whether the output shows that the ranks were one job and not as many of one rank.

        A program that does not say how many ranks its world has looks the same in both.
        """
        return bool(self.worlds) or self.expected is True


class Speed(Value):
    """What the judge of `compare` says of the injected MPI at one size of a benchmark.

    `verdict` is PASS, FAIL or INCONCLUSIVE: slower by more than `margin`, a fraction, or not;
    `reads` is the same with what is to be said of the tail.
    `ratio` is to the own MPI, more than 1 where the injected one is better; `low` and `high` are
    its interval, None of a single pair of launches. They are an estimate alone where the verdict is
    INCONCLUSIVE; then `why` says why, and `remedy` what would help. `why` also has the tail where
    that makes a size FAIL. `size` is in bytes, None for a benchmark without messages.
    """

    benchmark: str
    size: int | None
    verdict: str
    reads: str
    margin: float
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    why: str = ""
    remedy: str = ""


class Proof(Value):
    """The whole: arms by name, speed, the answer and why.

    `launches` is how many timed launches each arm has for its speed. `speed_notes` say why there
    is no speed, or what speaks against it.
    """

    SCHEMA: ClassVar[str] = "stackproof/injection-proof/2"

    program: str
    replacement: str
    answer: ProofOutcome
    reasons: tuple[str, ...]
    arms: tuple[ArmProof, ...]
    speed: tuple[Speed, ...] = ()
    launches: int = 0
    speed_notes: tuple[str, ...] = ()


def worlds_of(output: str) -> tuple[int, int]:
    """Return the size of the world and the number of worlds that a program's output shows.

    Both are 0 where no program that is known wrote it.
    """
    starts = _OWN_START.findall(output)
    if starts:
        return int(starts[0]), len(starts)
    if pairs := _OSU_PAIR.findall(output):
        return 2, len(pairs)
    sizes = [int(word) for word in _IMB_WORLD.findall(output)]
    return max(sizes, default=0), len(_IMB_START.findall(output))


def compared(
    prediction: Prediction, ranks: Sequence[Witnessed]
) -> tuple[tuple[LoadedFile, ...], tuple[str, ...], tuple[str, ...]]:
    """Return all files that ranks mapped, the predicted ones that a rank lacks, and doubled ones.

    A file is doubled when it has the name of a predicted one and lies elsewhere: what should have
    been replaced, or an older copy.
    """
    counts: dict[str, int] = {}
    builds: dict[str, str] = {}
    for rank in ranks:
        for file in rank.files:
            if file.path.startswith(_SYSTEM_FILES):
                continue
            counts[file.path] = counts.get(file.path, 0) + 1
            builds[file.path] = file.build_id
    predicted = {normal(path) for path in prediction.files}
    files = tuple(
        LoadedFile(path=path, build_id=builds[path], ranks=count, predicted=path in predicted)
        for path, count in sorted(counts.items())
    )
    missing = sorted(path for path in predicted if counts.get(path, 0) < len(ranks))
    names = {posixpath.basename(path) for path in predicted}
    doubled = [
        file.path for file in files if not file.predicted and posixpath.basename(file.path) in names
    ]
    return files, tuple(missing), tuple(doubled)


def conclude(arms: Mapping[str, ArmProof]) -> tuple[ProofOutcome, tuple[str, ...]]:
    """Return the answer, and every sentence that it follows from."""
    found = list(_judged(arms))
    order = (ProofOutcome.WRONG, ProofOutcome.UNKNOWN, ProofOutcome.PROVEN)
    answer = next(
        (one for one in order if any(kind is one for kind, _ in found)), ProofOutcome.UNKNOWN
    )
    return answer, tuple(sentence for _, sentence in found)


def _judged(arms: Mapping[str, ArmProof]) -> Iterator[tuple[ProofOutcome, str]]:
    own = arms[OWN]
    if own.fault:
        text = f"with its own MPI the program does not run here ({own.fault}): nothing follows"
        yield ProofOutcome.UNKNOWN, f"{text} from what it does with another one"
    elif not own.agrees:
        yield ProofOutcome.WRONG, _other_files(own)
    elif not own.is_one_job:
        yield ProofOutcome.UNKNOWN, _unseen(own)
    else:
        yield ProofOutcome.PROVEN, "with its own MPI it runs, from the files that were predicted"
    yield from _injected(arms[INJECTED], own_runs=not own.fault)
    wrong = arms.get(WRONG)
    if wrong is None:
        text = "there was no wrong MPI to try: name one with --wrong"
        yield (
            ProofOutcome.UNKNOWN,
            f"{text}, so that a check which always says yes would be found out",
        )
    else:
        yield _control(wrong)


def _injected(arm: ArmProof, *, own_runs: bool) -> Iterator[tuple[ProofOutcome, str]]:
    verdict, fault = arm.prediction.verdict, arm.fault
    if verdict is InjectionVerdict.UNKNOWN:
        end = f"fails ({fault})" if fault else "runs"
        yield (
            ProofOutcome.UNKNOWN,
            f"the check could not tell about the injected MPI; here it {end}",
        )
    elif verdict is InjectionVerdict.FAILS and fault:
        kind = ProofOutcome.WRONG if own_runs else ProofOutcome.UNKNOWN
        yield kind, f"the injected MPI fails as predicted: {fault}"
    elif verdict is InjectionVerdict.FAILS:
        yield ProofOutcome.WRONG, _defect("the injected MPI was to fail, and runs")
    elif fault and arm.exit is None:
        text = "the injected MPI was to work, and did not end in its time"
        yield ProofOutcome.UNKNOWN, f"{text}: it hangs, or it is slow; give it more with --timeout"
    elif fault and own_runs:
        yield ProofOutcome.WRONG, _defect(f"the injected MPI was to work, and does not: {fault}")
    elif fault:
        yield ProofOutcome.UNKNOWN, f"the injected MPI does not run either: {fault}"
    elif not arm.agrees:
        yield ProofOutcome.WRONG, _other_files(arm)
    elif arm.unmarked:
        yield _not_in_memory(arm)
    elif not arm.is_one_job:
        yield ProofOutcome.UNKNOWN, _unseen(arm)
    else:
        yield (
            ProofOutcome.PROVEN,
            "the injected MPI runs as predicted, from the files that were predicted",
        )


def _not_in_memory(arm: ArmProof) -> tuple[ProofOutcome, str]:
    """Return the answer for ranks that ran without what was injected."""
    marks = arm.prediction.marks
    text = f"{arm.unmarked} of {len(arm.ranks)} ranks ran without {_any_of(marks)} in memory"
    if set(marks) & set(arm.prediction.files):
        return ProofOutcome.WRONG, _defect(text)
    return (
        ProofOutcome.UNKNOWN,
        f"{text}: nothing of what was injected was used, so that nothing follows",
    )


def _any_of(paths: Sequence[str]) -> str:
    more = f" or {len(paths) - 1} others" if len(paths) > 1 else ""
    return f"{paths[0]}{more}"


def _control(arm: ArmProof) -> tuple[ProofOutcome, str]:
    refused, fault = arm.prediction.verdict is InjectionVerdict.FAILS, arm.fault
    if refused and fault:
        return ProofOutcome.PROVEN, f"the wrong MPI is refused by the check, and fails: {fault}"
    if refused:
        return ProofOutcome.WRONG, _defect("the wrong MPI was to fail, and runs")
    if fault:
        return ProofOutcome.WRONG, _defect(
            f"the check does not refuse the wrong MPI, which fails: {fault}"
        )
    return (
        ProofOutcome.UNKNOWN,
        "the MPI that was named as a wrong one works: name one of another ABI with --wrong",
    )


def _unseen(arm: ArmProof) -> str:
    return (
        f"ranks of the arm `{arm.name}` run, and nothing shows that they are one job of "
        f"{arm.wanted_ranks}, not {arm.wanted_ranks} jobs of one: name what only the whole job "
        "prints with --expect"
    )


def _other_files(arm: ArmProof) -> str:
    texts = []
    if arm.missing:
        texts.append(f"did not map what was predicted: {', '.join(arm.missing)}")
    if arm.doubled:
        texts.append(f"mapped others of the same name: {', '.join(arm.doubled)}")
    if not arm.ranks:
        texts.append("were not seen")
    return _defect(f"ranks of the arm `{arm.name}` {' and '.join(texts)}")


def _defect(text: str) -> str:
    return f"WRONG PREDICTION, a defect of `inject check`: {text}"


def render(proof: Proof) -> str:
    """Return a proof as text for people."""
    lines = [f"{proof.program} with {proof.replacement}: {proof.answer.upper()}"]
    lines += [f"  {sentence}" for sentence in proof.reasons]
    for arm in proof.arms:
        lines += ["", *_arm_lines(arm)]
    lines += ["", *_speed_lines(proof)]
    shown = "\n".join(lines).split("\n")
    # Names of files and words of programs are theirs: a terminal must not obey them.
    return "\n".join(map(harmless.line, shown)) + "\n"


def _speed_lines(proof: Proof) -> Iterator[str]:
    if proof.speed:
        yield f"speed, {proof.launches} launches of each arm, judged as by `stackproof compare`:"
        yield "  ratio to the own MPI (more than 1: better) and its interval of 95 %"
    else:
        yield "speed: not compared"
    yield from (f"  {_speed_line(one)}" for one in proof.speed)
    yield from (f"  note: {text}" for text in proof.speed_notes)


def _speed_line(speed: Speed) -> str:
    where = speed.benchmark + ("" if speed.size is None else f", {size_text(speed.size)}")
    numbers = "no number" if speed.ratio is None else f"{speed.ratio:.3f}"
    if speed.low is not None and speed.high is not None:
        numbers += f"  [{speed.low:.3f}, {speed.high:.3f}]"
    if speed.verdict == "INCONCLUSIVE":
        reasons = "; ".join(filter(None, (speed.why, speed.remedy)))
        return f"{where}: {speed.reads}  {numbers}  an estimate that decides nothing: {reasons}"
    what = f"the margin of {percent_text(speed.margin)}"
    meaning = "slower by more than" if speed.verdict == "FAIL" else "at least as fast within"
    if speed.why:
        return f"{where}: {speed.reads}  {numbers}  {speed.why}"
    return f"{where}: {speed.reads}  {numbers}  {meaning} {what}"


def _arm_lines(arm: ArmProof) -> Iterator[str]:
    verdict = arm.prediction.verdict
    said = f"predicted: {verdict.value.replace('-', ' ')}" if verdict else "its own MPI"
    yield f"{arm.name}: {arm.mpi}" + (f", over {arm.transport}" if arm.transport else "")
    yield f"  {said}; {arm.fault or 'it runs'}" + _world(arm)
    yield from (f"  {reason}" for reason in arm.prediction.reasons)
    if not arm.files:
        return
    ours = [file for file in arm.files if not file.path.startswith(_SYSTEM_FOLDERS)]
    if arm.prediction.files:
        predicted = sum(file.predicted for file in arm.files)
        yield (
            f"  {predicted} files as predicted, {len(arm.missing)} missing, "
            f"{len(arm.files) - predicted} more while running; outside of the system's folders:"
        )
    else:
        yield "  files that ranks had, outside of the system's folders:"
    for path in arm.missing:
        yield f"  ! {path}   predicted, and not in every rank"
    more = [file for file in ours if not file.predicted and file.path not in arm.doubled]
    for file in ours:
        if file in more[_MOST_SHOWN:]:
            continue
        mark = "=" if file.predicted else "!" if file.path in arm.doubled else "+"
        build = f"   build id {file.build_id[:16]}" if file.build_id else ""
        yield f"  {mark} {file.path}{build}"
    if len(more) > _MOST_SHOWN:
        yield f"  + {len(more) - _MOST_SHOWN} others, which proof.json names"


def _world(arm: ArmProof) -> str:
    return f", {arm.world} ranks in one world" if arm.world and not arm.fault else ""
