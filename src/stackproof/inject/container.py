"""Judgements on programs of a container to what puts the replacement into it, in several forms.

One definition, a bind of the prefix at its own path and some variables, is written as options of
Apptainer, of podman, Docker, Enroot and Charliecloud, as keys of an Environment Definition File
(EDF) or as a file of the Container Device Interface (CDI), which podman, containerd and CRI-O read.
An artefact can be put over the container's own libraries, too, by a hook that decides again for
every container that starts (OCI runtime specification, "POSIX-platform Hooks").
"""

from __future__ import annotations

import json
import posixpath
import re
import shlex
from collections.abc import Callable, Mapping, Sequence

from msgspec import field

from stackproof.core.errors import Location, Problem, Reason, StackproofError
from stackproof.core.value import Value
from stackproof.image.container import edf
from stackproof.inject.model import Judgement

CDI_KIND = "stackproof.org/mpi"
"""Vendor and class of the devices in a CDI file."""

ANNOTATION = "stackproof.inject"
"""What a container is annotated with to get an artefact."""

_STAGE = "createContainer"  # mounts are made, and the root is not entered yet
_TIMEOUT_S = 30
_CDI_VERSION = "0.5.0"  # the first one with all that is used here; podman 4 reads it


class Containing(Value):
    """What a container gets: folders, read-only, by the place they are seen at; and variables."""

    binds: Mapping[str, str]
    environment: Mapping[str, str] = field(default_factory=dict)


def plan_containing(judgements: Sequence[Judgement], binds: Mapping[str, str]) -> Containing:
    """Return what a container gets so that all programs work with the replacement.

    Raises `StackproofError`: INJECTION_STEPS with every program that variables alone do not do it
    for, or that needs other ones than the first; INVALID_VALUE for paths that the options of no
    tool can hold, as `:` and `,` part them.
    """
    problems = [
        Problem(
            reason=Reason.INVALID_VALUE,
            message=f"`{path}` holds a `:` or a `,`, at which container tools split options",
            hint="name it by a link without them, or move it",
        )
        for path in sorted({*binds, *binds.values()})
        if ":" in path or "," in path
    ]
    for judgement in judgements:
        way = judgement.way
        if way.rpath:
            problems.append(
                _problem(
                    judgement,
                    "no variable reaches it: its DT_RPATH must be changed in the image",
                    "`stackproof inject check` names the command",
                )
            )
        elif way.links:
            problems.append(_missing_link(judgement, binds))
        elif judgement.environment != judgements[0].environment:
            problems.append(
                _problem(
                    judgement,
                    f"it needs other variables than `{judgements[0].program}`",
                    "write one definition for each of them",
                )
            )
    if problems:
        raise StackproofError(*problems)
    return Containing(binds=binds, environment=judgements[0].environment)


def _missing_link(judgement: Judgement, binds: Mapping[str, str]) -> Problem:
    """Return the problem of a link that is missing beside the library: a bind brings it along."""
    link, target = next(iter(judgement.way.links.items()))
    wanted, name = posixpath.basename(link), posixpath.basename(target)
    made = posixpath.join(posixpath.dirname(target), wanted)
    place = next((place for place in binds if made.startswith(f"{place}/")), "")
    command = shlex.join(("ln", "-s", name, binds.get(place, "") + made[len(place) :]))
    message = f"it asks for `{wanted}`, and the replacement has `{name}` alone"
    return _problem(judgement, message, f"make a link, and repeat this: {command}")


def _problem(judgement: Judgement, message: str, hint: str) -> Problem:
    where = Location(file=judgement.program)
    return Problem(reason=Reason.INJECTION_STEPS, message=message, where=where, hint=hint)


_OPTIONS = {
    "apptainer": ("--bind={source}:{place}:ro", "--env={name}={value}"),
    "podman": ("--volume={source}:{place}:ro", "--env={name}={value}"),
    "docker": ("--volume={source}:{place}:ro", "--env={name}={value}"),
    # Lines of fstab with colons between their fields: github.com/NVIDIA/enroot, doc/cmd/start.md.
    "enroot": ("--mount={source}:{place}:none:x-create=auto,rbind,ro", "--env={name}={value}"),
    # It has no read-only binds, and makes a place only with --write-fake: ch-run(1).
    "ch-run": ("--bind={source}:{place}", "--set-env={name}={value}"),
}
"""How tools are told of a bind, and of a variable: as words of a shell."""


def option_words(
    tool: str, binds: Mapping[str, str], environment: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the options of a tool that make binds and set variables."""
    bind, variable = _OPTIONS[tool]
    return (
        *(bind.format(source=source, place=place) for place, source in sorted(binds.items())),
        *(variable.format(name=name, value=value) for name, value in sorted(environment.items())),
    )


def render(form: str, containing: Containing) -> str:
    """Return a definition in a form: options of a tool, an EDF or a CDI file."""
    if form in _FILES:
        return _FILES[form](containing)
    return shlex.join(option_words(form, containing.binds, containing.environment)) + "\n"


def render_edf(containing: Containing) -> str:
    """Return `mounts` and `env` of an EDF (docs.cscs.ch, "Container Engine")."""
    return edf.render(
        edf.JobContainer(
            mounts=tuple(edf.mount(one, place) for place, one in sorted(containing.binds.items())),
            env={name: edf.literal(value) for name, value in containing.environment.items()},
        )
    )


def render_cdi(containing: Containing) -> str:
    """Return a CDI file with one device, `injected` (CDI's SPEC.md, 0.5.0)."""
    mounts = [
        {"hostPath": source, "containerPath": place, "options": ["ro", "nosuid", "nodev", "rbind"]}
        for place, source in containing.binds.items()
    ]
    edits = {
        "env": [f"{name}={value}" for name, value in containing.environment.items()],
        "mounts": mounts,
    }
    devices = [{"name": "injected", "containerEdits": edits}]
    data = {"cdiVersion": _CDI_VERSION, "kind": CDI_KIND, "devices": devices}
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


class Hook(Value):
    """What a hook is told: the artefact, the level, and what programs of a container showed.

    `program` is the hook's own file, `name` what containers are annotated with. `folders` are where
    their programs find libraries, `askers` the files that need what is replaced, `unused` the parts
    of an MPI that they do not load.
    """

    program: str
    name: str
    artefact: str
    level: str
    on_mismatch: str = "fail"
    log: str = ""
    folders: tuple[str, ...] = ()
    askers: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()

    def argv(self) -> tuple[str, ...]:
        """Return its command line."""
        words = [self.program, f"--artefact={self.artefact}", f"--level={self.level}"]
        words.append(f"--on-mismatch={self.on_mismatch}")
        words += [f"--log={self.log}"] if self.log else []
        words += [f"--folder={path}" for path in self.folders]
        words += [f"--asks={path}" for path in self.askers]
        return (*words, *(f"--unused={name}" for name in self.unused))


def render_podman_hook(hook: Hook) -> str:
    """Return a file for a folder of hooks (oci-hooks(5), also read by CRI-O and Sarus).

    It is for containers with the annotation `stackproof.inject=NAME`.
    """
    data = {
        "version": "1.0.0",
        "hook": {"path": hook.program, "args": list(hook.argv())},
        "when": {"annotations": {f"^{re.escape(ANNOTATION)}$": f"^{re.escape(hook.name)}$"}},
        "stages": [_STAGE],
    }
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


def render_oci_hook(hook: Hook) -> str:
    """Return the member `hooks` of a container's config.json."""
    one = {"path": hook.program, "args": list(hook.argv()), "timeout": _TIMEOUT_S}
    return json.dumps({"hooks": {_STAGE: [one]}}, indent=1, ensure_ascii=False) + "\n"


HOOKS: Mapping[str, Callable[[Hook], str]] = {
    "podman-hook": render_podman_hook,
    "oci-hook": render_oci_hook,
}
"""The forms of hooks."""

_FILES: Mapping[str, Callable[[Containing], str]] = {"edf": render_edf, "cdi": render_cdi}
FORMS = (*_OPTIONS, *_FILES)
"""The forms that a definition can be written in."""
