"""The facts of a machine that cannot be reached, for what is asked about an injection there."""

from __future__ import annotations

from stackproof.core.value import replace
from stackproof.inject.effects import known_releases, named
from stackproof.inject.effects.named import NamedPath
from stackproof.inject.findings import launcher as findings_launcher
from stackproof.inject.judge import Question
from stackproof.inject.manifest import ManifestView
from stackproof.inject.target import Target, TargetView, target_of_site
from stackproof.linking.loader import FileView, Machine


def load_target(name: str) -> Target:
    """Return what is known of a machine: a shipped site, a site file, or a manifest (`.json`).

    Raises `StackproofError` like reading those does.
    """
    if not name.endswith(".json"):
        from stackproof.site.effects import probe  # noqa: PLC0415 - slow to import, rarely needed

        return target_of_site(probe.load_site(name), known_releases.load_releases())
    manifest = named.load_place(name).manifest
    if manifest is None:
        raise ValueError("a JSON file is read as a manifest")
    present = frozenset(word for entries in manifest.caches.values() for word in entries)
    return Target(
        name=name,
        architecture=manifest.machine.architecture,
        level=manifest.machine.level,
        present=present,
        there=ManifestView(manifest),
    )


def asked_of(name: str | None, isa: str | None, question: Question) -> Question:
    """Return the question for a machine; `isa` wins over what is known of its processors."""
    if name is None:
        return question
    target = load_target(name)
    here = question.machine
    level = isa or target.level or here.level
    if isa:
        target = replace(target, level=isa)
    # One launcher with one way needs no word; of several only the user knows which.
    starts = [name for name in target.starts if name in findings_launcher.OFFERS]
    launcher = question.launcher or (starts[0] if len(starts) == 1 else "")
    machine = Machine(architecture=target.architecture or here.architecture, level=level)
    return replace(question, target=target, machine=machine, launcher=launcher)


def seen_there(view: FileView, place: NamedPath, root: str, question: Question) -> FileView:
    """Return the view with the target's own system, where a manifest has it.

    A program in a container has its own system whatever the machine is.
    """
    target = question.target
    if target is None or target.there is None or place.image or root != "/":
        return view
    return TargetView(view, target.there)


def asked_in(place: NamedPath, root: str, question: Question) -> Question:
    """Return the question for a place: a container's system is its own, not the target's."""
    if question.target is None or not (place.image or root != "/"):
        return question
    return replace(question, target=replace(question.target, contained=True))
