"""Whether program and library mean the same by constants, and by descriptors of Fortran.

What a symbol is called says nothing of the values that are handed to it: a library that means
another thing by `MPI_SEEK_SET` runs, and reads the wrong bytes.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from stackproof.core.value import replace
from stackproof.inject.attempt import InjectionAttempt
from stackproof.inject.findings.opening import Calling, find_calling
from stackproof.inject.findings.symbols import (
    asks_for_the_version,
    compiled_with,
    maker_before,
    maker_injected,
)
from stackproof.inject.model import Cause, Effect, Finding
from stackproof.inject.program import calls_mpi, traces_of
from stackproof.inject.values import EVERY, KnownValue, Meaning, find
from stackproof.linking.elf.flow import Handed, Relay
from stackproof.linking.elf.telling import CODES, FUNCTIONS, functions_with_constants
from stackproof.linking.loader import MappedObject
from stackproof.mpi.abi import Abi


def value_findings(case: InjectionAttempt) -> Iterator[Finding]:
    """Yield the values that a program hands to MPI and the injected release lacks or takes amiss.

    What only stands in code or data, or is handed over by a program that asks for the version of
    the MPI, may never reach it.
    """
    if case.main is None or case.demand.abi != case.main.family.abi:
        return
    calling = find_calling(case)
    for opener in calling.unseen[:1]:
        yield from _hidden_findings(case, opener)
    for user in {user.path: user for user in (*case.demand.users, *calling.own)}.values():
        traces = traces_of(case.view, user)
        looked_up = traces.looked_up if calling.looks_up else ()
        if not looked_up and not calls_mpi(user.elf, posixpath.basename(user.path)):
            continue
        seen = {handed.value for handed in traces.handed}
        relayed = tuple(_relayed_findings(case, calling, user, traces.relays))
        yield from relayed
        shown = {*traces.followed, *(relay.to for relay in traces.relays if relayed)}
        called = functions_with_constants(entry.name for entry in user.elf.imports)
        for function in sorted((called - shown) | (FUNCTIONS.keys() & looked_up)):
            yield from _hidden_findings(case, user, function)
        loose = (Handed("", 0, value) for value in traces.newer if value not in seen)
        worst: dict[int, Finding] = {}
        for handed in (*traces.handed, *loose):
            finding = _value_finding(case, user, handed)
            if finding and (handed.value not in worst or finding.effect is Effect.FAILS):
                worst[handed.value] = finding
        yield from worst.values()


def _relayed_findings(
    case: InjectionAttempt, calling: Calling, user: MappedObject, relays: tuple[Relay, ...]
) -> Iterator[Finding]:
    """Yield the values that other files hand to MPI by way of functions of a library."""
    ways = {(relay.function, relay.position): relay for relay in relays}
    names = {relay.function for relay in relays}
    for loaded in calling.closure.objects if names else ():
        if loaded is user or names.isdisjoint(entry.name for entry in loaded.elf.imports):
            continue
        for name, position, value in traces_of(case.view, loaded).sent:
            relay = ways.get((name, position))
            if relay is None:
                continue
            handed = Handed(relay.to, relay.to_position, value)
            finding = _value_finding(case, loaded, handed, asks=asks_for_the_version(user))
            if finding is not None:
                by = f", by `{name}` of `{user.path}`"
                yield replace(finding, message=finding.message + by)


def _hidden_findings(
    case: InjectionAttempt, user: MappedObject, function: str = ""
) -> Iterator[Finding]:
    """Yield that a function may get a constant that code does not show, and the target lacks.

    Without a function it is about libraries that `user` opens by names which do not show.
    """
    names, own, target = _lacking(case, function), compiled_with(case), maker_injected(case)
    if function and not names:
        return
    message = f"what it {f'hands to {function.upper()}' if function else 'opens'} does not show"
    if names:
        more = " and more" if names[8:] else ""
        message += f": {_title(target[0])} {target[1]} lacks or renumbers "
        message += ", ".join(f"`{name}`" for name in names[:8]) + more
        message += f" as {_title(own[0])} {own[1]} has it" if own[1] else ""
    yield Finding(
        cause=Cause.CONSTANTS,
        effect=Effect.CANNOT_TELL if names else Effect.NOTE,
        message=message,
        file=user.path,
        provider=case.main.path if case.main else "",
        symbols=names,
        remedy="try it: `inject prove`"
        + ("" if own[1] else "; or say what compiled it: --compiled-with mpich-4.3.1"),
    )


def _lacking(case: InjectionAttempt, function: str) -> tuple[str, ...]:
    """Return the constants that a function, or any for an empty one, may get and the target lacks.

    A program has the constants of the MPI that it was compiled with; where that is not known, those
    of any release. An error's code is what MPI itself returned, unless it is a class.
    """
    if case.main is None:
        return ()
    own, target = compiled_with(case), maker_injected(case)
    names: dict[str, None] = {}
    prefix = "MPIX_" if function.startswith("mpix_") else "MPI_"  # few use what others may lack
    for known in case.question.releases().values if target not in {own, maker_before(case)} else ():
        if function and function not in known.functions:
            continue
        theirs, ours = known.meaning(*target), known.meaning(*own)
        possible = (ours.name,) if ours else _possible(known, case.main.family.abi)
        lacking = [
            name
            for name in possible
            if name and (not theirs or name != theirs.name) and name.startswith(("MPI_", prefix))
        ]
        same = theirs is not None and theirs.name in possible
        if same and case.main.family.abi != Abi.STANDARD:
            continue
        of_codes = function in CODES and (theirs is None or function not in theirs.fails)
        if lacking and not of_codes and (same or _judged(theirs, function)[0] is not None):
            names.update(dict.fromkeys(lacking))
    return tuple(names)


def _value_finding(
    case: InjectionAttempt, user: MappedObject, handed: Handed, *, asks: bool = False
) -> Finding | None:
    function, _, value = handed
    known = find(case.question.releases().values, value, function)
    if known is None or case.main is None:
        return None
    own, (maker, release) = maker_before(case), maker_injected(case)
    built, theirs = known.meaning(*own), known.meaning(maker, release)
    # What lacks it is not what the program was built with, whatever it finds now.
    names = (built.name,) if built and built.name else _possible(known, case.main.family.abi)
    if not names or (theirs is None and release and own == (maker, release)):
        return None
    effect: Effect | None = Effect.CANNOT_TELL
    if theirs is not None and function in theirs.doubtful and own != (maker, release):
        words = "has it, and does not take it everywhere"
    elif theirs is not None and theirs.name in names:
        if len(names) == 1 or case.main.family.abi != Abi.STANDARD:
            return None  # few programs are of the releases that mean another by it
        words = f"means `{theirs.name}` by that"
    else:
        effect, words = _judged(theirs, function)
    if effect is None:
        return None
    if asks or asks_for_the_version(user):
        # What only stands in its code or data is no sign that it reaches an MPI which lacks it.
        effect = Effect.CANNOT_TELL if function else Effect.NOTE
        words += "; it asks for the version of the MPI, and may not hand it over"
    constant = " or ".join(f"`{name}`" for name in names)
    at = f"hands {constant} to {function.upper()}" if function else f"has {constant} ({value:#x})"
    has = ", ".join(
        f"{_title(meaning.family)} from {'.'.join(map(str, meaning.first))} on"
        for meaning in known.meanings
        if meaning.name in names and meaning.first and not meaning.last
    )
    return Finding(
        cause=Cause.CONSTANTS,
        effect=effect,
        message=f"it {at}, and {_title(maker)} {release}".rstrip() + f" {words}",
        file=user.path,
        provider=case.main.path,
        symbols=names,
        remedy=f"inject a release that has it{f' ({has})' if has else ''}, or build the program "
        "with the header of this one",
    )


def _possible(known: KnownValue, family: str) -> tuple[str, ...]:
    """Return the constant that a program may mean, the standard's first."""
    from stackproof.mpi import families  # noqa: PLC0415 - only where a value is in doubt

    every = families.REGISTRY.values()
    makers = {one.name for one in every if one.abi == family} or {
        f"{one.name}-{family}" for one in every
    }
    names = known.names(frozenset(makers))
    return tuple(name for name in names if not name.startswith("MPIX_")) or names


def _title(maker: str) -> str:
    from stackproof.mpi import families  # noqa: PLC0415 - only where something is found

    known = families.REGISTRY.get(maker.removesuffix("-standard"))
    return known.log.component if known and known.log else "this MPI"


def _judged(theirs: Meaning | None, function: str) -> tuple[Effect | None, str]:
    """Return the outcome, and why, of a value that MPI takes in another meaning."""
    if theirs is None:
        return Effect.CANNOT_TELL, "is not known to have it"
    if theirs.name:
        return (Effect.FAILS if function else Effect.CANNOT_TELL), f"means `{theirs.name}` by that"
    if function in theirs.fails:
        return Effect.FAILS, "lacks it"
    if function in theirs.harmless or (EVERY in theirs.harmless and (function or not theirs.fails)):
        return None, ""
    if function and EVERY in theirs.fails:
        return Effect.FAILS, "lacks it"
    unseen = "what comes of that is not known" if function else "whether it gets it is not seen"
    return Effect.CANNOT_TELL, f"lacks it, and {unseen}"


def descriptor_findings(case: InjectionAttempt) -> Iterator[Finding]:
    """Yield Fortran 2008 procedures that take descriptors, where two MPIs may read them otherwise.

    Seen with gfortran's programs: Intel MPI 2021.18 ends in `cdesc_create_datatype`, 2021.19 runs.
    The MPICH ABI leaves the Fortran 2008 module out.
    """
    main = case.main
    if main is None or main.family.abi != Abi.MPICH:
        return
    for user in case.demand.users:
        names = [e.name for e in user.elf.imports if "_f08ts" in e.name or "_cdesc" in e.name]
        if names and _reads_otherwise(case):
            yield Finding(
                cause=Cause.ABI_UNKNOWN,
                effect=Effect.CANNOT_TELL,
                message=f"it hands descriptors of Fortran arrays to {len(names)} procedures, and "
                "MPICH and Intel MPI may read another compiler's otherwise",
                file=user.path,
                provider=main.path,
                symbols=tuple(sorted(names)),
                remedy="try it: `inject prove`; or build it with the other MPI's `mpi_f08`",
            )


def _reads_otherwise(case: InjectionAttempt) -> bool:
    """Return whether one of the MPIs before and after the injection is Intel's, and one is not."""
    from stackproof.mpi.families.intel_mpi import INTEL_MPI  # noqa: PLC0415 - as for titles

    makers = (maker_before(case)[0], maker_injected(case)[0])
    return len({maker == INTEL_MPI.name for maker in makers}) > 1
