"""What an image says of itself, read from `meta/env.json`; `metadata` explains the format.

It is read before every command of a user, so there is no `Value` here, and what only a failure
needs is imported then: that would take longer than to mount. `metadata.image_of` makes the noun.
"""

from __future__ import annotations

import json

from stackproof.core.environment import Change

TYPE_CHECKING = False  # `typing` is slow to import
if TYPE_CHECKING:
    from typing import Any

    from stackproof.core.errors import StackproofError

META = "meta/env.json"


class DescribedView:
    """A view: the change that it makes; `root` is a path inside of the mounted image."""

    __slots__ = ("description", "env", "features", "name", "root")

    def __init__(
        self, name: str, root: str, description: str, env: Change, features: tuple[str, ...]
    ) -> None:
        self.name = name
        self.root = root
        self.description = description
        self.env = env
        self.features = features


class Described:
    """What an image says of itself: the fields of `image.Image`; `size` is in bytes.

    `mpi` has the keys of `image.MpiFacts`, `benchmarks` paths by name; `transports` are the views
    that force the transport of their name.
    """

    __slots__ = (
        "architecture", "benchmarks", "default_view", "description", "lock_digest", "mount", "mpi",
        "name", "path", "redistribute", "size", "stack_id", "transports", "views",
    )  # fmt: skip

    def __init__(self, path: str, size: int) -> None:
        self.path = path
        self.size = size
        self.name = self.mount = self.description = self.stack_id = self.lock_digest = ""
        self.architecture = ""
        self.default_view: str | None = None
        self.views: dict[str, DescribedView] = {}
        self.transports: tuple[str, ...] = ()
        self.mpi: dict[str, str] | None = None
        self.benchmarks: dict[str, str] = {}
        self.redistribute = True


def silent(path: str, size: int) -> Described:
    """Return an image that says nothing of itself: no views, no mount point, the file's name."""
    image = Described(path, size)
    image.name = path.rpartition("/")[2]
    return image


def parse(text: str | bytes, *, path: str, size: int) -> Described:
    """Return the facts in the text of a `meta/env.json`; raises like `metadata.parse_env_json`."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        why = str(error) if isinstance(error, json.JSONDecodeError) else "not text in UTF-8"
        raise _bad(path, f"it is not JSON: {why}") from None
    reader = _Reader(path)
    if data is None:
        raise _bad(path, "it is empty")
    whole = reader.mapping(data, "it")
    ours = reader.mapping(whole.get("stackproof"), "`stackproof`")
    views = reader.mapping(whole.get("views"), "`views`")
    programs = reader.mapping(ours.get("benchmarks"), "`stackproof.bench.programs`")
    default = whole.get("default-view")
    found = Described(path, size)
    found.name = reader.text(whole.get("name") or "unnamed", "`name`")
    found.mount = reader.text(whole.get("mount"), "`mount`")
    found.description = reader.text(whole.get("description") or "", "`description`", empty=True)
    found.default_view = None if default is None else reader.text(default, "`default-view`")
    found.views = {name: reader.view(name, view) for name, view in views.items()}
    found.transports = reader.transports(ours.get("transports"), found.views)
    found.mpi = reader.mpi(whole.get("mpi"))
    found.benchmarks = {
        name: reader.text(program, "a benchmark") for name, program in programs.items()
    }
    found.stack_id = reader.text(ours.get("stack", ""), "`stackproof.build.stack`", empty=True)
    found.lock_digest = reader.text(ours.get("lock", ""), "`stackproof.lock`", empty=True)
    found.architecture = reader.text(
        ours.get("architecture", ""), "`stackproof.architecture`", empty=True
    )
    found.redistribute = ours.get("redistribute", "yes") == "yes"
    return found


class _Reader:
    """Reads JSON values of unknown shape; every fault becomes one kind of error."""

    def __init__(self, path: str) -> None:
        self._path = path

    def mapping(self, value: Any, what: str) -> dict[str, Any]:
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise _bad(self._path, f"{what} is not an object")
        for key in value:
            self.text(key, f"a key of {what}")
        return value

    def text(self, value: Any, what: str, *, empty: bool = False) -> str:
        if not isinstance(value, str) or not (value or empty):
            raise _bad(self._path, f"{what} is missing or not text")
        if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
            raise _bad(self._path, f"{what} holds a character that no path or variable can have")
        return value

    def view(self, name: str, value: Any) -> DescribedView:
        data = self.mapping(value, f"view `{name}`")
        environment = self.mapping(data.get("env"), f"`env` of view `{name}`")
        values = self.mapping(environment.get("values"), f"`values` of view `{name}`")
        root = self.text(data.get("root") or "", f"`root` of view `{name}`", empty=True)
        what = f"`description` of view `{name}`"
        description = self.text(data.get("description") or "", what, empty=True)
        change = self.environment(values, f"view `{name}`")
        features = data.get("features") or []
        if not isinstance(features, list):
            raise _bad(self._path, f"`features` of view `{name}` is not a list")
        words = tuple(self.text(word, f"a feature of view `{name}`") for word in features)
        return DescribedView(name, root, description, change, words)

    def environment(self, values: dict[str, Any], what: str) -> Change:
        lists = self.mapping(values.get("list"), f"`list` of {what}")
        scalars = self.mapping(values.get("scalar"), f"`scalar` of {what}")
        told: dict[str, str] = {}
        unset: list[str] = []
        before: dict[str, tuple[str, ...]] = {}
        after: dict[str, tuple[str, ...]] = {}
        for name, operations in lists.items():
            self.variable(name, what)
            if name in scalars:  # of a variable that is both, the scalar counts
                continue
            first, fixed, last = _folded(self.operations(operations, f"`{name}` of {what}"))
            if fixed and any(fixed):
                told[name] = ":".join(fixed)
            elif fixed is not None:
                unset.append(name)
            before |= {name: first} if first else {}
            after |= {name: last} if last else {}
        for name, value in scalars.items():
            self.variable(name, what)
            if value is None:
                unset.append(name)
            else:
                told[name] = self.text(value, f"`{name}` of {what}", empty=True)
        return Change(set=told, unset=tuple(unset), prepend=before, append=after)

    def transports(self, value: Any, views: dict[str, DescribedView]) -> tuple[str, ...]:
        if value is None:
            return ()
        if not isinstance(value, list) or not all(
            isinstance(name, str) and name in views for name in value
        ):
            raise _bad(self._path, "`stackproof.mpi.transports` is not a list of views")
        return tuple(value)

    def variable(self, name: str, what: str) -> None:
        if "=" in name:
            raise _bad(self._path, f"`{name}` in {what} is not the name of a variable")

    def operations(self, value: Any, what: str) -> list[tuple[str, tuple[str, ...]]]:
        if not isinstance(value, list):
            raise _bad(self._path, f"{what} is not a list of operations")
        result = []
        for item in value:
            operation = self.mapping(item, f"an operation of {what}")
            entries = operation.get("value")
            if not isinstance(entries, list):
                raise _bad(self._path, f"an operation of {what} has no list `value`")
            words = tuple(self.text(entry, f"an entry of {what}", empty=True) for entry in entries)
            result.append((str(operation.get("op")), words))
        return result

    def mpi(self, value: Any) -> dict[str, str] | None:
        if value is None:
            return None
        data = self.mapping(value, "`mpi`")
        keys = ("family", "version", "prefix", "launcher")
        return {key: self.text(data.get(key), f"`mpi.{key}`") for key in keys}


def _folded(
    operations: list[tuple[str, tuple[str, ...]]],
) -> tuple[tuple[str, ...], tuple[str, ...] | None, tuple[str, ...]]:
    """Return what operations put before a list, make it, and put behind it.

    None in the middle is what the environment had.
    """
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    fixed: tuple[str, ...] | None = None
    for operation, entries in operations:
        match operation:
            case "prepend":
                before = (*entries, *before)
            case "append":
                after = (*after, *entries)
            case "set":
                before, after, fixed = (), (), entries
            case _:
                before, after, fixed = (), (), ()
    return before, fixed, after


def _bad(path: str, why: str) -> StackproofError:
    from stackproof.core.errors import Location, Reason, fail  # noqa: PLC0415 - see above

    return fail(
        Reason.IMAGE_NO_META,
        f"the `{META}` of image `{path}` cannot be used: {why}",
        where=Location(file=path),
        hint="make images with `stackproof build`",
    )
