"""A change to an environment: scalars set or unset, list variables extended, and how it is applied.

The noun for it is `command.EnvPatch`. Here is the same as a plain class: what runs before every
command of a user may not wait for msgspec, which takes longer to import than an image to mount.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

TYPE_CHECKING = False  # `typing` is as slow as they are
if TYPE_CHECKING:
    from typing import Protocol

    Lists = Mapping[str, tuple[str, ...]]

    class AnyChange(Protocol):
        """What a change has: `command.EnvPatch` says what it means."""

        @property
        def set(self) -> Mapping[str, str]:
            """Return variables and their new values."""

        @property
        def unset(self) -> tuple[str, ...]:
            """Return variables to unset."""

        @property
        def prepend(self) -> Lists:
            """Return list variables and what comes in front."""

        @property
        def append(self) -> Lists:
            """Return list variables and what comes behind."""


class Change:
    """A change as a value; nobody changes it."""

    __slots__ = ("append", "prepend", "set", "unset")

    def __init__(
        self,
        *,
        set: Mapping[str, str] | None = None,  # noqa: A002 - the word of EnvPatch
        unset: tuple[str, ...] = (),
        prepend: Lists | None = None,
        append: Lists | None = None,
    ) -> None:
        self.set = set or {}
        self.unset = unset
        self.prepend = prepend or {}
        self.append = append or {}

    def apply(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Return `environment` with this change; the argument stays as it is."""
        return applied(self, environment)

    def then(self, later: AnyChange) -> Change:
        """Return one change that does this one and then `later`."""
        return joined(self, later)


def applied(change: AnyChange, environment: Mapping[str, str]) -> dict[str, str]:
    """Return `environment` changed; the argument stays as it is."""
    result = {key: value for key, value in environment.items() if key not in change.unset}
    result.update(change.set)
    for key in {*change.prepend, *change.append}:
        entries = (*change.prepend.get(key, ()), result.get(key, ""), *change.append.get(key, ()))
        # An entry may hold several paths itself.
        words = dict.fromkeys(":".join(entries).split(":"))
        words.pop("", None)
        if words:
            result[key] = ":".join(words)
        else:
            result.pop(key, None)
    return result


def joined(first: AnyChange, later: AnyChange) -> Change:
    """Return one change that does `first` and then `later`.

    For every environment `e`: `applied(joined(a, b), e) == applied(b, applied(a, e))`.
    """
    replaced = {*later.set, *later.unset}
    prepend = {key: value for key, value in first.prepend.items() if key not in replaced}
    append = {key: value for key, value in first.append.items() if key not in replaced}
    for key, entries in later.prepend.items():
        prepend[key] = (*entries, *prepend.get(key, ()))
    for key, entries in later.append.items():
        append[key] = (*append.get(key, ()), *entries)
    kept = {key: value for key, value in first.set.items() if key not in replaced}
    return Change(
        set={**kept, **later.set},
        unset=tuple(dict.fromkeys((*first.unset, *later.unset))),
        prepend=prepend,
        append=append,
    )


def with_references(change: AnyChange, environment: Mapping[str, str]) -> Change:
    """Return a change with each `${@NAME@}` replaced from an environment; by nothing if unset."""

    def resolve(text: str) -> str:
        return resolved(text, lambda name: environment.get(name, ""))

    def resolve_all(lists: Lists) -> dict[str, tuple[str, ...]]:
        return {name: tuple(map(resolve, entries)) for name, entries in lists.items()}

    return Change(
        set={name: resolve(value) for name, value in change.set.items()},
        unset=change.unset,
        prepend=resolve_all(change.prepend),
        append=resolve_all(change.append),
    )


def resolved(
    value: str, variable: Callable[[str], str], *, text: Callable[[str], str] = str
) -> str:
    """Return a value with each `${@NAME@}` replaced by `variable(NAME)`, the rest by `text`."""
    done: list[str] = []
    while True:
        before, opening, rest = value.partition("${@")
        name, closing, after = rest.partition("@}")
        if not (opening and closing):
            return "".join((*done, text(value)))
        done += [text(before), variable(name)]
        value = after
