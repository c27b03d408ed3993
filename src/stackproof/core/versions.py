"""Spack specs as text to packages, version ranges and variants, as far as comparing needs it.

Source of the rules: "Spec syntax" of https://spack.readthedocs.io/en/latest/spec_syntax.html. Of a
version range, both ends are included, and an end stands for all versions that begin with it:
`@2.1:2.3` has 2.3.1. What cannot be compared (branches, names) makes a range unknown.
"""

from __future__ import annotations

import re

from msgspec import field

from stackproof.core.value import Value

Part = tuple[int, ...]

_NAME = re.compile(r"[A-Za-z0-9][\w-]*(?:\.[\w-]+)*")
_TOKEN = re.compile(
    r"(?P<dependency>[\^%](?:\[[^\]]*\]\s*)?(?:[a-z,]+=(?=[A-Za-z]))?)"
    r"|@(?P<versions>[^\s@+~%^]+)"
    r"|(?P<switch>\+\+?|~~?)(?P<flag>\w[\w-]*)"
    r"|(?P<key>\w[\w-]*):?==?(?:\"(?P<double>[^\"]*)\"|'(?P<single>[^']*)'"
    r"|(?P<value>[\w*.,:=/+~\\-]+))"
    r"|(?P<name>[A-Za-z0-9][\w.-]*)"
)


class Range(Value, kw_only=False):
    """Versions from `low` to `high`, both included; None is no limit on that side.

    With `exact` it is the one version `low`, which `high` repeats: 2.3 and not 2.3.1.
    """

    low: Part | None
    high: Part | None
    exact: bool = False

    def within(self, other: Range) -> bool:
        """Return True where every version of this range is in another one."""
        if other.exact:
            return self == other
        if other.low is not None and (self.low is None or self.low < other.low):
            return False
        if other.high is None:
            return True
        if self.high is None:
            return False
        # As a range `3.1` has all that begin with it, so it is not within `:3.1.4`.
        if self.exact or len(self.high) >= len(other.high):
            return self.high[: len(other.high)] <= other.high
        return self.high < other.high[: len(self.high)]

    def meets(self, other: Range) -> bool:
        """Return True where a version may be in both ranges."""
        if self.exact:
            return self.within(other)
        if other.exact:
            return other.within(self)
        return _reaches(self.low, other.high) and _reaches(other.low, self.high)


def _reaches(low: Part | None, high: Part | None) -> bool:
    return low is None or high is None or low[: len(high)] <= high


class Versions(Value, kw_only=False):
    """A union of ranges; `known` is False when a part of it is a name such as `main`."""

    ranges: tuple[Range, ...] = (Range(None, None),)
    known: bool = True

    def within(self, other: Versions) -> bool:
        """Return True where every version that is meant is one of the other's."""
        return (
            self.known and other.known
            and all(any(mine.within(theirs) for theirs in other.ranges) for mine in self.ranges)
        )  # fmt: skip

    def meets(self, other: Versions) -> bool:
        """Return True where some version may be meant by both."""
        return (
            not (self.known and other.known)
            or any(mine.meets(theirs) for mine in self.ranges for theirs in other.ranges)
        )  # fmt: skip


ANY = Versions()
"""Every version."""


def versions(text: str) -> Versions:
    """Return the ranges of a version constraint such as `2.1:2.3,2.5` or `=2.4.0`, without `@`."""
    ranges = []
    known = True
    for word in text.split(","):
        # `git.REF=2.3` is a commit that counts as a version.
        plain = word.rpartition("=")[2]
        low, mark, high = plain.partition(":")
        first, last = _numbers(low), _numbers(high if mark else low)
        known = (
            known
            and (first is not None or not low)
            and (last is not None or not (high or not mark))
        )
        ranges.append(Range(first, last, exact="=" in word and not mark))
    return Versions(tuple(ranges), known)


def _numbers(text: str) -> Part | None:
    parts = re.split(r"[.\-_]", text)
    return tuple(int(part) for part in parts) if all(part.isdecimal() for part in parts) else None


class PackageSpec(Value, kw_only=False):
    """What a spec says of one package.

    `variants` maps a variant to its values; a switch that is on has `true`, one that is off
    `false`. Spack's lists of values say what must be there, so more values may be there besides.
    """

    name: str
    versions: Versions = ANY
    variants: dict[str, frozenset[str]] = field(default_factory=dict)


def parse_spec(text: str, name: str = "") -> tuple[PackageSpec, ...]:
    """Return the package of a spec and its dependencies, `^` and `%` alike.

    `name` is the package of a spec that has none (`@2.3 +cuda` below `packages:`). Nothing that
    Spack would refuse is refused here: what is not understood is left out.
    """
    found: list[PackageSpec] = [PackageSpec(name)]
    waiting = not name
    for token in _TOKEN.finditer(text):
        groups = token.groupdict()
        if groups["dependency"] is not None:
            found.append(PackageSpec(""))
            waiting = True
        elif groups["name"] is not None and waiting:
            match = _NAME.match(groups["name"])
            found[-1] = PackageSpec(match[0].rpartition(".")[2] if match else "")
            waiting = False
        elif groups["versions"] is not None:
            last = found[-1]
            found[-1] = PackageSpec(last.name, versions(groups["versions"]), last.variants)
        elif groups["switch"] is not None:
            value = "true" if groups["switch"].startswith("+") else "false"
            found[-1].variants[groups["flag"]] = frozenset((value,))
        elif groups["key"] is not None:
            given = groups["double"] or groups["single"] or groups["value"] or ""
            values = frozenset(given.split(","))
            before = found[-1].variants.get(groups["key"], frozenset())
            found[-1].variants[groups["key"]] = before | values
    return tuple(spec for spec in found if spec.name)
