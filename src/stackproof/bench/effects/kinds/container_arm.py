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
from collections.abc import Mapping, Sequence
from pathlib import Path

from stackproof.bench.effects import installation
from stackproof.bench.effects.compile_program import (
    compile_program,
    native_source,
    parse_probe,
    probe_source,
)
from stackproof.bench.effects.installation import SYSTEM, Installation
from stackproof.bench.effects.kinds import ArmReader, container_rank, stamp_of
from stackproof.bench.effects.kinds.container_case import (
    ANSWER_S,
    ContainerCase,
    find_archive,
    run_runtime,
)
from stackproof.bench.ready import MpiWrappers, ReadyArm
from stackproof.bench.runtimes import REGISTRY, ContainerStart, get
from stackproof.bench.spec import Arm
from stackproof.build.programs import IMB
from stackproof.core.command import Command, EnvPatch
from stackproof.core.effects import cache_folder, cache_kinds, files
from stackproof.core.effects.run import how_it_ended, run
from stackproof.core.errors import Location, Problem, Reason, StackproofError, fail
from stackproof.core.value import Value, replace
from stackproof.image.container.effects import roots
from stackproof.image.model import Deployment, Image, MpiFacts
from stackproof.inject.container import ANNOTATION, plan_containing, render_podman_hook
from stackproof.inject.effects import job_key, named
from stackproof.inject.effects.check import question_of, setting_of
from stackproof.inject.effects.container import HOOK, hook_of
from stackproof.inject.effects.job_key import MountedImage
from stackproof.inject.effects.named import NamedPath
from stackproof.inject.effects.wanted import refuse
from stackproof.inject.judge import judge
from stackproof.inject.model import Judgement, worst
from stackproof.inject.options import CheckOptions, ContainerOptions, ProgramOptions
from stackproof.inject.replacement import Main, find_replacement
from stackproof.mpi import families

# What images call processors (OCI image specification, GOARCH), as the kernel does.
_ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64", "x86_64": "x86_64", "aarch64": "aarch64"}


def of_container(arm: Arm, programs: tuple[str, ...]) -> ReadyArm:
    """Return a container as an arm, with what of `programs` its machine's MPI has.

    Raises `StackproofError`: TOOL_MISSING and JOB_FAILED for its runtime, NO_MPI for a container
    without MPI, INJECTION_FAILS and INJECTION_UNKNOWN with every reason of the check, WRONG_MPI
    where another library answers than was put there.
    """
    if not arm.host_mpi:
        raise fail(
            Reason.MISSING_KEY,
            f"the container `{arm.container}` needs an MPI of this machine with its ABI",
            hint="say `host-mpi: DIR`, in short container:REFERENCE@/DIR: it compiles what is "
            "carried in, and starts the ranks",
        )
    host = _host(arm)
    if arm.bind == "hook" and not (get(arm.runtime).hooks and arm.artefact):
        able = [name for name, row in REGISTRY.items() if row.hooks]
        raise fail(
            Reason.UNSUPPORTED,
            f"an arm with `bind: hook` names an `artefact`, and is started by {' or '.join(able)}",
            hint="make one with `stackproof inject artefact`; a hook of another runtime is set up "
            "by its administrators, and then the arm says `bind: none`",
        )
    if arm.bind == "hybrid" and host.prefix in SYSTEM:
        raise fail(
            Reason.UNSUPPORTED,
            f"`{host.prefix}` cannot be put into a container, which has one of its own",
            hint="name an MPI in a folder of its own with `host-mpi`, or say `bind: none`",
        )
    wrappers = _wrappers(host)
    made = [compile_program(wrappers, source) for source in (native_source(), probe_source())]
    image, archive, digest = find_archive(arm)
    paths = {native_source().name: f"{made[0]}/{native_source().name}"}
    imb = f"{host.prefix}/bin/{IMB}"
    if IMB in programs and os.access(imb, os.X_OK):
        paths[IMB] = imb
    case = ContainerCase(
        arm=arm, host=host, image=image, archive=archive, image_digest=digest,
        folders=(*map(str, made), *(path for name, path in paths.items() if name == IMB)),
        programs=paths,
    )  # fmt: skip
    return _prepared(case)


def _host(arm: Arm) -> Installation:
    """Return the MPI of the machine; what is put into a container is the folder that has its files.

    A view, and what `stackproof install` makes, has links that lead out of it.
    """
    host = installation.of_prefix(arm.host_mpi)
    wrapper = host.wrappers["c"]
    own = os.path.dirname(os.path.dirname(os.path.realpath(wrapper)))
    real = f"{own}/bin/{os.path.basename(wrapper)}"
    if arm.bind != "hybrid" or own == os.path.realpath(host.prefix) or not os.path.exists(real):
        return host
    return installation.of_prefix(real)


class ReadyContainer(ReadyArm):
    """A container made ready, with what it is made of."""

    case: ContainerCase

    @property
    def contained(self) -> bool:
        """Return True."""
        return True

    @property
    def foreign(self) -> bool:
        """Return whether the container's own MPI is used."""
        return not self.case.hybrid

    def carrying(self, folder: str, programs: Mapping[str, str]) -> ReadyArm:
        """Return a container that more programs are carried into; raises as `of_container`."""
        case = self.case
        more = {**case.programs, **programs}
        return _prepared(replace(case, folders=(*case.folders, folder), programs=more))

    def hidden(self, driver: Sequence[str]) -> Problem | None:
        """Return the problem of a container in which no such library can be opened.

        What srun starts can be asked inside of a job only: until then it is taken for granted.
        """
        if self.step and "SLURM_JOB_ID" not in os.environ:
            return None
        started = _Started(words=self.deployment.wrapped, step=self.step)
        if _run_in(self.case, started, driver).split():
            return None
        return Problem(
            reason=Reason.NO_GPU,
            message=f"nothing in the container `{self.arm.container}` is the driver of a GPU "
            f"(`{driver[0]}`), and message buffers are to lie there",
            hint=f"give it one with `options`; {self.arm.runtime}: {get(self.arm.runtime).gpu}",
        )


def _wrappers(host: Installation) -> MpiWrappers:
    return MpiWrappers(wrappers=host.wrappers, identity=host.identity, env=host.env)


def _prepared(case: ContainerCase) -> ReadyArm:
    judged = _judged(case)
    judgements = judged.judgements
    start = _hooked(case, judgements) if case.arm.bind == "hook" else _bound(case, judgements)
    started = _started(case, start)
    return _ready(case, judged, started, _asked(case, judged, started))


class _Judged(Value):
    """What was judged of each program, and the MPI that was put under all of them, or is there.

    `library` is its main library, `known` the family and version that its file tells of.
    """

    judgements: tuple[Judgement, ...]
    library: str
    known: tuple[str, str] | None


def _judged(case: ContainerCase) -> _Judged:
    """Return whether the programs work in the container; raises with every reason against it."""
    place = _place(case)
    _require_architecture(case, place)
    wanted = case.host.prefix if case.hybrid else _own_mpi(case, place)
    view = place.view("/", case.binds)
    of = ProgramOptions(programs=tuple(case.programs.values()))
    question = question_of(of, CheckOptions())
    replacement = find_replacement(view, wanted)
    environment = dict(place.root("/").config.environment)
    if not case.hybrid:  # nothing is replaced: it is to find what is there, by the name it asks for
        program = view.look(of.programs[0])
        needed = view.elf(program).needed if program else ()
        asked = [name for name in needed if name in replacement.names and "mpi" in name]
        replacement = find_replacement(view, replacement.names[asked[0]] if asked else wanted)
        own = (*replacement.folders, environment.get("LD_LIBRARY_PATH", ""))
        environment["LD_LIBRARY_PATH"] = ":".join(filter(None, own))
    question = replace(question, setting=setting_of(of, environment))
    found = tuple(judge(view, path, replacement, question) for path in of.programs)
    # One environment for all: what finds its MPI without is to find it with that as well.
    told = max((one.environment for one in found), key=len)
    question = replace(question, setting=setting_of(of, {**environment, **told}))
    found = tuple(
        one if one.environment == told else judge(view, one.program, replacement, question)
        for one in found
    )
    refuse(found, accept_unknown=case.arm.accept_unknown)
    main = replacement.mains[0] if replacement.mains else None
    return _Judged(
        judgements=found,
        library=main.path if main else "",
        known=_told_by(main, view.traces(main.file).release) if main else None,
    )


def _place(case: ContainerCase) -> NamedPath:
    """Return the place of the container's root; a plain folder is one by itself here."""
    if os.path.isdir(case.archive) and not roots.is_image(case.archive):
        return NamedPath(path="/", image=case.archive)
    return named.load_place(case.archive)


def _told_by(main: Main, release: str) -> tuple[str, str] | None:
    """Return the family and the version of an MPI by its library alone."""
    name = next((one for one in families.REGISTRY if main.family.name.startswith(one)), "")
    return (name, release) if name and release else None


def _require_architecture(case: ContainerCase, place: NamedPath) -> None:
    """Raise `StackproofError` (UNSUPPORTED) for an image that says it is for another processor."""
    said = place.root("/").config.architecture
    here = named.this_machine().architecture
    if said and _ARCHITECTURES.get(said, said) != here:
        raise fail(
            Reason.UNSUPPORTED,
            f"the container `{case.arm.container}` is for {said}, and this machine is {here}",
            where=Location(file=case.archive),
            hint=f"name the image of that tag for {here}",
        )


def _own_mpi(case: ContainerCase, place: NamedPath) -> str:
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


def _bound(case: ContainerCase, judgements: Sequence[Judgement]) -> ContainerStart:
    """Return what is started so that programs work as they were judged."""
    containing = plan_containing(judgements, case.binds)
    moved = case.host.env.set if case.hybrid else {}
    return ContainerStart(
        image=case.image,
        binds=containing.binds,
        environment={**moved, **containing.environment},
        options=case.arm.options,
    )


def _hooked(case: ContainerCase, judgements: Sequence[Judgement]) -> ContainerStart:
    """Return the same with a hook that covers the container's own libraries when it starts."""
    arm, start = case.arm, _bound(case, judgements)
    of = ProgramOptions(
        programs=tuple(case.programs.values()), root=case.archive,
        library_path=start.environment.get("LD_LIBRARY_PATH", ""),
    )  # fmt: skip
    options = ContainerOptions(
        replacement=arm.artefact, form="podman-hook", accept_unknown=arm.accept_unknown,
        hook=arm.hook or HOOK,
    )  # fmt: skip
    made = hook_of(of, options, case.binds)
    place = _written("hook", "mpi.json", render_podman_hook(made.hook))
    return replace(
        start,
        hooks=os.path.dirname(place),
        annotations={ANNOTATION: made.hook.name},
        environment={**start.environment, **made.environment},
    )


def _written(kind: str, name: str, text: str) -> str:
    """Return the path of a text in the cache, in a folder with its digest for a name."""
    place = (
        cache_kinds.home("programs") / f"{kind}-{hashlib.sha256(text.encode()).hexdigest()[:32]}"
    )
    with cache_folder.alone(place), cache_folder.making(place) as folder:
        files.write(folder / name, text)
        folder.chmod(0o755)
    return str(place / name)


class _Started(Value):
    """How a container is started: words before a program, or options of srun; what nodes read."""

    words: tuple[str, ...]
    step: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


def _started(case: ContainerCase, start: ContainerStart) -> _Started:
    runtime, hooks = get(case.arm.runtime), (start.hooks,) if start.hooks else ()
    read = (*hooks, case.arm.artefact, case.arm.hook or HOOK) if hooks else ()
    words = runtime.words(start)
    if runtime.in_steps:
        text = runtime.file(start)
        path = _written("edf", "environment.toml", text) if text else ""
        step = tuple(word.replace("{file}", path) for word in words)
        return _Started(words=(), step=step, files=(*read, *filter(None, (path,))))
    if case.arm.runtime != "podman":
        return _Started(words=words, files=read)
    unset = [word for name in sorted(case.host.env.set) for word in ("--unset", name)]
    own = (sys.executable, "-I", "-S", container_rank.__file__, *_group(case.arm))
    return _Started(words=(*own, *unset, *words), files=read)


def _group(arm: Arm) -> tuple[str, ...]:
    """Return how ranks ask for control groups of their own, where podman makes these by itself.

    systemd puts each container into a scope of its own, below a slice that only it may fill.
    """
    if any(option.startswith("--cgroup") for option in arm.options):
        return ()
    manager = run_runtime(arm, ("podman", "info", "--format={{.Host.CgroupManager}}")).strip()
    return ("--own-group",) if manager == "cgroupfs" else ()


def _run_in(case: ContainerCase, started: _Started, words: Sequence[str]) -> str:
    """Return what the small program prints in the container; raises `StackproofError`."""
    arm, env = case.arm, EnvPatch(set=dict(case.arm.env))
    step = ("srun", "--nodes=1", "--ntasks=1", "--mpi=none", *started.step) if started.step else ()
    with tempfile.TemporaryDirectory(prefix="stackproof-ask-") as folder:
        argv = (*step, *started.words, f"{case.folders[1]}/ask", *words)
        done = run(Command(argv=argv, env=env, timeout_s=ANSWER_S, cwd=folder))
    if done.returncode != 0:
        tail = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()[-6:]
        raise fail(
            Reason.JOB_FAILED,
            f"{arm.runtime} does not run a program in `{arm.container}`: it {how_it_ended(done)}",
            detail="\n".join(tail) or None,
            hint=f"its own settings may have to be said: {get(arm.runtime).settings}",
        )
    return done.stdout.decode(errors="replace")


def _asked(case: ContainerCase, judged: _Judged, started: _Started) -> tuple[str, str]:
    """Return the library that a program in the container gets, and what that calls itself.

    What srun starts can be asked inside of a job only: until then it is what the files say.
    """
    if started.step and "SLURM_JOB_ID" not in os.environ:
        return judged.library, " ".join(judged.known or ())
    library, said = parse_probe(_run_in(case, started, ()))
    if case.hybrid and not library.startswith(f"{case.host.prefix}/"):
        raise fail(
            Reason.WRONG_MPI,
            f"`{library}` of the container answers, and not that of `{case.host.prefix}`",
            hint="it sets LD_LIBRARY_PATH or LD_PRELOAD when it starts; look at its entrypoint",
        )
    return library, said


def _ready(
    case: ContainerCase, judged: _Judged, started: _Started, answer: tuple[str, str]
) -> ReadyArm:
    arm, host = case.arm, case.host
    library, said = answer
    known = families.identify(said) or judged.known
    if known is None:
        raise fail(Reason.UNSUPPORTED, f"an unknown MPI is in `{arm.container}`: `{said[:80]}`")
    facts = MpiFacts(
        family=known[0], version=known[1], prefix=host.prefix,
        launcher=families.get(host.family).launcher,
    )  # fmt: skip
    parts = [case.image_digest, os.path.basename(case.folders[0]), _under(case)]
    digest = hashlib.sha256(" ".join(parts).encode()).hexdigest()
    name = arm.name or arm.label
    native = case.programs[native_source().name]
    return ReadyContainer(
        arm=arm,
        image=Image(
            path=host.prefix, name=name, mount=host.prefix, size=0, sha256=digest, mpi=facts
        ),
        deployment=Deployment(
            name=name,
            mounts=(),
            mpi=facts,
            programs={**case.programs},
            env=host.env,
            image_sha256=digest,
            mpiexec=host.mpiexec,
            wrapped=started.words,
        ),
        folders=(*case.folders, host.prefix, *started.files),
        stamps={path: stamp_of(path) for path in (host.library, native)},
        found=_found(case, judged.judgements, library, said),
        compilers=_wrappers(host),
        case=case,
        step=started.step,
    )


def _under(case: ContainerCase) -> str:
    """Return the digest of what is put under the program, empty for nothing."""
    if case.arm.bind == "hook":
        return job_key.digest(MountedImage(case.arm.artefact, case.arm.artefact))
    return case.host.library_sha256 if case.hybrid else ""


def _found(
    case: ContainerCase, judgements: Sequence[Judgement], library: str, said: str
) -> Mapping[str, str]:
    told = dict.fromkeys(one.message for each in judgements for one in each.findings[:3])
    verdict = worst(tuple(one.verdict for one in judgements)).value
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
        "check of that": "; ".join((verdict, *told)),
    }


READER = ArmReader(read=of_container)
