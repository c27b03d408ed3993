"""A plan as a Containerfile: the tree of an image, made by a container builder.

In one file nothing is copied from a build context: every text of the plan is written out, and any
builder reads it (https://docs.docker.com/reference/dockerfile/; no here-documents, which buildah
before 1.33 does not know). As a folder, each part of the build is a script with its files beside a
Containerfile that copies and runs them. What is downloaded is checked against the lock's digests,
and the base is named by its digest. The stage of tools needs apt (Debian, Ubuntu).
"""

from __future__ import annotations

import itertools
import json
import posixpath
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

from msgspec import field

from stackproof.build import shellfiles
from stackproof.build.engine import Container
from stackproof.build.plan import BUILD, DOWNLOADS, PYTHON, TOOLS, Clone, Plan, Step
from stackproof.build.shellfiles import shell_word, single_line
from stackproof.build.stack import Artefact, SourceFile
from stackproof.core.command import Command, EnvPatch
from stackproof.core.errors import Reason, StackproofError, fail
from stackproof.core.value import Value

_PINNED = re.compile(
    r"[a-z0-9]+(?:[._-]+[a-z0-9]+)*(?::[0-9]+)?(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*"
    r"(?::\w[\w.-]{0,127})?@sha256:[0-9a-f]{64}",
    re.ASCII,
)
_PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]+(?::[a-z0-9]+)?(?:=[A-Za-z0-9.+~:-]+)?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLAIN_PATH = re.compile(r"/[A-Za-z0-9/._+-]*")


class ContainerfileRequest(Value):
    """What a Containerfile is to have besides the plan's tree and what the engine needs.

    `base` and `builder` are image names with their digests; `packages` and `builder_packages`
    those of the base's archive. `environment` is set in the container, where it is known before
    the build; otherwise `activate` is a script that the entry point reads (path in the container).
    `labels` go by their keys.
    """

    base: str
    builder: str
    architecture: str
    packages: tuple[str, ...] = ()
    builder_packages: tuple[str, ...] = ()
    environment: EnvPatch = field(default_factory=EnvPatch)
    activate: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


class Files(Value):
    """Bytes that a Containerfile carries: our programs by name, and files of the plan by digest."""

    programs: Mapping[str, str] = field(default_factory=dict)
    blobs: Mapping[str, bytes] = field(default_factory=dict)


def check_base(text: str) -> str:
    """Return an image name that is pinned; raises `StackproofError` (INVALID_VALUE) otherwise."""
    if _PINNED.fullmatch(text):
        return text
    problem = "has no digest" if "@" not in text else "is no image name with a SHA-256 digest"
    raise fail(
        Reason.INVALID_VALUE,
        f"the base image `{text}` {problem}",
        hint="name it as NAME[:TAG]@sha256:DIGEST; `podman image inspect --format "
        "'{{index .RepoDigests 0}}' NAME` shows it for an image that was pulled",
    )


def check_package(text: str) -> str:
    """Return a package name of an archive; raises `StackproofError` (INVALID_VALUE) otherwise."""
    if _PACKAGE.fullmatch(text):
        return text
    raise fail(
        Reason.INVALID_VALUE,
        f"`{text}` is no package of Debian or Ubuntu",
        hint="a name, or NAME=VERSION",
    )


class _Files(Value, kw_only=False):
    """Files that a part of the build writes, by their path in the container."""

    texts: Mapping[str, bytes]
    executable: frozenset[str] = frozenset()


class _Commands(Value, kw_only=False):
    """Commands of one shell, each of which must succeed."""

    lines: tuple[str, ...]


_Piece = str | _Files | _Commands
"""Something that a part of the build does; a text is an instruction as it stands."""


class _Part(Value):
    """A part of the stage that builds: the tools, or a step of the plan."""

    name: str
    title: str
    pieces: tuple[_Piece, ...]


class Context(Value):
    """A folder for a builder: its Containerfile, and what that copies, by paths in the folder."""

    text: str
    files: Mapping[str, bytes]
    executable: frozenset[str]


def render(plan: Plan, wish: ContainerfileRequest, needs: Container, files: Files) -> str:
    """Return the Containerfile that makes a plan's tree and leaves its tools behind.

    Raises `StackproofError` (INVALID_VALUE) for what such a file cannot say.
    """
    lines = _head(plan, wish, needs)
    for part in _parts(plan, needs, files):
        lines += ["", f"# {part.title}"] if part.title else []
        for piece in part.pieces:
            if isinstance(piece, _Files):
                lines += map(_run, shellfiles.write_commands(piece.texts, piece.executable))
            else:
                lines.append(_run(piece.lines) if isinstance(piece, _Commands) else piece)
    return "\n".join([*lines, *_tail(plan, wish, needs)]) + "\n"


def render_folder(
    plan: Plan, wish: ContainerfileRequest, needs: Container, files: Files
) -> Context:
    """Return the same as a folder: each part of the build is a script, with its files beside it.

    Raises `StackproofError` as `render` does.
    """
    lines = _head(plan, wish, needs)
    copied: dict[str, bytes] = {}
    executable: set[str] = set()
    for number, part in enumerate(_parts(plan, needs, files)):
        folder = f"{number:02}-{_UNSAFE.sub('-', part.name)}"
        script = f"{BUILD}/steps/{folder}.sh"
        body: list[str] = []
        after: list[str] = []
        for piece in part.pieces:
            if isinstance(piece, _Files):
                copied |= {_inside(folder, path): text for path, text in piece.texts.items()}
                executable |= {_inside(folder, path) for path in piece.executable}
            elif isinstance(piece, _Commands):
                body += ["(", *piece.lines, ")"]
            else:
                after.append(piece)
        title = f"# {_comment(part.title or part.name)}"
        if body:
            text = "\n".join([title, "set -e", *body, ""])
            copied[_inside(folder, script)] = text.encode()
        lines += ["", title]
        lines += (
            [f"COPY {folder}/ /"] if any(path.startswith(f"{folder}/") for path in copied) else []
        )
        lines += [f"RUN sh {script}"] if body else []
        lines += after
    text = "\n".join([*lines, *_tail(plan, wish, needs)]) + "\n"
    return Context(text=text, files=copied, executable=frozenset(executable))


_UNSAFE = re.compile(r"[^A-Za-z0-9._+-]")


def _inside(folder: str, path: str) -> str:
    """Return the place of a container's file in a folder that is copied to its root."""
    return f"{folder}/{posixpath.normpath(path).lstrip('/')}"


def _head(plan: Plan, wish: ContainerfileRequest, needs: Container) -> list[str]:
    return [
        f"# {_comment(plan.name)}: written by `stackproof image containerfile`; plan {plan.id}",
        f"FROM {check_base(wish.builder)} AS builder",
        _required(
            f'test "$(uname -m)" = {shlex.quote(wish.architecture)}',
            f"this stack is for {wish.architecture}, and the base image is not",
        ),
        *_packages((*needs.builder_packages, *wish.builder_packages)),
        *(
            _required(
                f"test -d {shell_word(path)}",
                f"the base image of the stage that builds has no {path}: --builder-base names one",
            )
            for path in needs.outside
        ),
    ]


def _parts(plan: Plan, needs: Container, files: Files) -> Iterator[_Part]:
    fetch = partial(_fetch, needs=needs, sources={one.filename: one for one in needs.sources})
    yield _Part(name="tools", title="", pieces=tuple(_tools(needs, files.programs, fetch)))
    for step in plan.steps:
        if step.name != "image":
            pieces = tuple(_step(step, plan.mount, files.blobs, fetch))
            title = _comment(step.description or step.name)
            yield _Part(name=step.name, title=title, pieces=pieces)


def _tail(plan: Plan, wish: ContainerfileRequest, needs: Container) -> list[str]:
    place = _place(plan.mount)
    lines = ["", f"FROM {check_base(wish.base)}", *_packages((*needs.packages, *wish.packages))]
    lines.append(f"COPY --from=builder {place} {place}")
    lines += _environment(wish.environment)
    if wish.activate:
        script = f'. {shlex.quote(wish.activate)} && exec "$@"'
        lines.append(f"ENTRYPOINT {json.dumps(['/bin/sh', '-c', script, 'sh'])}")
        lines.append('CMD ["/bin/sh"]')
    return [
        *lines,
        *(f"LABEL {key}={_quoted(value)}" for key, value in sorted(wish.labels.items())),
    ]


def _required(test: str, otherwise: str) -> str:
    """Return an instruction that ends a build with a sentence where something is missing."""
    return f"RUN {test} || {{ echo {shell_word(f'error: {otherwise}')} >&2; exit 1; }}"


def _tools(
    needs: Container,
    programs: Mapping[str, str],
    fetch: Callable[[Artefact], Iterator[_Commands]],
) -> Iterator[_Piece]:
    yield _Commands((f"mkdir -p {TOOLS} {DOWNLOADS}",))
    for wheel in needs.unpacked:
        yield from fetch(wheel)
        yield _Commands((f"python3 -m zipfile -e {DOWNLOADS}/{wheel.filename} {TOOLS}",))
    yield _Files({f"{TOOLS}/{name}": text.encode() for name, text in programs.items()})
    for name, value in needs.variables.items():
        yield f"ENV {_variable(name)}={_quoted(value)}"


def _step(
    step: Step,
    mount: str,
    blobs: Mapping[str, bytes],
    fetch: Callable[[Artefact], Iterator[_Commands]],
) -> Iterator[_Piece]:
    for clone in step.clones:
        yield _clone(clone)
    given = {
        f"{DOWNLOADS}/{file.filename}": blobs[file.sha256]
        for file in step.fetch
        if file.sha256 in blobs
    }
    if given:
        yield _Files(given)
    for artefact in step.fetch:
        if artefact.sha256 not in blobs:
            yield from fetch(artefact)
    places = {"store": mount, "build": BUILD}
    texts = {f"{mount}/{path}": text.encode() for path, text in step.files.items()}
    texts |= {f"{BUILD}/{path}": text.encode() for path, text in step.build_files.items()}
    executable = {f"{mount}/{path}" for path in step.executable}
    for path, copy in step.copies.items():
        root, _, rest = path.partition("/")
        texts[f"{places[root]}/{rest}"] = blobs[copy.sha256]
        if copy.executable:
            executable.add(f"{places[root]}/{rest}")
    yield _Files(texts, frozenset(executable))
    # Commands with the same surroundings share an instruction, so that these stand there once.
    for _, alike in itertools.groupby(step.commands, lambda one: (one.cwd, one.env)):
        commands = list(alike)
        yield _Commands((*_surroundings(commands[0]), *map(_command, commands)))


def _clone(clone: Clone) -> _Commands:
    folder = shell_word(f"{BUILD}/{clone.folder}")
    git = f"git -C {folder}"
    return _Commands(
        (
            f"git init -q {folder}",
            f"{git} fetch -q --depth=1 {shell_word(clone.url)} {shell_word(clone.commit)}",
            f"{git} checkout -q FETCH_HEAD",
            f'test "$({git} rev-parse HEAD)" = {shell_word(clone.commit)}',
        )
    )


def _fetch(
    artefact: Artefact, needs: Container, sources: Mapping[str, SourceFile]
) -> Iterator[_Commands]:
    """Yield what brings a locked file and checks its digest."""
    place = f"{DOWNLOADS}/{artefact.filename}"
    source = sources.get(artefact.filename)
    if source is None:
        if needs.download is None:
            raise _nowhere(artefact.filename)
        line = " | ".join(
            " ".join(shell_word(word.replace(PYTHON, "python3")) for word in argv)
            for argv in needs.download(artefact)
        )
    elif source.commit:
        # As `build.effects.git.archive` packs: the mode of files is not left to the user's
        # settings.
        stem = posixpath.splitext(source.filename)[0]
        folder = f"sources/{stem}"
        yield _clone(Clone(name=stem, url=source.address, commit=source.commit, folder=folder))
        words = ("--format=tar", f"--prefix={stem}/", f"--output={place}", source.commit)
        line = " ".join(
            map(
                shell_word,
                ("git", "-C", f"{BUILD}/{folder}", "-c", "tar.umask=0002", "archive", *words),
            )
        )
    else:
        line = _download(source, place)
    yield _Commands((line, f"echo {shell_word(f'{artefact.sha256}  {place}')} | sha256sum -c -"))


def _download(source: SourceFile, place: str) -> str:
    """Return the command that downloads a file; raises `StackproofError` (FILE_MISSING)."""
    get = f"curl -fsSL -o {shell_word(place)}"
    if source.address:
        return f"{get} {shell_word(source.address)}"
    if source.os_package is None:
        raise _nowhere(source.filename)
    # From the archives that the base knows, whose pools have the files of every suite.
    known = r"$(apt-get update --print-uris | sed -n 's,^.\(.*/\)dists/.*,\1,p' | sort -u)"
    return f'for one in {known}; do {get} "$one"{shell_word(source.pool)} && break; done'


def _nowhere(name: str) -> StackproofError:
    return fail(
        Reason.FILE_MISSING,
        f"it is not known where `{name}` is to be had, so no container can fetch it",
        hint="take another source for it: `sources:` of the recipe",
    )


def _surroundings(command: Command) -> Iterator[str]:
    if command.cwd:
        yield f"cd {shell_word(command.cwd)}"
    yield from _exports(command.env)


def _command(command: Command) -> str:
    line = " ".join(shell_word("python3" if word == PYTHON else word) for word in command.argv)
    if command.ok == (0,):
        return line
    codes = "|".join(str(code) for code in command.ok)
    return f"{{ code=0; {line} || code=$?; case $code in {codes}) ;; *) false;; esac; }}"


def _exports(patch: EnvPatch) -> Iterator[str]:
    if patch.unset:
        yield f"unset {' '.join(map(_variable, patch.unset))}"
    for key, value in patch.set.items():
        yield f"export {_variable(key)}={shell_word(value)}"
    for key, entries in patch.prepend.items():
        name = _variable(key)
        yield f'export {name}={shell_word(":".join(entries))}"${{{name}:+:${name}}}"'
    for key, entries in patch.append.items():
        name = _variable(key)
        yield f'export {name}="${{{name}:+${name}:}}"{shell_word(":".join(entries))}'


def _environment(patch: EnvPatch) -> Iterator[str]:
    """Yield what a container has set; a variable that exists cannot be taken away, only emptied."""
    for key in patch.unset:
        yield f'ENV {_variable(key)}=""'
    for key, value in patch.set.items():
        yield f"ENV {_variable(key)}={_quoted(value)}"
    for key, entries in patch.prepend.items():
        name = _variable(key)
        yield f'ENV {name}="{_inner(":".join(entries))}${{{name}:+:${name}}}"'
    for key, entries in patch.append.items():
        name = _variable(key)
        yield f'ENV {name}="${{{name}:+${name}:}}{_inner(":".join(entries))}"'


def _packages(names: Iterable[str]) -> Iterator[str]:
    wanted = sorted({check_package(name) for name in names})
    if wanted:
        yield _run(
            [
                "apt-get update",
                "DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "
                + " ".join(wanted),
                "rm -rf /var/lib/apt/lists/*",
            ]
        )


def _run(parts: Iterable[str]) -> str:
    return "RUN " + " \\\n && ".join(parts)


def _variable(name: str) -> str:
    if not _VARIABLE.fullmatch(name):
        raise fail(Reason.INVALID_VALUE, f"{name!r} is no name of an environment variable")
    return name


def _inner(text: str) -> str:
    """Return a text for within double quotes: what has a meaning there loses it."""
    return re.sub(r'([\\"$])', r"\\\1", single_line(text))


def _quoted(text: str) -> str:
    return f'"{_inner(text)}"'


def _place(path: str) -> str:
    """Return a path for COPY, which knows no quotes that keep variables and wildcards away."""
    if _PLAIN_PATH.fullmatch(path):
        return path
    raise fail(
        Reason.INVALID_VALUE,
        f"the mount point {path!r} cannot be copied by a Containerfile",
        hint="letters, digits and `/._+-` are safe",
    )


def _comment(text: str) -> str:
    """Return a text as one line that cannot end the comment."""
    return " ".join(text.split())
