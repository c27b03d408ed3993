"""Links of a foreign tree, judged before anything is read from it: names go in, faults come out.

Paths are relative to the root of the tree, without `.`, `..` or a slash at either end. What a link
means depends on the kind of tree, which `LinkRules` says. A link that leads to another place of the
machine may stand: the programs of the tree follow it when they run. Nothing here follows it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from stackproof.core import limits
from stackproof.core.value import Value


class LinkRules(Value):
    """The meaning of links: `root` is the path below which absolute ones mean the tree itself.

    It is `/` in a root file system, the mount point of an image or pack, and empty where no
    absolute link is inside. With `stays`, `..` at the root is the root, as the kernel has it for
    `/`; without, a relative link that climbs out is a fault.
    """

    root: str = ""
    stays: bool = False

    def inside(self, target: str) -> str | None:
        """Return the part of an absolute target below the root, None for one that is outside."""
        if self.root == "/":
            return target
        base = self.root.rstrip("/")
        if base and (target == base or target.startswith(f"{base}/")):
            return target[len(base) :]
        return None


ROOT_FILE_SYSTEM = LinkRules(root="/", stays=True)
"""A container, a SIF file, an RPM: absolute links mean the tree's own root."""

PLAIN = LinkRules()
"""A tree without a place of its own: every absolute link leads elsewhere."""


class LinkFault(Value):
    """A relative link that climbs out of its tree."""

    path: str
    target: str


def faults(
    links: Mapping[str, str], folders: Collection[str], rules: LinkRules
) -> tuple[LinkFault, ...]:
    """Return the links that climb out of the tree; loops and dangling links do no harm.

    Each is resolved exactly, through the other links. What is not there is taken by its words.
    Links that lead through each other without end are faults as well.
    """
    if rules.stays:
        return ()
    steps = limits.LINK_STEPS.count
    bad = []
    for path in sorted(links):
        used = _climb(path, links, folders, rules)
        steps -= abs(used)
        if used < 0 or steps < 0:
            bad.append(LinkFault(path=path, target=links[path]))
    return tuple(bad)


def _climb(path: str, links: Mapping[str, str], folders: Collection[str], rules: LinkRules) -> int:
    """Return the number of steps to a link's end, negative for a link that climbs out."""
    place = path.split("/")[:-1]
    rest: list[str] = []
    target: str | None = links[path]
    left, steps = limits.LINKS.count, 1
    while True:
        if target is not None:
            inner = rules.inside(target) if target.startswith("/") else target
            left -= 1
            if inner is None or left < 0:  # elsewhere; a loop, or what the kernel takes for one
                return steps
            if inner is not target or target.startswith("/"):
                place = []
            rest += inner.split("/")[::-1]
        if not rest:
            return steps
        steps += 1
        name, target = rest.pop(), None
        if name == "..":
            if not place:
                return -steps
            place.pop()
        elif name not in {"", "."}:
            here = "/".join((*place, name))
            target = None if here in folders else links.get(here)
            if target is None:
                place.append(name)
