"""Judgements on programs of a container to what puts the replacement into it, in several forms.

One definition, a bind of the prefix at its own path and some variables, is written as options of
Apptainer, of podman, Docker, Enroot and Charliecloud, as keys of an Environment Definition File
(EDF) or as a file of the Container Device Interface (CDI), which podman, containerd and CRI-O read.
An artefact can be put over the container's own libraries, too, by a hook that decides again for
every container that starts (OCI runtime specification, "POSIX-platform Hooks").
"""

from __future__ import annotations

import json
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
        if way.links or way.rpath:
            problems.append(
                _problem(
                    judgement,
                    "a bind and variables do not do it: links or another DT_RPATH are needed",
                    "`stackproof inject check` names them; make them in the image",
                )
            )
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


def _problem(judgement: Judgement, message: str, hint: str) -> Problem:
    where = Location(file=judgement.program)
    return Problem(reason=Reason.INJECTION_STEPS, message=message, where=where, hint=hint)


def render_apptainer(containing: Containing) -> str:
    """Return options of `apptainer exec`, as words of a shell."""
    words = [f"--bind={source}:{place}:ro" for place, source in containing.binds.items()]
    words += [f"--env={name}={value}" for name, value in containing.environment.items()]
    return shlex.join(words) + "\n"


def render_podman(containing: Containing) -> str:
    """Return options of `podman run`, which are those of `docker run`, as words of a shell."""
    words = [f"--volume={source}:{place}:ro" for place, source in containing.binds.items()]
    words += [f"--env={name}={value}" for name, value in containing.environment.items()]
    return shlex.join(words) + "\n"


def render_ch_run(containing: Containing) -> str:
    """Return options of Charliecloud's `ch-run`, as words of a shell (ch-run(1)).

    It has no read-only binds, and makes a place only with --write-fake.
    """
    words = [f"--bind={source}:{place}" for place, source in containing.binds.items()]
    words += [f"--set-env={name}={value}" for name, value in containing.environment.items()]
    return shlex.join(words) + "\n"


def render_enroot(containing: Containing) -> str:
    """Return options of `enroot start`, as words of a shell."""
    return shlex.join(enroot_words(containing.binds, containing.environment)) + "\n"


def enroot_words(binds: Mapping[str, str], environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return options of `enroot start` (github.com/NVIDIA/enroot, doc/cmd/start.md).

    A mount is a line of fstab with colons between its fields.
    """
    return (
        *(
            f"--mount={source}:{place}:none:x-create=auto,rbind,ro"
            for place, source in sorted(binds.items())
        ),
        *(f"--env={name}={value}" for name, value in sorted(environment.items())),
    )


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
        {
            "hostPath": source,
            "containerPath": place,
            "options": ["ro", "nosuid", "nodev", "rbind"],
        }
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

FORMS: Mapping[str, Callable[[Containing], str]] = {
    "apptainer": render_apptainer,
    "podman": render_podman,
    "docker": render_podman,
    "enroot": render_enroot,
    "ch-run": render_ch_run,
    "edf": render_edf,
    "cdi": render_cdi,
}
"""The forms that a definition can be written in."""
