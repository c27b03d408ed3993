"""Arms that are containers: the program is judged against what is in them before anything runs.

The benchmark is compiled by an MPI of the machine (`host-mpi`) that has the container's ABI, and
carried in: so a container needs no compiler, and all ways to start it run one and the same file. It
is judged as `stackproof inject check` does, against the container's own MPI, or with `bind: hybrid`
against that of the machine, which then lies under the program. What answers is asked in the end, in
a container.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from stackproof.bench.arms.installation import SYSTEM, Installation, parse_probe
from stackproof.bench.effects import container_rank, installation
from stackproof.bench.effects.compile_program import compile_program, native_source, probe_source
from stackproof.bench.effects.stamps import stamp_of
from stackproof.bench.ready import MpiWrappers, ReadyArm
from stackproof.bench.runtimes import get
from stackproof.bench.runtimes.start import ContainerStart
from stackproof.bench.spec import Arm
from stackproof.core.command import Command, EnvPatch
from stackproof.core.effects import cache_folder, cache_kinds, files
from stackproof.core.effects.run import failure, how_it_ended, run
from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.image.container.effects import roots
from stackproof.image.model import Deployment, Image, MpiFacts
from stackproof.inject.container import ANNOTATION, plan_containing, render_podman_hook
from stackproof.inject.effects import job_key, named
from stackproof.inject.effects.check import CheckOptions, ProgramOptions, question_of, setting_of
from stackproof.inject.effects.container import HOOK, ContainerOptions, hook_of
from stackproof.inject.effects.job_key import MountedImage
from stackproof.inject.effects.named import NamedPath
from stackproof.inject.effects.wanted import refuse
from stackproof.inject.judge import judge
from stackproof.inject.model import Judgement
from stackproof.inject.replacement import find_replacement
from stackproof.mpi import families

_ANSWER_S = 300.0
_KEPT_BYTES = 16 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """A container on its way: the MPI of the machine, the image as a file, what is carried in."""

    arm: Arm
    host: Installation
    archive: str
    image_digest: str
    folders: tuple[str, ...]

    @property
    def program(self) -> str:
        return f"{self.folders[0]}/{native_source().name}"

    @property
    def hybrid(self) -> bool:
        return self.arm.bind == "hybrid"

    @property
    def under(self) -> str:
        """Return the digest of what is put under the program, empty for nothing."""
        if self.arm.bind == "hook":
            return job_key.digest(MountedImage(self.arm.artefact, self.arm.artefact))
        return self.host.library_sha256 if self.hybrid else ""

    @property
    def binds(self) -> dict[str, str]:
        found = {folder: folder for folder in self.folders}
        return {**found, self.host.prefix: self.host.prefix} if self.hybrid else found


def of_container(arm: Arm, programs: tuple[str, ...]) -> ReadyArm:
    """Return a container as an arm.

    Raises `StackproofError`: TOOL_MISSING and JOB_FAILED for its runtime, NO_MPI for a container
    without MPI, INJECTION_FAILS and INJECTION_UNKNOWN with every reason of the check, WRONG_MPI
    where another library answers than was put there.
    """
    del programs  # our own is the one that is carried in
    if not arm.host_mpi:
        raise fail(
            Reason.MISSING_KEY,
            f"the container `{arm.container}` needs an MPI of this machine with its ABI",
            hint="say `host-mpi: DIR`, in short container:REFERENCE@/DIR: it compiles what is "
            "carried in, and starts the ranks",
        )
    host = installation.of_prefix(arm.host_mpi)
    if arm.bind == "hook" and (arm.runtime != "podman" or not arm.artefact):
        raise fail(
            Reason.UNSUPPORTED,
            "an arm with `bind: hook` names an `artefact`, and is started by podman",
            hint="make one with `stackproof inject artefact`; a hook of another runtime is set up "
            "by its administrators, and then the arm says `bind: none`",
        )
    if arm.bind == "hybrid" and host.prefix in SYSTEM:
        raise fail(
            Reason.UNSUPPORTED,
            f"`{host.prefix}` cannot be put into a container, which has one of its own",
            hint="name an MPI in a folder of its own with `host-mpi`, or say `bind: none`",
        )
    wrappers = MpiWrappers(wrappers=host.wrappers, identity=host.identity, env=host.env)
    made = [compile_program(wrappers, source) for source in (native_source(), probe_source())]
    archive, digest = _archive(arm)
    folders = tuple(map(str, made))
    case = _Case(arm=arm, host=host, archive=archive, image_digest=digest, folders=folders)
    judgement = _judged(case)
    words = _words(
        case, _hooked(case, judgement) if arm.bind == "hook" else _bound(case, judgement)
    )
    library, said = _asked(case, words)
    return _ready(case, judgement, words, (library, said))


def _archive(arm: Arm) -> tuple[str, str]:
    """Return a container's image as a file, and its digest.

    What is no file is written into the cache; its digest is the runtime's own, as no two archives
    of an image are alike.
    """
    path = arm.container.partition(":")[2] if ":" in arm.container else arm.container
    for text in (arm.container, path):
        if os.path.exists(text) and roots.is_image(text):
            return text, files.sha256(text) if os.path.isfile(text) else text
    runtime = get(arm.runtime)
    digest = _run(arm, (arm.runtime, "image", "inspect", "--format={{.Id}}", arm.container)).strip()
    place = cache_kinds.home("archives") / f"saved-{digest.rpartition(':')[2][:32]}"
    file = place / "image.tar"
    cache_kinds.in_use()
    if not file.exists():
        with cache_folder.alone(place), cache_folder.making(place) as folder:
            argv = runtime.archive(arm.container, str(folder / "image.tar"))
            if not argv:
                raise fail(
                    Reason.UNSUPPORTED,
                    f"`{arm.container}` is no file, and {arm.runtime} writes none of it",
                    hint="name the archive or the SIF file that it was loaded from",
                )
            _run(arm, argv)
        cache_folder.prune("archives", _KEPT_BYTES, keep=place)
    return str(file), digest.rpartition(":")[2]


def _run(arm: Arm, argv: tuple[str, ...]) -> str:
    """Return what a command of the runtime prints; raises `StackproofError` (JOB_FAILED)."""
    command = Command(argv=argv, env=EnvPatch(set=dict(arm.env)), timeout_s=_ANSWER_S, cwd="/")
    done = run(command)
    if done.returncode != 0 or done.timed_out:
        raise failure(command, done, log=None, reason=Reason.JOB_FAILED)
    return done.stdout.decode(errors="replace")


def _judged(case: _Case) -> Judgement:
    """Return whether the program works in the container; raises with every reason against it."""
    place = named.load_place(case.archive)
    wanted = case.host.prefix if case.hybrid else _own_mpi(case, place)
    view = place.view("/", case.binds)
    of = ProgramOptions(programs=(case.program,))
    question = question_of(of, CheckOptions())
    replacement = find_replacement(view, wanted)
    environment = dict(place.root("/").config.environment)
    if not case.hybrid:  # nothing is replaced: it is to find what is there, by the name it asks for
        program = view.look(case.program)
        needed = view.elf(program).needed if program else ()
        asked = [name for name in needed if name in replacement.names and "mpi" in name]
        replacement = find_replacement(view, replacement.names[asked[0]] if asked else wanted)
        own = (*replacement.folders, environment.get("LD_LIBRARY_PATH", ""))
        environment["LD_LIBRARY_PATH"] = ":".join(filter(None, own))
    question = replace(question, setting=setting_of(of, environment))
    judgement = judge(view, case.program, replacement, question)
    refuse([judgement], accept_unknown=case.arm.accept_unknown)
    return judgement


def _own_mpi(case: _Case, place: NamedPath) -> str:
    """Return the prefix of the container's own MPI; raises `StackproofError` (NO_MPI)."""
    try:
        return named.mpi_of(place, place.view("/"))
    except StackproofError as error:
        if error.reason is not Reason.NO_MPI:
            raise
        raise fail(
            Reason.NO_MPI,
            f"the container `{case.arm.container}` has no MPI",
            where=Location(file=case.archive),
            hint="put one of the machine under its programs: `bind: hybrid`",
        ) from None


def _bound(case: _Case, judgement: Judgement) -> ContainerStart:
    """Return what is started so that a program works as it was judged, by folders and variables."""
    containing = plan_containing([judgement], case.binds)
    moved = case.host.env.set if case.hybrid else {}
    return ContainerStart(
        image=case.arm.container,
        binds=containing.binds,
        environment={**moved, **containing.environment},
        options=case.arm.options,
    )


def _hooked(case: _Case, judgement: Judgement) -> ContainerStart:
    """Return the same with a hook that covers the container's own libraries when it starts."""
    arm, start = case.arm, _bound(case, judgement)
    of = ProgramOptions(
        programs=(case.program,), root=case.archive,
        library_path=start.environment.get("LD_LIBRARY_PATH", ""),
    )  # fmt: skip
    options = ContainerOptions(
        replacement=arm.artefact, form="podman-hook", accept_unknown=arm.accept_unknown,
        hook=arm.hook or HOOK,
    )  # fmt: skip
    made = hook_of(of, options, case.binds)
    text = render_podman_hook(made.hook)
    place = cache_kinds.home("programs") / f"hook-{hashlib.sha256(text.encode()).hexdigest()[:32]}"
    with cache_folder.alone(place), cache_folder.making(place) as folder:
        files.write(folder / "mpi.json", text)
        folder.chmod(0o755)
    told = (f"--hooks-dir={place}", f"--annotation={ANNOTATION}={made.hook.name}")
    environment = {**start.environment, **made.environment}
    return replace(start, options=(*told, *start.options), environment=environment)


def _words(case: _Case, start: ContainerStart) -> tuple[str, ...]:
    """Return the words before a rank's program."""
    words = get(case.arm.runtime).words(start)
    if case.arm.runtime != "podman":
        return words
    unset = [word for name in sorted(case.host.env.set) for word in ("--unset", name)]
    return (sys.executable, "-I", "-S", container_rank.__file__, *unset, *words)


def _asked(case: _Case, words: tuple[str, ...]) -> tuple[str, str]:
    """Return the library that a program in the container gets, and what that calls itself."""
    arm = case.arm
    env = EnvPatch(set=dict(arm.env))
    with tempfile.TemporaryDirectory(prefix="stackproof-ask-") as folder:
        argv = (*words, f"{case.folders[1]}/ask")
        done = run(Command(argv=argv, env=env, timeout_s=_ANSWER_S, cwd=folder))
    if done.returncode != 0:
        tail = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()[-6:]
        raise fail(
            Reason.JOB_FAILED,
            f"{arm.runtime} does not run a program in `{arm.container}`: it {how_it_ended(done)}",
            detail="\n".join(tail) or None,
            hint="its own settings may have to be said: `options`, or `env` with CONTAINERS_CONF",
        )
    library, said = parse_probe(done.stdout.decode(errors="replace"))
    bound = library.startswith(f"{case.host.prefix}/")
    if case.hybrid and not bound:
        raise fail(
            Reason.WRONG_MPI,
            f"`{library}` of the container answers, and not that of `{case.host.prefix}`",
            hint="it sets LD_LIBRARY_PATH or LD_PRELOAD when it starts; look at its entrypoint",
        )
    return library, said


def _ready(
    case: _Case, judgement: Judgement, words: tuple[str, ...], answer: tuple[str, str]
) -> ReadyArm:
    arm, host = case.arm, case.host
    library, said = answer
    known = families.identify(said)
    if known is None:
        raise fail(Reason.UNSUPPORTED, f"an unknown MPI is in `{arm.container}`: `{said[:80]}`")
    facts = MpiFacts(
        family=known[0], version=known[1], prefix=host.prefix,
        launcher=families.get(host.family).launcher,
    )  # fmt: skip
    parts = [case.image_digest, os.path.basename(case.folders[0]), case.under]
    digest = hashlib.sha256(" ".join(parts).encode()).hexdigest()
    name = arm.name or arm.label
    return ReadyArm(
        arm=arm,
        image=Image(
            path=host.prefix, name=name, mount=host.prefix, size=0, sha256=digest, mpi=facts
        ),
        deployment=Deployment(
            name=name,
            mounts=(),
            mpi=facts,
            programs={native_source().name: case.program},
            env=host.env,
            image_sha256=digest,
            mpiexec=host.mpiexec,
            wrapped=words,
        ),
        folders=(*case.folders, host.prefix, *_seen(case, words)),
        stamps={path: stamp_of(path) for path in (host.library, case.program)},
        found=_found(case, judgement, library, said),
    )


def _seen(case: _Case, words: tuple[str, ...]) -> tuple[str, ...]:
    """Return what nodes must see of a hook."""
    folders = [word.partition("=")[2] for word in words if word.startswith("--hooks-dir=")]
    return (*folders, case.arm.artefact, case.arm.hook or HOOK) if folders else ()


def _found(case: _Case, judgement: Judgement, library: str, said: str) -> Mapping[str, str]:
    return {
        "container SHA-256": case.image_digest,
        "runtime": case.arm.runtime,
        "bind": case.arm.bind,
        **({"artefact": case.arm.artefact} if case.arm.bind == "hook" else {}),
        "library": library,
        "calls itself": said.splitlines()[0].strip() if said else "",
        "launcher": case.host.mpiexec,
        "benchmark": f"compiled by {case.host.wrappers['c']} and carried in, "
        f"{Path(case.folders[0]).name}",
        "check of that": f"{judgement.verdict.value}"
        + "".join(f"; {one.message}" for one in judgement.findings[:3]),
    }
