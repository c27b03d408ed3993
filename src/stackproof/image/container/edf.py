"""What a job's container is to the text of an Environment Definition File (EDF).

`srun --environment=FILE.toml` reads it (docs.cscs.ch, "Container Engine", EDF reference, and for
`devices` "Sarus Suite", user guide). Values here are as the file has them: `${NAME}` is a variable
of the job, and `literal` writes what only looks like one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping

from msgspec import field

from stackproof.core.command import EnvPatch
from stackproof.core.errors import Problem, Reason, StackproofError
from stackproof.core.value import Value, replace

CXI_HOOK = "com.hooks.cxi.enabled"
"""The annotation for the hook that puts the site's libfabric into a container."""
DEVICES: Mapping[str, str] = {"cuda": "nvidia.com/gpu=all", "rocm": "amd.com/gpu=all"}
"""Each kind of GPU with the device of the Container Device Interface (CDI) that is all of them."""
GPU_VARIABLES: Mapping[str, Mapping[str, str]] = {"cuda": {"NVIDIA_VISIBLE_DEVICES": "all"}}
"""What has the driver's libraries put into a container where devices are there by themselves."""

_MOUNT = re.compile(r"(?:/|\./|\$\{\w+(?::-[^}]*)?\})[^:,]*(?::[^:,]+){0,2}", re.ASCII)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_ANNOTATION = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*", re.ASCII)
_BARE = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


class JobContainer(Value):
    """What an EDF says; what is left empty is not written, and then the engine's default holds.

    `mounts` are SOURCE:PLACE[:FLAGS], with `+` between flags; `devices` are names of CDI or paths;
    `annotations` choose hooks by their dotted names.
    """

    image: str = ""
    mounts: tuple[str, ...] = ()
    workdir: str = ""
    entrypoint: bool | None = None
    writable: bool | None = None
    devices: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


def render(container: JobContainer) -> str:
    """Return the EDF of a container, in TOML."""
    return "\n".join(_lines(container)) + "\n"


def _lines(container: JobContainer) -> Iterator[str]:
    for name in ("image", "workdir"):
        if value := getattr(container, name):
            yield f"{name} = {_text(value)}"
    for name in ("mounts", "devices"):
        if values := getattr(container, name):
            yield f"{name} = [{', '.join(map(_text, values))}]"
    for name in ("entrypoint", "writable"):
        if (value := getattr(container, name)) is not None:
            yield f"{name} = {str(value).lower()}"
    if container.env:
        yield from ("", "[env]")
        yield from (f"{_key(key)} = {_text(container.env[key])}" for key in sorted(container.env))
    if container.annotations:
        yield from ("", "[annotations]")
        for key, value in sorted(container.annotations.items()):
            yield f"{'.'.join(map(_key, key.split('.')))} = {_text(value)}"


class JobContents(Value):
    """What is in a container: the environment of its stack, and its kind of GPU.

    `switches` are the variables by which its MPI takes buffers on such GPUs. `whole` says that the
    image does not set these variables by itself, as where a stack is mounted into another one's
    container.
    """

    env: EnvPatch = field(default_factory=EnvPatch)
    gpu: str = ""
    switches: Mapping[str, str] = field(default_factory=dict)
    whole: bool = False


def complete(asked: JobContainer, contents: JobContents) -> JobContainer:
    """Return a container with what its contents need: hook, devices and variables.

    What was asked for has precedence. The engine knows no variable that may be missing and leaves
    no empty entry, so of lists only PATH keeps what the container's own image has in it.
    """
    env = {name: literal(value) for name, value in contents.env.set.items()}
    env |= dict.fromkeys(contents.env.unset, "") if contents.whole else {}
    if contents.whole:
        for name in {**contents.env.prepend, **contents.env.append}:
            before = map(literal, contents.env.prepend.get(name, ()))
            after = map(literal, contents.env.append.get(name, ()))
            kept = ("${PATH}",) if name == "PATH" else ()
            env[name] = ":".join((*before, *kept, *after))
    if contents.gpu:
        env = {**contents.switches, **env, **GPU_VARIABLES.get(contents.gpu, {})}
    own = (DEVICES[contents.gpu],) if contents.gpu in DEVICES else ()
    return replace(
        asked,
        devices=tuple(one for one in asked.devices or own if one != "none"),
        env=env | dict(asked.env),
        annotations={CXI_HOOK: "true", **asked.annotations},
    )


def parse_words(
    mounts: Iterable[str], variables: Iterable[str], annotations: Iterable[str]
) -> JobContainer:
    """Return what words say: SOURCE:PLACE[:FLAGS], NAME=VALUE, and KEY=VALUE with dots in KEY.

    A mount without PLACE is seen at its own path. Raises `StackproofError` (INVALID_VALUE) with all
    that an EDF cannot hold.
    """
    every = tuple(mounts)
    problems = [
        _problem(f"the mount `{word}` is not SOURCE[:PLACE[:FLAGS]]", "such as ${SCRATCH}:/scratch")
        for word in every
        if not _MOUNT.fullmatch(word)
    ]
    env = _pairs(variables, _VARIABLE, "variable", problems)
    hooks = _pairs(annotations, _ANNOTATION, "annotation", problems)
    problems += [
        _problem(
            f"the annotations `{outer}` and `{inner}` cannot both be given: TOML has the first "
            "as a value and as a table",
            "leave one of them out",
        )
        for outer in (*hooks, CXI_HOOK)
        for inner in hooks
        if inner.startswith(f"{outer}.") or (outer == CXI_HOOK and outer.startswith(f"{inner}."))
    ]
    if problems:
        raise StackproofError(*problems)
    seen = (word if ":" in word.replace(":-", "") else f"{word}:{word}" for word in every)
    return JobContainer(mounts=tuple(seen), env=env, annotations=hooks)


def _pairs(
    words: Iterable[str], key: re.Pattern[str], what: str, problems: list[Problem]
) -> dict[str, str]:
    """Return values by their names; adds to `problems` the words that are none."""
    pairs = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not key.fullmatch(name):
            problems.append(_problem(f"the {what} `{word}` is not NAME=VALUE", "write both parts"))
        pairs[name] = value
    return pairs


def _problem(message: str, hint: str) -> Problem:
    return Problem(reason=Reason.INVALID_VALUE, message=message, hint=hint)


def literal(value: str) -> str:
    """Return a value as an EDF has it where nothing is to be put in: `$` begins a variable."""
    return value.replace("$", "$$")


def mount(source: str, place: str) -> str:
    """Return the mount of a folder or file, read-only, with both paths taken literally."""
    return literal(f"{source}:{place}:ro")


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _text(key)


def _text(value: str) -> str:
    """Return a text as TOML's basic strings have it: JSON's, whose DEL is written out."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
