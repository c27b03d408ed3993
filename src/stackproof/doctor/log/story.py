"""What a job's output tells: what failed first, on which rank and node, and how it ended."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from stackproof.core.value import Value, replace
from stackproof.doctor.log import grammar
from stackproof.doctor.log.lines import PlainLine, PlainLog, plain, who
from stackproof.knowledge.evidence import Evidence

MOST_EVENTS = 40
"""Lines that are remembered of a log."""

_RULE = re.compile(r"\s{0,8}[-=*#]{12,}\s*$")
_STACK = re.compile(r"\w+ ?\(\d+\)[. ]*: ?\S")
_COMPONENTS = grammar.compile_words(grammar.COMPONENTS)
_ENDS = tuple((name, re.compile(pattern)) for name, pattern in grammar.ENDS)
_NUMBERED = ("number", "hydra", "prte", "ucx", "mv")
_SIGNAL_NAMES = {
    "Segmentation fault": "11", "Bus error": "7", "Killed": "9", "Aborted": "6",
    "Illegal instruction": "4", "Floating point exception": "8",
}  # fmt: skip


class LogEvent(Value):
    """A line that complains: where it stands, who printed it, on which rank and node.

    `fatal` lines are an end; those of a `stack` tell what was below another one.
    """

    file: str
    line: int
    text: str
    component: str = ""
    rank: int | None = None
    node: str = ""
    fatal: bool = True
    stack: bool = False


class LogStory(Value):
    """The events of all logs in their order, and how the job ended, in words.

    `dead` says that words stand there after which nobody goes on, `unanswered` that nothing was
    printed after the last complaint.
    """

    events: tuple[LogEvent, ...] = ()
    endings: tuple[str, ...] = ()
    dead: bool = False
    unanswered: bool = False

    @property
    def fatal(self) -> tuple[LogEvent, ...]:
        """Return the events that are an end."""
        return tuple(event for event in self.events if event.fatal)

    @property
    def shown(self) -> tuple[LogEvent, ...]:
        """Return the events to quote: the first end, the bottom of its stack, and the others."""
        chosen = self.fatal or self.events
        head = chosen[:1]
        stack = [
            event for event in self.events if event.stack and head and event.file == head[0].file
        ]
        return tuple(dict.fromkeys((*head, *stack[-1:], *chosen[1:], *self.events)))

    @property
    def first(self) -> LogEvent | None:
        """Return the first event that is an end, else the first complaint."""
        return next(iter(self.fatal or self.events), None)

    @property
    def opening(self) -> LogEvent | None:
        """Return the first event that is an end and that not every job ends with.

        Where another component speaks in the line before, that one was the first. Where none is an
        end, it is the first complaint, then what every job ends with.
        """
        events = [event for event in self.events if not grammar.EPILOGUE.search(event.text)]
        place = next((place for place, event in enumerate(events) if event.fatal), None)
        if place is None:
            return next(iter(events or self.fatal), None)
        before = events[place - 1] if place else events[place]
        beside = before.line == events[place].line - 1 and before.component
        return before if beside else events[place]

    @property
    def last_words(self) -> frozenset[int]:
        """Return the lines that any job ends with, where another one said before what failed."""
        lines = [event for event in self.events if grammar.EPILOGUE.search(event.text)]
        others = [event for event in self.events if not grammar.OUTSIDE.search(event.text)]
        complained = any(event.fatal or grammar.is_complaint(event.text) for event in others)
        if self.opening is None:
            return frozenset()
        last = [event for event in lines if complained or not grammar.OUTSIDE.search(event.text)]
        return frozenset(event.line for event in last if event.line > self.opening.line)

    @property
    def stage(self) -> str:
        """Return the time of the opening: `step`, `start` (of an MPI) or `run`."""
        if self.opening is None:
            return ""
        stack = (event.text for event in self.events if event.stack)
        text = "\n".join((self.opening.text, *stack))
        return next((name for name, words in grammar.STAGES if words.search(text)), "run")

    @property
    def first_failed(self) -> LogEvent | None:
        """Return the first event that names a rank or a node."""
        named = (event for event in self.fatal if event.rank is not None or event.node)
        return next(named, None)


def story_of(evidence: Evidence) -> LogStory:
    """Return the story of the logs of evidence."""
    events: list[LogEvent] = []
    endings: dict[str, None] = {}
    dead = unanswered = False
    words, speaker = grammar.HEIRS.get(str(evidence.facts.get("mpi")), ("", ""))
    for name, text in evidence.logs.items():
        numbers = tuple(evidence.line_numbers.get(name, ()))
        complaints = _events(name, text, numbers)
        events += [
            replace(event, component=speaker) if event.component == words else event
            for event in complaints
        ]
        endings |= dict.fromkeys(_endings(text, numbers))
        log = plain(text, numbers)
        dead = dead or grammar.DEAD.search(log.text) is not None
        last = max((line.number for line in log.lines if line.text.strip()), default=0)
        unanswered = unanswered or any(event.line + _FEW_LINES >= last for event in complaints)
    return LogStory(events=tuple(events), endings=tuple(endings), dead=dead, unanswered=unanswered)


_FEW_LINES = 2
"""Lines after a complaint that still belong to it."""


@functools.lru_cache(maxsize=16)
def _events(name: str, text: str, numbers: tuple[int, ...]) -> tuple[LogEvent, ...]:
    """Return the complaints of a log in their order, each wording once."""
    found: dict[str, LogEvent] = {}
    last: PlainLine | None = None
    for line, whole, boxed in _statements(plain(text, numbers).lines):
        fatal = grammar.FATAL.search(whole) is not None
        # A launcher draws a box around what it ends with, and around some warnings.
        fatal = fatal or (boxed and _WARNING.search(whole) is None)
        stack = _STACK.match(whole) is not None and not whole.rstrip().endswith(":")
        before, last = last, line
        harmless = grammar.HARMLESS.search(whole) is not None
        if harmless or not (fatal or stack or grammar.is_complaint(whole)):
            continue
        key = re.sub(r"0x[0-9a-f]+|\d+", "", whole)
        if key in found or len(found) >= MOST_EVENTS:
            continue
        if fatal and not any(event.fatal for event in found.values()) and before is not None:
            # Whoever has no word for an error says it in the line before.
            found.setdefault(before.text, _event(name, before, before.text, fatal=False))
        found[key] = _event(name, line, whole, fatal=fatal, stack=stack)
    return tuple(found.values())


def _event(name: str, line: PlainLine, text: str, *, fatal: bool, stack: bool = False) -> LogEvent:
    rank, node = who(line)
    return LogEvent(
        file=name, line=line.number, text=text.strip(), component=component_of(text), rank=rank,
        node=node, fatal=fatal, stack=stack,
    )  # fmt: skip


def went_on(log: PlainLog) -> bool:
    """Return true where a program printed on after the last complaint."""
    if grammar.DEAD.search(log.text):
        return False
    after = False
    for _, whole, boxed in _statements(log.lines):
        fatal = grammar.FATAL.search(whole) and not grammar.HARMLESS.search(whole)
        if boxed or fatal or grammar.is_complaint(whole):
            after = False
        elif grammar.PROGRESS.search(whole):
            after = True
    return after


_WARNING = re.compile(
    r"[Ww][Aa][Rr][Nn]|will be ignored|will continue|[Dd]eprecat|OpenFabrics|openib"
    r"|infiniband ports|requested component was not found|[Nn]ote "
)


def _statements(lines: tuple[PlainLine, ...]) -> Iterator[tuple[PlainLine, str, bool]]:
    """Yield lines with what they say, and whether a launcher's box says it, at once then.

    Lines that list settings are left out.
    """
    box: list[PlainLine] | None = None
    for line in lines:
        if grammar.LISTED.search(line.text):
            continue
        if _RULE.match(line.text):
            if box:
                yield from _boxed(box)
            box = None if box else []
        elif box is None:
            yield from _each([line])
        elif len(box) > _LONGEST_BOX:
            yield from _each(box)
            box = None
            yield line, line.text, False
        else:
            box.append(line)
    yield from _each(box or [])


def _each(lines: Iterable[PlainLine]) -> Iterator[tuple[PlainLine, str, bool]]:
    return ((line, line.text, False) for line in lines if line.text.strip())


_LONGEST_BOX = 40


def _boxed(box: Sequence[PlainLine]) -> Iterator[tuple[PlainLine, str, bool]]:
    """Yield the first paragraph of a box as one text, and its other lines."""
    rest = itertools.dropwhile(lambda line: not line.text.strip(), box)
    head = []
    for line in rest:
        if not line.text.strip():
            break
        head.append(line)
    text = " ".join(line.text.strip() for line in head)
    rows = sum(_ROW.match(line.text) is not None for line in head)
    failed = grammar.FATAL.search(text) or grammar.is_complaint(text)
    if 3 * rows >= 2 * len(head) or (_TITLE.fullmatch(text) and not failed):
        yield from _each(head)
    else:
        yield head[0], text, True
    yield from _each(rest)


_ROW = re.compile(r"\s*(?:\S{1,20}\s*[|=:]\s|[^:.]{1,40}\s*: +\S|[-=]+ .*[-=]+$|<.*> +- |-+$|\w+=)")
_TITLE = re.compile(r"(?:\S+ ){0,3}\S+:?|<.*|.*[^.:!]")
"""A row of a table (a name and its value, a title, a rule), and the words above one."""


def component_of(text: str) -> str:
    """Return who prints such a line, an empty text where nobody is known to."""
    return next((name for name, pattern in _COMPONENTS if pattern.search(text)), "")


def _endings(text: str, numbers: tuple[int, ...]) -> Iterator[str]:
    """Yield in words how a job ended."""
    log = plain(text, numbers)
    words = {"node-lost": "a node was lost", "hang": "it ran into a time limit or hung",
             "killed": "memory ran out and the kernel or Slurm killed it",
             "cancelled": "it was cancelled"}  # fmt: skip
    kind = ended_by(log.text)
    if kind:
        yield words[kind]
    for signal in signals(log.text):
        yield f"signal {signal}"


def ended_by(text: str) -> str:
    """Return the word for how a job ended, empty when neither Slurm nor the kernel says it."""
    return next((name for name, pattern in _ENDS if pattern.search(text)), "")


def signals(text: str) -> tuple[str, ...]:
    """Return the numbers of the signals that ended ranks, each once, in their order."""
    found: dict[str, None] = {}
    for match in grammar.SIGNALS.finditer(text):
        groups: Mapping[str, str | None] = match.groupdict()
        number = next((groups[key] for key in _NUMBERED if groups[key]), None)
        number = number or _SIGNAL_NAMES.get(groups["srun"] or "", "")
        if number:
            found[number] = None
    return tuple(found)
