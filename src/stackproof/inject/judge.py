"""A program and a replacement to a judgement: every way is tried on the model, the best is kept."""

from __future__ import annotations

import itertools
import posixpath
import re
from collections.abc import Iterator

from stackproof.core.value import replace
from stackproof.inject.attempt import InjectionAttempt, Question
from stackproof.inject.findings import abi, constants, launcher, libraries, opening, symbols
from stackproof.inject.model import Cause, Effect, Finding, Judgement, Way, verdict_of
from stackproof.inject.program import Demand, demand_of, traces_of
from stackproof.inject.replacement import Replacement
from stackproof.inject.tree import tree_of
from stackproof.inject.ways import ALIASES, ANY_FOLDER, Overlay, ways
from stackproof.linking.loader import Closure, FileView, Scope, load_program

# --------------------------------------------------------------------------------------------------
# Closures to findings about GPUs: whether the MPI to be injected can take the program's buffers.
#
# Cray MPICH moves GPU buffers with a library of its own (GTL, `libmpi_gtl_cuda` or
# `libmpi_gtl_hsa`) that the program must be linked with: with MPICH_GPU_SUPPORT_ENABLED=1 it ends
# without it, and without the variable it takes a GPU's address for one of the host (OLCF's Frontier
# User Guide, "GPU-Aware MPI"; rule K44 of `knowledge/`). Others have that inside, if they were
# built so.

_RUNTIMES = {
    "CUDA": re.compile(r"libcuda(?:rt)?\.so(?:\.\d+)*"),
    "ROCm": re.compile(r"lib(?:amdhip64|hsa-runtime64)\.so(?:\.\d+)*"),
}
_GTL = {
    "CUDA": re.compile(r"libmpi_gtl_cuda\.so(?:\.\d+)*"),
    "ROCm": re.compile(r"libmpi_gtl_hsa\.so(?:\.\d+)*"),
}
_CRAY_NAME = re.compile(r"libmpi_(?:cray|gnu|intel|amd|aocc|nvidia|pgi)(?:_\d+)?\.so\.12")
# HPE's own libraries, which no other MPI needs.
_CRAY_NEEDS = re.compile(r"lib(?:dsmml|pals)\.so\.\d+")
_PLUGIN = {"CUDA": re.compile(r".*cuda.*\.so.*"), "ROCm": re.compile(r".*(?:rocm|hip|hsa).*\.so.*")}


def gpu_findings(case: InjectionAttempt) -> Iterator[Finding]:
    """Yield what the files say of GPU buffers, for a program that loads CUDA or ROCm itself."""
    main = case.main
    if main is None:
        return
    for runtime in _runtimes(case):
        gtls = {kind: _named(case.after, pattern) for kind, pattern in _GTL.items()}
        if _is_cray(case):
            yield from _gtl_findings(case, runtime, gtls)
            continue
        if gtls[runtime]:
            yield Finding(
                cause=Cause.GTL,
                effect=Effect.NOTE,
                message=f"`{gtls[runtime]}` is of Cray MPICH; this MPI does not use it",
                provider=gtls[runtime],
            )
        if not _knows(case, runtime):
            yield Finding(
                cause=Cause.GPU,
                effect=Effect.CANNOT_TELL,
                message=f"the program uses {runtime}, and nothing in this MPI does: buffers in a "
                "GPU's memory would crash it, buffers of the host work",
                provider=main.path,
                remedy=f"inject an MPI built with {runtime}, unless all buffers are of the host",
            )


def _gtl_findings(case: InjectionAttempt, runtime: str, gtls: dict[str, str]) -> Iterator[Finding]:
    other = next((name for kind, name in gtls.items() if kind != runtime and name), "")
    if other and not gtls[runtime]:
        yield Finding(
            cause=Cause.GTL,
            effect=Effect.FAILS,
            message=f"the program uses {runtime}, and `{other}` is for other GPUs",
            provider=other,
            remedy="load the GTL for the program's GPUs in its place",
        )
    elif not gtls[runtime]:
        brought = [path for name, path in case.replacement.names.items()
                   if _GTL[runtime].fullmatch(name)]  # fmt: skip
        yield Finding(
            cause=Cause.GTL,
            effect=Effect.STEP if brought else Effect.CANNOT_TELL,
            message=f"the program uses {runtime} and was not linked with Cray MPICH's GTL: buffers "
            "in a GPU's memory need it",
            provider=brought[0] if brought else "",
            remedy=f"LD_PRELOAD={brought[0]} and MPICH_GPU_SUPPORT_ENABLED=1"
            if brought
            else "name the GTL of that MPI with LD_PRELOAD, unless the program hands over buffers "
            "of the host only",
        )


def _runtimes(case: InjectionAttempt) -> list[str]:
    """Return the GPU runtimes that the program and its own libraries ask for."""
    asked = {
        edge.name
        for edge in case.after.edges
        if not case.owns(case.after.objects[edge.by].path)
        and not _named_gtl(case.after.objects[edge.by].path)
    }
    return [
        kind
        for kind, pattern in _RUNTIMES.items()
        if any(pattern.fullmatch(name) for name in asked)
    ]


def _named_gtl(path: str) -> bool:
    name = path.rpartition("/")[2]
    return any(pattern.fullmatch(name) for pattern in _GTL.values())


def _named(closure: Closure, pattern: re.Pattern[str]) -> str:
    """Return the path of the first object whose name fits, empty for none."""
    for loaded in closure.objects:
        if pattern.fullmatch(loaded.soname):
            return loaded.path
    return ""


def _is_cray(case: InjectionAttempt) -> bool:
    main = case.main
    if main is None:
        return False
    return bool(_CRAY_NAME.fullmatch(main.elf.soname)) or any(
        _CRAY_NEEDS.fullmatch(name) for name in main.elf.needed
    )


def _knows(case: InjectionAttempt, runtime: str) -> bool:
    """Return whether an injected library asks for a runtime, or has a plug-in that would."""
    wanted, plugin = _RUNTIMES[runtime], _PLUGIN[runtime]
    for loaded in case.after.objects:
        if not case.owns(loaded.path):
            continue
        opened = traces_of(case.view, loaded).opened
        names = (name.rpartition("/")[2] for name in (*loaded.elf.needed, *opened))
        if any(wanted.fullmatch(name) for name in names):
            return True
    paths = case.replacement.plugins(case.view)
    return any(plugin.fullmatch(path.rpartition("/")[2]) for path in paths)


_OTHER_WAY = {Cause.MIXED, Cause.OPENED_LATER}
"""What may be otherwise in another way, though it is no failure."""
_NOT_TAKEN = 1_000_000_000
_WEIGHTS = {Effect.FAILS: 1_000_000, Effect.CANNOT_TELL: 1_000, Effect.STEP: 1, Effect.NOTE: 0}


def judge(view: FileView, program: str, replacement: Replacement, question: Question) -> Judgement:
    """Return whether a program works with a replacement, and how.

    Raises `StackproofError` when the program itself cannot be read.
    """
    file = view.look(program)
    if file and file.set_id:
        question = replace(question, setting=replace(question.setting, secure=True))
    view_before = question.before or view
    start = question.changed()
    before = load_program(view_before, program, machine=question.machine, setting=start)
    demand = demand_of(view_before, before, question.opens)
    main = replacement.main_for(demand.abi, launcher.abi_of(question.launcher))
    best: tuple[int, InjectionAttempt, tuple[Finding, ...]] | None = None
    tries = ways(replacement, demand, main, question)
    if question.before is not None:
        tries = iter([Way(name="as-is")])
    elif any(replacement.owns(loaded.path) for loaded in before.objects[1:]):
        tries = itertools.chain([Way(name="as-is")], tries)  # a DT_RPATH leads there already
    for way in tries:
        after = _loaded(view, program, way, question)
        new_demand = _joined(view, demand, after, question.opens)
        case = InjectionAttempt(
            view=view,
            before=before,
            after=after,
            scope=Scope(after),
            replacement=replacement,
            main=main,
            demand=new_demand,
            question=question,
            way=_pruned(way, after, new_demand),
            links=way.links,
        )
        found = tuple(_findings(case))
        weight = sum(map(_weight, found))
        if best is None or weight < best[0]:
            best = weight, case, found
        if not any(f.effect is Effect.FAILS or f.cause in _OTHER_WAY for f in found):
            break
    if best is None:
        raise ValueError("there is always one way")
    _, case, found = best
    if question.with_plugins:
        found += tuple(libraries.plugin_findings(case))
    relocated = any(finding.cause is Cause.RELOCATED for finding in found)
    return Judgement(
        program=program,
        replacement=replacement.prefix,
        verdict=verdict_of(found),
        abi=case.demand.abi or "",
        family=main.family.name if main else "",
        way=case.way,
        environment=case.environment(relocated=relocated),
        findings=tuple(_shown(one, program, case.way) for one in sorted(found, key=_order)),
        tree=tree_of(case.after, (replacement.prefix,)),
    )


def _shown(finding: Finding, program: str, way: Way) -> Finding:
    """Return a finding that names files that are there: no link that is still to be made."""
    message = finding.message
    for link, target in way.links.items():
        message = message.replace(f"`{link}`", f"`{target}`")
    return replace(
        finding,
        message=message,
        file=way.links.get(finding.file, finding.file) or program,
        provider=way.links.get(finding.provider, finding.provider),
        remedy=finding.remedy.replace(ALIASES, ANY_FOLDER),
    )


def _order(finding: Finding) -> tuple[bool, int]:
    """Return the place of a finding: the ABI first, as all else hangs on it, then the worst."""
    of_abi = finding.cause in {Cause.OTHER_ABI, Cause.ABI_UNKNOWN}
    return not (of_abi and finding.effect is not Effect.NOTE), [*_WEIGHTS].index(finding.effect)


def _weight(finding: Finding) -> int:
    """Return how bad a finding is; a way that does not inject at all is the worst."""
    return _NOT_TAKEN if finding.cause is Cause.NOT_INJECTED else _WEIGHTS[finding.effect]


def _loaded(view: FileView, program: str, way: Way, question: Question) -> Closure:
    overlay = Overlay(view, links=way.links, rpath=way.rpath, program=program)
    new = question.changed(way.library_path, way.preload)
    new = replace(new, preload=(*new.preload, *way.opened))
    return load_program(overlay, program, machine=question.machine, setting=new)


def _pruned(way: Way, after: Closure, demand: Demand) -> Way:
    """Return a way without the links that nothing asks for."""
    asked = {edge.name for edge in after.edges} | {*demand.opens}
    asked |= {posixpath.basename(path) for path in (*way.preload, *way.opened)}
    links = {path: to for path, to in way.links.items() if posixpath.basename(path) in asked}
    if links or not way.links:
        return replace(way, links=links)
    without = tuple(folder for folder in way.library_path if folder != ALIASES)
    rpath = tuple(folder for folder in way.rpath if folder != ALIASES)
    return replace(way, links=links, library_path=without, rpath=rpath)


def _joined(view: FileView, demand: Demand, after: Closure, opens: tuple[str, ...]) -> Demand:
    """Return the demand with the users of the new closure, where more may have been found."""
    if demand.users:
        return demand
    more = demand_of(view, after, opens)
    return replace(more, promised=demand.promised or more.promised)


def _findings(case: InjectionAttempt) -> Iterator[Finding]:
    start = tuple(abi.start_findings(case))
    yield from start
    if any(finding.effect is Effect.FAILS for finding in start):
        return
    yield from libraries.tool_findings(case)
    shown = tuple(abi.abi_findings(case))
    yield from shown
    if any(one.cause is Cause.OTHER_ABI and not one.before for one in shown):
        return  # nothing else could help, and a remedy for less would do harm
    for find in _FINDINGS:
        yield from find(case)


_FINDINGS = (
    constants.value_findings, constants.descriptor_findings, symbols.file_findings,
    abi.taken_findings, symbols.version_findings, symbols.symbol_findings,
    opening.missing_findings, symbols.partial_findings, libraries.mixed_findings,
    symbols.double_findings, symbols.copy_findings, symbols.block_findings,
    abi.instruction_findings, abi.audit_findings, gpu_findings, launcher.launcher_findings,
    launcher.environment_findings, launcher.namespace_findings,
    opening.startup_findings, abi.unjudged_findings, abi.step_findings,
)  # fmt: skip
