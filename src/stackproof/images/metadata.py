"""The image noun to `meta/env.json` and back, and the files of a view.

`meta/env.json` is the contract of the uenv tools (github.com/eth-cscs/uenv2, src/uenv/meta.cpp;
written by github.com/eth-cscs/stackinator, stackinator/etc/envvars.py). They demand `mount`, read
`name`, `description`, `default-view` and `views`, and pass over every other key, so that ours
(`mpi`, `stackproof`) disturb nobody.

An environment is a map of scalars (null unsets) and a map of colon-separated lists, each with
operations that are done in order: `set`, `prepend`, `append`, and `unset`, which is also what any
other word means (src/util/envvars.cpp). Three traps in it:

- `prepend` puts its whole list in front, so that the later of two ends up first.
- A list that is `set` to nothing is made empty by the uenv tools, though Stackinator writes it
  where a recipe asks to unset. Here it is unset.
- `${@NAME@}` in a value is the variable's value when the view is used. `stackproof.activate`
  replaces it; `EnvPatch` carries it as it is.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from typing import Any

from stackproof.command import EnvPatch
from stackproof.errors import Location, Reason, StackproofError, fail
from stackproof.image import BenchmarkProgram, Image, MpiFacts, View

META = "meta/env.json"


def render_env_json(image: Image) -> str:
    """Return the text of `meta/env.json`: the same text for the same image."""
    data: dict[str, Any] = {
        "name": image.name,
        "description": image.description,
        "mount": image.mount,
        "default-view": image.default_view,
        "views": {name: _view_data(view) for name, view in sorted(image.views.items())},
    }
    if image.mpi:
        data["mpi"] = {
            "family": image.mpi.family,
            "version": image.mpi.version,
            "prefix": image.mpi.prefix,
            "launcher": image.mpi.launcher,
        }
    data["stackproof"] = {
        "stack": image.stack_id,
        "lock": image.lock_digest,
        "benchmarks": {program.name: program.path for program in image.benchmarks},
    }
    return _json(data)


def render_view_env_json(view: View) -> str:
    """Return the text of `env/<view>/env.json`."""
    return _json(_environment_data(view.env))


def render_activate_sh(view: View) -> str:
    """Return the text of `env/<view>/activate.sh`, to be read by a POSIX shell with `.`."""
    env = view.env
    lines = [f"# View {shlex.quote(view.name)}: read this file with `.` in a POSIX shell."]
    lines += [f"unset {name}" for name in sorted(env.unset) if _fits_shell(name)]
    lines += [
        f"export {name}={_shell_text(value)}"
        for name, value in sorted(env.set.items())
        if _fits_shell(name)
    ]
    lines += [
        f"export {name}={_shell_list(name, env)}"
        for name in sorted({*env.prepend, *env.append})
        if _fits_shell(name)
    ]
    return "\n".join(lines) + "\n"


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


def parse_env_json(text: str | bytes, *, path: str, size: int) -> Image:
    """Return the image that the text of a `meta/env.json` describes.

    `path` and `size` (bytes) are those of the image file. Unknown keys are passed over. Raises
    `StackproofError` (IMAGE_NO_META) when the text is not such metadata.
    """
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
    programs = reader.mapping(ours.get("benchmarks"), "`stackproof.benchmarks`")
    default = whole.get("default-view")
    return Image(
        path=path,
        name=reader.text(whole.get("name") or "unnamed", "`name`"),
        mount=reader.text(whole.get("mount"), "`mount`"),
        size=size,
        description=reader.text(whole.get("description") or "", "`description`", empty=True),
        default_view=None if default is None else reader.text(default, "`default-view`"),
        views={name: reader.view(name, view) for name, view in views.items()},
        mpi=reader.mpi(whole.get("mpi")),
        benchmarks=tuple(
            BenchmarkProgram(name=name, path=reader.text(program, "a benchmark"))
            for name, program in programs.items()
        ),
        stack_id=reader.text(ours.get("stack", ""), "`stackproof.stack`", empty=True),
        lock_digest=reader.text(ours.get("lock", ""), "`stackproof.lock`", empty=True),
    )


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

    def view(self, name: str, value: Any) -> View:
        data = self.mapping(value, f"view `{name}`")
        environment = self.mapping(data.get("env"), f"`env` of view `{name}`")
        values = self.mapping(environment.get("values"), f"`values` of view `{name}`")
        return View(
            name=name,
            root=self.text(data.get("root") or "", f"`root` of view `{name}`", empty=True),
            description=self.text(
                data.get("description") or "", f"`description` of view `{name}`", empty=True
            ),
            env=self.environment(values, f"view `{name}`"),
        )

    def environment(self, values: dict[str, Any], what: str) -> EnvPatch:
        lists = self.mapping(values.get("list"), f"`list` of {what}")
        scalars = self.mapping(values.get("scalar"), f"`scalar` of {what}")
        changes = _Changes()
        for name, operations in lists.items():
            self.variable(name, what)
            if name not in scalars:  # of a variable that is both, the scalar counts
                changes.add(name, self.operations(operations, f"`{name}` of {what}"))
        for name, value in scalars.items():
            self.variable(name, what)
            if value is None:
                changes.unset[name] = None
            else:
                changes.set[name] = self.text(value, f"`{name}` of {what}", empty=True)
        return changes.patch()

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

    def mpi(self, value: Any) -> MpiFacts | None:
        if value is None:
            return None
        data = self.mapping(value, "`mpi`")
        family, version, prefix, launcher = (
            self.text(data.get(key), f"`mpi.{key}`")
            for key in ("family", "version", "prefix", "launcher")
        )
        return MpiFacts(family=family, version=version, prefix=prefix, launcher=launcher)


class _Changes:
    """Collects what becomes one `EnvPatch`."""

    def __init__(self) -> None:
        self.set: dict[str, str] = {}
        self.unset: dict[str, None] = {}
        self.prepend: dict[str, tuple[str, ...]] = {}
        self.append: dict[str, tuple[str, ...]] = {}

    def add(self, name: str, operations: list[tuple[str, tuple[str, ...]]]) -> None:
        """Fold the operations on one list variable."""
        before: tuple[str, ...] = ()
        after: tuple[str, ...] = ()
        fixed: tuple[str, ...] | None = None  # None: what the environment had
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
        if fixed is not None:
            if any(fixed):
                self.set[name] = ":".join(fixed)
            else:
                self.unset[name] = None
        if before:
            self.prepend[name] = before
        if after:
            self.append[name] = after

    def patch(self) -> EnvPatch:
        return EnvPatch(
            set=self.set, unset=tuple(self.unset), prepend=self.prepend, append=self.append
        )


def _view_data(view: View) -> dict[str, Any]:
    return {
        "root": view.root,
        "activate": f"{view.root}/activate.sh",
        "description": view.description,
        "type": "augment",
        "env": _environment_data(view.env),
    }


def _environment_data(env: EnvPatch) -> dict[str, Any]:
    extended = {*env.prepend, *env.append}
    scalars: dict[str, str | None] = {
        name: None for name in env.unset if name not in extended and name not in env.set
    }
    scalars |= {name: value for name, value in env.set.items() if name not in extended}
    lists = {name: _operations(env, name) for name in extended}
    return {
        "version": 1,
        "type": "augment",
        "values": {"list": dict(sorted(lists.items())), "scalar": dict(sorted(scalars.items()))},
    }


def _operations(env: EnvPatch, name: str) -> list[Mapping[str, Any]]:
    operations: list[Mapping[str, Any]] = []
    fixed = env.set.get(name, "").split(":")
    if any(fixed):
        operations.append({"op": "set", "value": fixed})
    elif name in env.set or name in env.unset:
        operations.append({"op": "unset", "value": []})
    if name in env.prepend:
        operations.append({"op": "prepend", "value": list(env.prepend[name])})
    if name in env.append:
        operations.append({"op": "append", "value": list(env.append[name])})
    return operations


def _fits_shell(name: str) -> bool:
    return name.isascii() and name.isidentifier()


def _shell_list(name: str, env: EnvPatch) -> str:
    """Return a list variable extended, without a colon too many: it means the current folder."""
    before = ":".join(_shell_text(entry) for entry in env.prepend.get(name, ()) if entry)
    after = ":".join(_shell_text(entry) for entry in env.append.get(name, ()) if entry)
    if before:
        return f'{before}"${{{name}:+:${name}}}"' + (f":{after}" if after else "")
    return f'"${{{name}:+${name}:}}"{after}' if after else f'"${{{name}-}}"'


def _shell_text(value: str) -> str:
    """Return a value as a shell word, with references to variables that the shell resolves."""
    return (
        resolved(
            value,
            lambda name: f'"${{{name}-}}"' if _fits_shell(name) else "",
            text=lambda piece: shlex.quote(piece) if piece else "",
        )
        or "''"
    )


def _json(data: Mapping[str, Any]) -> str:
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


def _bad(path: str, why: str) -> StackproofError:
    return fail(
        Reason.IMAGE_NO_META,
        f"the `{META}` of image `{path}` cannot be used: {why}",
        where=Location(file=path),
        hint="make images with `stackproof build`",
    )
