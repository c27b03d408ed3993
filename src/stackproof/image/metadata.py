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
- `${@NAME@}` in a value is the variable's value when the view is used. `stackproof.image.activate`
  replaces it; `EnvPatch` carries it as it is.

`image/described.py` reads it.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

import msgspec

from stackproof.core.command import EnvPatch
from stackproof.core.environment import resolved
from stackproof.image import described
from stackproof.image.described import META, Described
from stackproof.image.model import BenchmarkProgram, Image, MpiFacts, View

__all__ = [
    "META", "image_of", "parse_env_json", "render_activate_sh", "render_env_json",
    "render_view_env_json", "resolved",
]  # fmt: skip


def render_env_json(image: Image) -> str:
    """Return the text of `meta/env.json`: the same text for the same image."""
    data: dict[str, Any] = {
        "name": image.name,
        "description": image.description,
        "mount": image.mount,
        "default-view": image.default_view,
        "views": {
            name: {
                "root": view.root,
                "activate": f"{view.root}/activate.sh",
                "description": view.description,
                "type": "augment",
                "env": _environment_data(view.env),
                **({"features": list(view.features)} if view.features else {}),
            }
            for name, view in sorted(image.views.items())
        },
    }
    if image.mpi:
        data["mpi"] = msgspec.to_builtins(image.mpi)
    data["stackproof"] = {
        "stack": image.stack_id,
        "lock": image.lock_digest,
        "benchmarks": {program.name: program.path for program in image.benchmarks},
    }
    if image.architecture:
        data["stackproof"]["architecture"] = image.architecture
    if image.transports:
        data["stackproof"]["transports"] = list(image.transports)
    if not image.redistribute:
        data["stackproof"]["redistribute"] = "no"
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


def parse_env_json(text: str | bytes, *, path: str, size: int) -> Image:
    """Return the image that the text of a `meta/env.json` describes.

    `path` and `size` (bytes) are those of the image file. Unknown keys are passed over. Raises
    `StackproofError` (IMAGE_NO_META) when the text is not such metadata.
    """
    return image_of(described.parse(text, path=path, size=size))


def image_of(found: Described) -> Image:
    """Return as a noun what an image says of itself."""
    return Image(
        path=found.path,
        name=found.name,
        mount=found.mount,
        size=found.size,
        description=found.description,
        default_view=found.default_view,
        views={
            name: View(
                name=view.name,
                root=view.root,
                description=view.description,
                env=EnvPatch.of(view.env),
                features=view.features,
            )
            for name, view in found.views.items()
        },
        transports=found.transports,
        mpi=None if found.mpi is None else MpiFacts(**found.mpi),
        benchmarks=tuple(
            BenchmarkProgram(name=name, path=path) for name, path in found.benchmarks.items()
        ),
        stack_id=found.stack_id,
        lock_digest=found.lock_digest,
        redistribute=found.redistribute,
        architecture=found.architecture,
    )


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
