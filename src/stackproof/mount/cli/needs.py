"""What an image needs of a machine, and what a site lacks of that, for `inspect --needs`."""

from __future__ import annotations

from stackproof.core import harmless, noun
from stackproof.core.errors import ExitCode
from stackproof.inject import needs as inject_needs
from stackproof.inject.effects import known_releases, named
from stackproof.inject.needs import Lacks, TreeNeeds
from stackproof.inject.target import target_of_site
from stackproof.linking.effects.view import RootView
from stackproof.site.effects import probe


def show(image: str, site: str | None, *, as_json: bool) -> int:
    """Print it and return the exit code: 8 where the site lacks something, 9 if it is not known."""
    place = named.load_place(image)
    view = RootView("/", dict(place.binds))
    found = inject_needs.tree_needs(view, view.elf_files(place.path))
    lacking = Lacks()
    if site is not None:
        releases = known_releases.load_releases()
        target = target_of_site(probe.load_site(site), releases)
        lacking = inject_needs.lacks(found, target, releases)
    if as_json:
        data = {**noun.to_data(found), **(noun.to_data(lacking) if site is not None else {})}
        print(noun.to_json(data), end="")
    else:
        print("\n".join(map(harmless.line, _lines(found, lacking, site))))
    if lacking.lacks:
        return int(ExitCode.WORSE)
    return int(ExitCode.UNKNOWN if lacking.unknown else ExitCode.DONE)


def _lines(found: TreeNeeds, lacking: Lacks, site: str | None) -> list[str]:
    level = f", processors of {found.level}" if found.level else ""
    lines = [f"needs of a machine: {found.machine or 'nothing: it has no program'}{level}"]
    lines += [f"  {node}  {found.asks[kind]}" for kind, node in found.nodes.items()]
    lines += [f"  {soname}  {path}" for soname, path in found.libraries.items()]
    if site is None:
        return lines
    lines += [f"lacks: {text}" for text in lacking.lacks]
    lines += [f"not known: {text}" for text in lacking.unknown]
    if not lacking.lacks and not lacking.unknown:
        lines.append(f"{site} has all of it")
    return lines
