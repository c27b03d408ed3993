"""Digests of a results folder, held against its files: what is missing, edited or put in.

`bench` writes `digests-N.sha256` as it goes (N is the allocation), in the form of `sha256sum`: a
line for `bench.json`, for `spec.json` and for each launch, before the file itself. Whoever may
write the folder can make the lines again: only a signature or a commit of them tells that
(docs/explanation/results-as-evidence.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum

from stackproof.core.value import Value


class DoubtKind(StrEnum):
    """In what way results are not what they say."""

    MISSING = "missing"
    EDITED = "edited"
    DOUBLED = "doubled"
    SWAPPED = "swapped"
    ADDED = "added"
    SPECIFICATION = "specification-changed"
    HOST = "other-host"
    KERNEL = "other-kernel"
    TIME = "other-time"
    LIBRARY = "other-library"
    ENVIRONMENT = "other-environment"


class Doubt(Value):
    """A reason not to trust results: what is not as it was measured."""

    kind: DoubtKind
    text: str


class Integrity(Value):
    """Whether results are what they say: with a doubt there is no verdict.

    `digests` says that digests were written with the launches.
    """

    sentence: str = ""
    doubts: tuple[Doubt, ...] = ()
    digests: bool = False

    @property
    def trusted(self) -> bool:
        """Return whether nothing speaks against these results."""
        return not self.doubts


class DigestLine(Value, kw_only=False):
    """A line of a list of digests: the file's path below the results folder."""

    path: str
    sha256: str


def judge_digests(
    lists: Mapping[str, Sequence[DigestLine] | None],
    launches: Mapping[str, str],
    specifications: Mapping[str, str],
    aside: Sequence[str],
) -> Integrity:
    """Return whether files are those that lists of digests name; None is one that is no file.

    `launches` and `specifications` map the path of each file to its digest, empty where it cannot
    be read; `aside` are the digests of launches that were set aside.
    """
    recorded: dict[str, list[str]] = {}
    for line in (line for lines in lists.values() for line in lines or ()):
        recorded.setdefault(line.path, []).append(line.sha256)
    if not lists:
        return Integrity(
            sentence="no digests were written with these launches, so that nobody can tell whether "
            "they are all that were made, and as they were made"
        )
    begun = {lines[-1].path for lines in lists.values() if lines}
    doubts = [*_specification_doubts(recorded, specifications)]
    doubts += [
        Doubt(kind=DoubtKind.EDITED, text=f"`{name}` is no list of digests, but leads elsewhere")
        for name, lines in lists.items()
        if lines is None
    ]
    if not recorded:
        text = f"{', '.join(lists)}: no line can be read, and launches are there"
        return Integrity(doubts=(*doubts, Doubt(kind=DoubtKind.EDITED, text=text)), digests=True)
    for path in recorded.keys() - specifications.keys():
        now = launches.get(path)
        doubts += _launch_doubts(path, recorded[path], now, aside, begun=path in begun)
    doubts += [
        Doubt(kind=DoubtKind.ADDED, text=f"`{path}` has no digest: it was put in")
        for path in launches
        if path not in recorded
    ]
    doubts.sort(key=lambda doubt: doubt.text)
    count = sum(path in recorded for path in launches)
    holds = "do not hold" if doubts else "hold"
    sentence = (
        f"the digests of {count} launches {holds}; anyone who may write to the folder could have "
        "made them again"
    )
    return Integrity(sentence=sentence, doubts=tuple(doubts), digests=True)


def _specification_doubts(
    recorded: Mapping[str, list[str]], specifications: Mapping[str, str]
) -> Iterator[Doubt]:
    """Yield the specifications that are none of those that were written."""
    for path, sha256 in specifications.items():
        if path in recorded and sha256 not in recorded[path]:
            text = f"{path} was edited after launches were made"
            yield Doubt(kind=DoubtKind.SPECIFICATION, text=text)


def _launch_doubts(
    path: str, digests: Sequence[str], now: str | None, aside: Sequence[str], *, begun: bool
) -> Iterator[Doubt]:
    """Yield what is wrong with the launch of a path, and with those that it was made again for.

    A machine may have stopped before it wrote the file of the last line (`begun`).
    """
    *earlier, last = digests
    if now is None and last in aside:
        text = f"`{path}` was set aside, and was not made again"
        yield Doubt(kind=DoubtKind.MISSING, text=text)
    elif now is None and not begun:
        yield Doubt(kind=DoubtKind.MISSING, text=f"`{path}` is missing")
    elif now is not None and now != last:
        text = f"`{path}` was edited: it is not what was written"
        yield Doubt(kind=DoubtKind.EDITED, text=text)
    if any(sha256 not in aside for sha256 in earlier):
        text = f"`{path}` was made again, and the first one is not among those set aside"
        yield Doubt(kind=DoubtKind.MISSING, text=text)
