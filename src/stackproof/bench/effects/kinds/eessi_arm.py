"""Arms that are an MPI of EESSI: it is set up as its users do, and what lies under it is named.

The benchmark is linked as EESSI's compilers link: the site's override folders are the first ones in
its DT_RPATH, so that it finds the MPI that every program of EESSI finds. EESSI's own programs on
PATH, OSU's among them, are there to be run, too.

Where things lie is EESSI's layout (eessi.io/docs, "Filesystem layer"; its init/modules/EESSI): a
version has its software by processor, and the site's part differs from it by one word.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence

from stackproof.bench.arms import INJECTED, OWN
from stackproof.bench.effects import installation, modules
from stackproof.bench.effects.compile_program import (
    compile_program,
    native_source,
    parse_probe,
    probe_source,
)
from stackproof.bench.effects.installation import Installation
from stackproof.bench.effects.kinds import ArmReader, host_arm
from stackproof.bench.effects.modules import LoadedModules
from stackproof.bench.programs.osu import OSU_TESTS
from stackproof.bench.ready import MpiWrappers, ReadyArm
from stackproof.bench.spec import Arm
from stackproof.build.programs import IMB, ProgramSource
from stackproof.core.command import Command, EnvPatch
from stackproof.core.effects import files
from stackproof.core.effects.run import base_environment, how_it_ended, run
from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.core.value import Value, replace
from stackproof.inject.attempt import Question
from stackproof.inject.eessi import HOME, family_folder
from stackproof.inject.effects import known_releases, named, staging
from stackproof.inject.effects.check import machine_of
from stackproof.inject.effects.wanted import refuse
from stackproof.inject.judge import judge
from stackproof.inject.model import Judgement
from stackproof.inject.replacement import find_replacement, part_of
from stackproof.inject.site_hook import OFF, SWITCH
from stackproof.linking.effects.view import RootView
from stackproof.linking.loader import load_program
from stackproof.mpi import families
from stackproof.mpi.abi import LibraryRole

REPOSITORY = "/cvmfs/software.eessi.io"

# EasyBuild's suffix of a module's version: the compiler, then an accelerator.
_TOOLCHAIN = re.compile(r"-(GCC|LLVM|NVHPC|intel-compilers)(?:core)?-[\d.]+")
_ACCELERATOR = re.compile(r"-(CUDA|ROCm)-([\d.]+)")
_COMPILERS = {"intel-compilers": "Intel"}
_ANSWER_S = 120.0
_PROGRAMS = (*(test.program for test in OSU_TESTS.values()), IMB)


class _Stack(Value):
    """EESSI as it is set up: modules, its software for a processor, its MPI and its overrides."""

    arm: Arm
    repository: str
    how: str
    loaded: LoadedModules
    software: str
    own: Installation
    overrides: tuple[str, ...]

    @property
    def site(self) -> str:
        return site_of(self.repository, self.software)


class _Under(Value):
    """What lies under EESSI's programs: an MPI, which variables put it there, what was judged.

    `taken` are the site's files that programs find before EESSI's: an MPI, or a libfabric alone.
    """

    mpi: Installation
    env: EnvPatch
    judgement: Judgement | None = None
    taken: tuple[str, ...] = ()


def software_of(repository: str, version: str, cpu: str = "") -> str:
    """Return the folder of a version's software, for a processor such as `x86_64/amd/zen3`."""
    return f"{repository}/versions/{version}/software/linux/{cpu}".rstrip("/")


def site_of(repository: str, software: str) -> str:
    """Return the site's folder beside that of a version's software for a processor."""
    rest = software.removeprefix(f"{repository}/versions/")
    return f"{repository}/host_injections/{rest}"


def start_script(repository: str, version: str) -> str:
    """Return the script that starts EESSI's own Lmod and loads its module."""
    return f"{repository}/versions/{version}/init/lmod/bash"


def override_folders(site: str, family: str, modules: Sequence[str]) -> tuple[str, ...]:
    """Return the folders that programs of a toolchain look into before any other, in their order.

    `modules` are loaded ones: the last one with a compiler in its version tells the toolchain
    (EESSI's eb_hooks.py: accelerator and compiler, compiler, plain; each with lib and lib64).
    """
    names = dict.fromkeys((*_variants(modules), "system"))
    return tuple(
        f"{site}/rpath_overrides/{family}/{name}/{library}"
        for name in names
        for library in ("lib", "lib64")
    )


def _variants(modules: Sequence[str]) -> Iterator[str]:
    for name in reversed(modules):
        if found := _TOOLCHAIN.search(name):
            compiler = _COMPILERS.get(found[1], found[1])
            if accelerator := _ACCELERATOR.search(name):
                yield f"system-{compiler}-{accelerator[1].upper()}-{accelerator[2]}"
            yield f"system-{compiler}"
            return


def wrapper_script(wrapper: str) -> str:
    """Return a script that calls a compiler wrapper with the linker that lies beside the script."""
    return f'#!/bin/sh\nexec "{wrapper}" "-B${{0%/*}}/" "$@"\n'


def linker_script(folders: Sequence[str]) -> str:
    """Return a script that links as EESSI's compilers do: the folders come first in a DT_RPATH.

    A wrapper may ask for a DT_RUNPATH, in which the loader would look too late; EasyBuild's linker
    leaves that word out as well.
    """
    paths = ":".join(folders)
    return (
        "#!/bin/sh\nfor word do\n    shift\n"
        '    [ "$word" = --enable-new-dtags ] || set -- "$@" "$word"\ndone\n'
        f'exec ld --disable-new-dtags -rpath "{paths}" "$@"\n'
    )


def of_eessi(arm: Arm, programs: tuple[str, ...]) -> ReadyArm:
    """Return an MPI of EESSI as an arm.

    Raises `StackproofError`: FILE_MISSING where EESSI, a version, a processor's software or an
    injection is not there, what `modules.load` raises, INJECTION_FAILS and INJECTION_UNKNOWN with
    every reason of the check, WRONG_MPI where another library answers than was asked for.
    """
    stack = _stack_of(arm)
    compilers = _wrappers(stack)
    source = native_source()
    built = [compile_program(compilers, one) for one in (source, probe_source())]
    paths = {**_programs_of(stack), source.name: str(built[0] / source.name)}
    lacking = [name for name in programs if name not in paths and name != IMB]
    if lacking:
        raise fail(
            Reason.UNSUPPORTED,
            f"EESSI's modules {', '.join(stack.loaded.names)} do not bring {', '.join(lacking)}",
            hint="load the module that does, for example OSU-Micro-Benchmarks, or say `source`",
        )
    wanted = [paths[name] for name in programs if name in paths]
    under = _under(stack, wanted or [paths[source.name]], paths[source.name])
    library, said = _answer(stack, under, f"{built[1]}/ask")
    return _ready(stack, under, compilers, paths, (library, said))


def _stack_of(arm: Arm) -> _Stack:
    repository = (arm.repository or REPOSITORY).rstrip("/")
    _require(repository, arm)
    how, loaded = _load_modules(arm, repository, {SWITCH: OFF})
    software = _software(repository, arm, loaded)
    own = modules.mpi_of(loaded, named_by=f"EESSI {arm.eessi} with {', '.join(arm.load)}")
    view = RootView()
    (main, *_) = find_replacement(view, own.prefix).mains
    overrides = override_folders(site_of(repository, software), family_folder(main), loaded.names)
    return _Stack(
        arm=arm, repository=repository, how=how, loaded=loaded, software=software, own=own,
        overrides=overrides,
    )  # fmt: skip


def _load_modules(arm: Arm, repository: str, more: Mapping[str, str]) -> tuple[str, LoadedModules]:
    """Return by what EESSI was set up, and what its modules make; raises as `modules.load`."""
    script = start_script(repository, arm.eessi)
    told = {name: value for name, value in arm.env.items() if name.startswith("EESSI_")}
    told |= {"EESSI_CVMFS_REPO": repository, "EESSI_VERSION": arm.eessi, **more}
    if os.path.isfile(script):
        return script, modules.load(arm.load, first=script, told=told)
    names = (f"EESSI/{arm.eessi}", *arm.load)
    loaded = modules.load(names, [f"{repository}/init/modules"], told=told)
    return f"the module EESSI/{arm.eessi}", loaded


def _require(repository: str, arm: Arm) -> None:
    """Raise `StackproofError` (FILE_MISSING) where EESSI, or this version of it, is not."""
    if not os.path.isdir(f"{repository}/versions"):
        raise fail(
            Reason.FILE_MISSING,
            f"EESSI is not there: no `{repository}/versions`",
            where=Location(file=repository),
            hint="it is a file system of CernVM-FS: `cvmfs_config probe software.eessi.io` tells "
            "whether it is mounted; another place is named with `repository`",
        )
    software = software_of(repository, arm.eessi)
    if not os.path.isdir(software):
        raise fail(
            Reason.FILE_MISSING,
            f"EESSI has no version `{arm.eessi}`",
            where=Location(file=software),
            hint=f"`{repository}` has: {', '.join(_listed(f'{repository}/versions')) or 'none'}",
        )


def _listed(folder: str) -> list[str]:
    return sorted(os.listdir(folder)) if os.path.isdir(folder) else []


def _software(repository: str, arm: Arm, loaded: LoadedModules) -> str:
    """Return the folder of software that was chosen; raises FILE_MISSING, UNSUPPORTED."""
    chosen = loaded.env.apply({}).get("EESSI_SOFTWARE_PATH", "")
    top = software_of(repository, arm.eessi)
    here = os.uname().machine
    if not chosen.startswith(f"{top}/"):
        raise fail(
            Reason.INVALID_VALUE,
            f"EESSI {arm.eessi} was not set up"
            + (f": its software would be in `{chosen}`" if chosen else ""),
            where=Location(file=top),
            detail=modules.shown_lines(loaded.said) or None,
            hint="look what its start script says in a new login shell",
        )
    cpu = chosen.removeprefix(f"{top}/")
    if not os.path.isdir(chosen):
        there = [cpu for cpu in _processors(top) if cpu.startswith(f"{here}/")]
        raise fail(
            Reason.FILE_MISSING,
            f"EESSI {arm.eessi} has no software for `{cpu}`",
            where=Location(file=chosen),
            hint=f"for {here} it has: {', '.join(there) or 'nothing'}; say which with "
            "env: {EESSI_ARCHDETECT_OPTIONS_OVERRIDE: …}",
        )
    if cpu.partition("/")[0] != here:
        raise fail(
            Reason.UNSUPPORTED,
            f"EESSI's software for `{cpu}` cannot run on this machine, which is {here}",
            where=Location(file=chosen),
            hint="leave the override of the processor out of `env`",
        )
    return chosen


def _processors(top: str) -> list[str]:
    """Return the processors that a version, or a site's part of it, has folders for."""
    found = []
    for folder, folders, _ in os.walk(top):
        if {"software", "modules", "rpath_overrides"} & {*folders}:
            found.append(os.path.relpath(folder, top))
            folders.clear()
    return sorted(found)


def _wrappers(stack: _Stack) -> MpiWrappers:
    """Return wrappers that link as EESSI's compilers do; they lie in the cache."""
    own = stack.own
    plain = MpiWrappers(wrappers=own.wrappers, identity=own.identity, env=own.env)
    folders = (*stack.overrides, f"{own.prefix}/lib")
    names = {language: os.path.basename(path) for language, path in own.wrappers.items()}
    source = ProgramSource(
        name="eessi-wrappers",
        files={
            "ld": linker_script(folders),
            **{names[one]: wrapper_script(path) for one, path in own.wrappers.items()},
        },
        commands=(("chmod", "755", "ld", *names.values()),),
        outputs=("ld", *sorted(names.values())),
    )
    made = compile_program(plain, source)
    return MpiWrappers(
        wrappers={language: f"{made}/{name}" for language, name in names.items()},
        identity=f"{own.identity} {made.name}",
        env=own.env,
    )


def _programs_of(stack: _Stack) -> dict[str, str]:
    """Return the benchmark programs that EESSI's modules bring, by name."""
    path = stack.loaded.env.apply(base_environment()).get("PATH", "")
    folders = [one for one in path.split(":") if one.startswith(f"{stack.repository}/")]
    found: dict[str, str] = {}
    for name in _PROGRAMS:
        for folder in folders:
            if os.access(f"{folder}/{name}", os.X_OK):
                found.setdefault(name, f"{folder}/{name}")
    return found


def _under(stack: _Stack, wanted: Sequence[str], reference: str) -> _Under:
    """Return what is to lie under the programs; raises what is against it."""
    arm, view, env = stack.arm, RootView(), stack.own.env
    if arm.inject == OWN:
        return _judged(stack, stack.own, stack.own.prefix, wanted)
    if arm.inject and arm.inject != INJECTED:
        return _judged(stack, installation.of_prefix(arm.inject), arm.inject, wanted)
    setting = named.setting_of(env.apply(base_environment()))
    closure = load_program(view, reference, machine=machine_of(None), setting=setting)
    overrides = tuple(f"{folder}/" for folder in stack.overrides)
    taken = tuple(one.path for one in closure.objects if one.path.startswith(overrides))
    if not taken and arm.inject:
        raise _nothing_there(stack)
    mains = [path for path in taken if part_of(os.path.basename(path)) is LibraryRole.MAIN]
    if not mains:
        return _Under(mpi=stack.own, env=env, taken=taken)
    place = os.path.dirname(os.path.dirname(mains[0]))
    host = _host_of(stack, place, mains[0])
    judged = _judged(stack, host, place, wanted)
    return replace(judged, taken=taken, env=judged.env.then(EnvPatch(set=host.env.set)))


def _judged(stack: _Stack, mpi: Installation, prefix: str, wanted: Sequence[str]) -> _Under:
    """Return an MPI under the programs, by the variables that the check found."""
    moved = EnvPatch() if mpi is stack.own else mpi.env
    env, view = stack.own.env.then(moved), RootView()
    setting = named.setting_of(env.apply(base_environment()))
    question = Question(
        machine=machine_of(None), setting=setting, releases=known_releases.load_releases
    )
    found = [judge(view, path, find_replacement(view, prefix), question) for path in wanted]
    refuse(found, accept_unknown=stack.arm.accept_unknown)
    first = found[0]
    for one in found[1:]:
        if one.environment != first.environment:
            raise fail(
                Reason.INJECTION_STEPS,
                f"`{one.program}` needs other variables than `{first.program}` to get the MPI in "
                f"`{prefix}`",
                where=Location(file=one.program),
                hint="measure them in specifications of their own",
            )
    return _Under(mpi=mpi, env=env.then(EnvPatch(set=dict(first.environment))), judgement=first)


def _nothing_there(stack: _Stack) -> StackproofError:
    """Return the error that says what there is in the place of the injection that was asked for."""
    folder = stack.overrides[-2]
    top = site_of(stack.repository, software_of(stack.repository, stack.arm.eessi))
    own = os.path.relpath(stack.software, software_of(stack.repository, stack.arm.eessi))
    there = [
        cpu for cpu in _processors(top)
        if cpu != own and os.path.isdir(f"{top}/{cpu}/{os.path.relpath(folder, stack.site)}")
    ]  # fmt: skip
    return fail(
        Reason.FILE_MISSING,
        f"the site has put no MPI under EESSI's: nothing in `{folder}` is taken",
        where=Location(file=folder),
        hint=(f"it has one for {', '.join(there)}, and this is {own}; " if there else "")
        + f"fill it: stackproof inject apply PROGRAM --with MPI --eessi {stack.site}",
    )


def _host_of(stack: _Stack, place: str, library: str) -> Installation:
    """Return the MPI that the site injected, with what the site's hook makes modules set.

    It is where it was installed. One from an image or an artefact is where it was copied to, with
    its launcher if it brought one. Raises `StackproofError` (MISSING_KEY) where nothing tells.
    """
    record = staging.current(place) if os.path.islink(place) else None
    prefix = stack.arm.host_mpi or (record.prefix if record else _home_of(place, library))
    if record is None or stack.arm.host_mpi or os.path.isdir(f"{prefix}/bin"):
        host = installation.of_prefix(prefix)
    else:
        home, own = f"{place}/{HOME}", stack.own
        launcher = f"{home}/bin/mpiexec"
        moved = families.get(own.family).environment(home).set if os.path.isdir(home) else {}
        host = replace(
            own, prefix=place, env=EnvPatch(set=moved),
            mpiexec=launcher if os.access(launcher, os.X_OK) else "",
        )  # fmt: skip
    if record is None or not record.part:
        return host
    hooked = _load_modules(stack.arm, stack.repository, {})[1].env
    return replace(host, env=host.env.then(hooked))


def _home_of(place: str, library: str) -> str:
    """Return where an MPI was installed to which a site's folder leads, and which has its launcher.

    Raises `StackproofError` (MISSING_KEY) where nothing tells.
    """
    view = RootView()
    closure = load_program(
        view, library, machine=machine_of(None), setting=named.setting_of(base_environment())
    )
    for one in closure.objects:
        prefix = view.traces(one.file).prefix
        if prefix and os.path.isdir(f"{prefix}/bin"):
            return prefix
    real = os.path.dirname(os.path.dirname(os.path.realpath(library)))
    if os.path.isdir(f"{real}/bin"):
        return real
    raise fail(
        Reason.MISSING_KEY,
        f"nothing tells where the MPI in `{place}` was installed, and its launcher is needed",
        where=Location(file=place),
        hint="say it: host-mpi: DIR",
    )


def _answer(stack: _Stack, under: _Under, ask: str) -> tuple[str, str]:
    """Return the library that a program linked as EESSI's gets, and what it calls itself.

    Raises `StackproofError`: NO_MPI for one that does not run, WRONG_MPI for another library.
    """
    done = run(Command(argv=(ask,), env=under.env, timeout_s=_ANSWER_S, cwd="/"))
    if done.returncode != 0:
        printed = (done.stderr or done.stdout).decode(errors="replace")
        raise fail(
            Reason.NO_MPI,
            f"a program that was linked as EESSI's does not run: it {how_it_ended(done)}",
            detail=modules.shown_lines(printed) or None,
        )
    library, said = parse_probe(done.stdout.decode(errors="replace"))
    injected = library.startswith(f"{stack.site}/") or under.taken
    own = os.path.realpath(library).startswith(f"{os.path.realpath(stack.own.prefix)}/")
    asked = stack.arm.inject
    if (asked == INJECTED and not injected) or (asked == OWN and not own):
        raise fail(
            Reason.WRONG_MPI,
            f"`{library}` answers, which is not "
            + ("what the site injected" if asked == INJECTED else "EESSI's own"),
            where=Location(file=library),
            hint="LD_PRELOAD or LD_LIBRARY_PATH of a module leads to it",
        )
    return library, said


def _ready(
    stack: _Stack,
    under: _Under,
    compilers: MpiWrappers,
    paths: Mapping[str, str],
    answer: tuple[str, str],
) -> ReadyArm:
    library, said = answer
    family, version = families.identify(said) or (under.mpi.family, under.mpi.version)
    mpi = replace(
        under.mpi, family=family, version=version, library=library, env=under.env,
        library_sha256=files.sha256(os.path.realpath(library)),
        said=(said.splitlines() or [""])[0].strip(),
    )  # fmt: skip
    wrappers = replace(compilers, env=under.env)
    made = host_arm.ready_of(
        stack.arm, mpi, paths, wrappers, _found(stack, under), how="linked as EESSI's"
    )
    injected = under.mpi is not stack.own
    name = f"eessi-{stack.arm.label}" + (f"-{version}" if injected else "")
    return replace(
        made,
        deployment=replace(made.deployment, name=stack.arm.name or name),
        folders=(*made.folders, *((stack.site,) if injected else ())),
    )


def _found(stack: _Stack, under: _Under) -> dict[str, str]:
    judgement = under.judgement
    cpu = os.path.relpath(stack.software, software_of(stack.repository, stack.arm.eessi))
    told = stack.loaded.env.apply({})
    return {
        "EESSI": f"{stack.arm.eessi} for {cpu}, in {stack.repository}",
        "set up by": stack.how,
        "modules": ", ".join(stack.loaded.names),
        "environment": " ".join(f"{k}={v}" for k, v in told.items() if k.startswith("EESSI_")),
        "its own MPI": stack.own.library,
        "taken from the site": ", ".join(under.taken) or "nothing",
        "asked to lie under it": stack.arm.inject or "what EESSI's programs find",
        **({"check of that": f"{judgement.verdict.value}, by {judgement.way.name}"}
           if judgement else {}),
    }  # fmt: skip


READER = ArmReader(read=of_eessi)
