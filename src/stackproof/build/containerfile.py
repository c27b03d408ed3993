"""A plan as a Containerfile: the tree of an image, made by a container builder.

Nothing is copied from a build context: every text of the plan is written out, so the one file is
enough, and any builder reads it (https://docs.docker.com/reference/dockerfile/; no here-documents,
which buildah before 1.33 does not know). What is downloaded is checked against the lock's digests,
and the base is named by its digest. The stage of tools needs apt (Debian, Ubuntu).
"""

from __future__ import annotations

import base64
import itertools
import json
import posixpath
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

from msgspec import field

from stackproof.build.engine import Container
from stackproof.build.plan import BUILD, DOWNLOADS, PYTHON, TOOLS, Clone, Plan, Step
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
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_NOT_PLAIN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
# A RUN becomes one argument of a shell, and the kernel takes 131,072 bytes in one (MAX_ARG_STRLEN);
# builders read lines of up to 65,536 bytes.
_MOST_BYTES = 60_000
_LONGEST_LINE = 8_000
_ENCODED_LINE = 76


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


def render(plan: Plan, wish: ContainerfileRequest, needs: Container, files: Files) -> str:
    """Return the Containerfile that makes a plan's tree and leaves its tools behind.

    Raises `StackproofError` (INVALID_VALUE) for what such a file cannot say.
    """
    lines = [
        f"# {_comment(plan.name)}: written by `stackproof image containerfile`; plan {plan.id}",
        f"FROM {check_base(wish.builder)} AS builder",
        _required(
            f'test "$(uname -m)" = {shlex.quote(wish.architecture)}',
            f"this stack is for {wish.architecture}, and the base image is not",
        ),
        *_packages((*needs.builder_packages, *wish.builder_packages)),
        *(
            _required(
                f"test -d {_word(path)}",
                f"the base image of the stage that builds has no {path}: --builder-base names one",
            )
            for path in needs.outside
        ),
    ]
    fetch = partial(_fetch, needs=needs, sources={one.filename: one for one in needs.sources})
    lines += _tools(needs, files.programs, fetch)
    for step in plan.steps:
        if step.name != "image":
            lines += ["", f"# {_comment(step.description or step.name)}"]
            lines += _step(step, plan.mount, files.blobs, fetch)
    lines += ["", f"FROM {check_base(wish.base)}", *_packages((*needs.packages, *wish.packages))]
    place = _place(plan.mount)
    lines.append(f"COPY --from=builder {place} {place}")
    lines += _environment(wish.environment)
    if wish.activate:
        script = f'. {shlex.quote(wish.activate)} && exec "$@"'
        lines.append(f"ENTRYPOINT {json.dumps(['/bin/sh', '-c', script, 'sh'])}")
        lines.append('CMD ["/bin/sh"]')
    lines += [f"LABEL {key}={_quoted(value)}" for key, value in sorted(wish.labels.items())]
    return "\n".join(lines) + "\n"


def _required(test: str, otherwise: str) -> str:
    """Return an instruction that ends a build with a sentence where something is missing."""
    return f"RUN {test} || {{ echo {_word(f'error: {otherwise}')} >&2; exit 1; }}"


def _tools(
    needs: Container, programs: Mapping[str, str], fetch: Callable[[Artefact], Iterator[str]]
) -> Iterator[str]:
    yield f"RUN mkdir -p {TOOLS} {DOWNLOADS}"
    for wheel in needs.unpacked:
        yield from fetch(wheel)
        yield _run([f"python3 -m zipfile -e {DOWNLOADS}/{wheel.filename} {TOOLS}"])
    texts = {f"{TOOLS}/{name}": text.encode() for name, text in programs.items()}
    yield from _written(texts, frozenset())
    for name, value in needs.variables.items():
        yield f"ENV {_variable(name)}={_quoted(value)}"


def _step(
    step: Step,
    mount: str,
    blobs: Mapping[str, bytes],
    fetch: Callable[[Artefact], Iterator[str]],
) -> Iterator[str]:
    for clone in step.clones:
        yield _clone(clone)
    for artefact in step.fetch:
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
    yield from _written(texts, frozenset(executable))
    # Commands with the same surroundings share an instruction, so that these stand there once.
    for _, alike in itertools.groupby(step.commands, lambda one: (one.cwd, one.env)):
        commands = list(alike)
        yield _run([*_surroundings(commands[0]), *map(_command, commands)])


def _clone(clone: Clone) -> str:
    folder = _word(f"{BUILD}/{clone.folder}")
    git = f"git -C {folder}"
    return _run(
        [
            f"git init -q {folder}",
            f"{git} fetch -q --depth=1 {_word(clone.url)} {_word(clone.commit)}",
            f"{git} checkout -q FETCH_HEAD",
            f'test "$({git} rev-parse HEAD)" = {_word(clone.commit)}',
        ]
    )


def _fetch(
    artefact: Artefact, needs: Container, sources: Mapping[str, SourceFile]
) -> Iterator[str]:
    """Yield what brings a locked file and checks its digest."""
    place = f"{DOWNLOADS}/{artefact.filename}"
    source = sources.get(artefact.filename)
    if source is None:
        if needs.download is None:
            raise _nowhere(artefact.filename)
        line = " | ".join(
            " ".join(_word(word.replace(PYTHON, "python3")) for word in argv)
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
                _word, ("git", "-C", f"{BUILD}/{folder}", "-c", "tar.umask=0002", "archive", *words)
            )
        )
    else:
        line = _download(source, place)
    yield _run([line, f"echo {_word(f'{artefact.sha256}  {place}')} | sha256sum -c -"])


def _download(source: SourceFile, place: str) -> str:
    """Return the command that downloads a file; raises `StackproofError` (FILE_MISSING)."""
    get = f"curl -fsSL -o {_word(place)}"
    if source.address:
        return f"{get} {_word(source.address)}"
    if source.os_package is None:
        raise _nowhere(source.filename)
    # From the archives that the base knows, whose pools have the files of every suite.
    known = r"$(apt-get update --print-uris | sed -n 's,^.\(.*/\)dists/.*,\1,p' | sort -u)"
    return f'for one in {known}; do {get} "$one"{_word(source.pool)} && break; done'


def _nowhere(name: str) -> StackproofError:
    return fail(
        Reason.FILE_MISSING,
        f"it is not known where `{name}` is to be had, so no container can fetch it",
        hint="take another source for it: `sources:` of the recipe",
    )


def _surroundings(command: Command) -> Iterator[str]:
    if command.cwd:
        yield f"cd {_word(command.cwd)}"
    yield from _exports(command.env)


def _command(command: Command) -> str:
    line = " ".join(_word("python3" if word == PYTHON else word) for word in command.argv)
    if command.ok == (0,):
        return line
    codes = "|".join(str(code) for code in command.ok)
    return f"{{ {line}; case $? in {codes}) ;; *) false;; esac; }}"


def _exports(patch: EnvPatch) -> Iterator[str]:
    if patch.unset:
        yield f"unset {' '.join(map(_variable, patch.unset))}"
    for key, value in patch.set.items():
        yield f"export {_variable(key)}={_word(value)}"
    for key, entries in patch.prepend.items():
        name = _variable(key)
        yield f'export {name}={_word(":".join(entries))}"${{{name}:+:${name}}}"'
    for key, entries in patch.append.items():
        name = _variable(key)
        yield f'export {name}="${{{name}:+${name}:}}"{_word(":".join(entries))}'


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


def _written(texts: Mapping[str, bytes], executable: frozenset[str]) -> Iterator[str]:
    """Yield instructions that write files, many small ones in one."""
    folders = sorted({posixpath.dirname(path) for path in texts})
    parts = [f"mkdir -p {_word(folder)}" for folder in folders]
    for path, content in texts.items():
        parts += _file(path, content)
        if path in executable:
            parts.append(f"chmod 755 {_word(path)}")
    waiting: list[str] = []
    size = 0
    for part in parts:
        length = len(part.encode()) + 4
        if waiting and size + length > _MOST_BYTES:
            yield _run(waiting)
            waiting, size = [], 0
        waiting.append(part)
        size += length
    if waiting:
        yield _run(waiting)


def _file(path: str, content: bytes) -> Iterator[str]:
    """Yield shell commands that write a file: as text where that is possible."""
    lines = _plain_lines(content)
    if lines is None:
        text = base64.b64encode(content).decode()
        cut = range(0, len(text), _ENCODED_LINE)
        lines = [text[start : start + _ENCODED_LINE] for start in cut]
        form, end = "%s", f" | base64 -d {{}} {_word(path)}"
    else:
        form, end = "%s\\n", f" {{}} {_word(path)}"
    if not lines:
        yield f": > {_word(path)}"
    mark = ">"
    for block in _blocks([_single(line) for line in lines]):
        words = " \\\n      ".join(block)
        yield f"printf '{form}' \\\n      {words} \\\n     {end.format(mark)}"
        mark = ">>"


def _plain_lines(content: bytes) -> list[str] | None:
    """Return the lines of a text, or None for what only an encoding can carry unharmed."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return None
    if _NOT_PLAIN.search(text) or (text and not text.endswith("\n")):
        return None
    lines = text.split("\n")[:-1]
    return None if any(len(line.encode()) > _LONGEST_LINE for line in lines) else lines


def _blocks(words: list[str]) -> Iterator[list[str]]:
    block: list[str] = []
    size = 0
    for word in words:
        length = len(word.encode()) + 9
        if block and size + length > _MOST_BYTES - 1_000:
            yield block
            block, size = [], 0
        block.append(word)
        size += length
    if block:
        yield block


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


def _word(text: str) -> str:
    """Return a word for the shell of a RUN; raises `StackproofError` for one with a line break."""
    return shlex.quote(_line(text))


def _single(text: str) -> str:
    """Return a line of a file in single quotes, needed or not: a column of them reads better."""
    return "'" + text.replace("'", "'\"'\"'") + "'"


def _line(text: str) -> str:
    if _CONTROL.search(text):
        raise fail(
            Reason.INVALID_VALUE,
            f"{text!r} has a control character, which a Containerfile cannot hold there",
            hint="take it out of the recipe",
        )
    return text


def _variable(name: str) -> str:
    if not _VARIABLE.fullmatch(name):
        raise fail(Reason.INVALID_VALUE, f"{name!r} is no name of an environment variable")
    return name


def _inner(text: str) -> str:
    """Return a text for within double quotes: what has a meaning there loses it."""
    return re.sub(r'([\\"$])', r"\\\1", _line(text))


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
