"""What a transport is, and which releases of which MPI can be forced to it."""

from __future__ import annotations

from collections.abc import Callable

from stackproof.core.errors import Reason, StackproofError, fail
from stackproof.core.value import Value
from stackproof.mpi.families import REGISTRY
from stackproof.mpi.families.record import Forced
from stackproof.mpi.transports import traffic
from stackproof.mpi.transports.profile import NEWEST_LIBFABRIC, Profile, Setup
from stackproof.mpi.transports.traffic import Traffic
from stackproof.results.case import Case
from stackproof.results.measurement import Check, Output, State


class Transport(Value):
    """One path that messages can take; `title` is what a reader of a report should see.

    `profile` gives the variables that force it, and what shows that it was taken; it raises
    `StackproofError` (UNSUPPORTED) when versions, fabric, memory or placement cannot do it, and
    says which can. `judge` answers, with words, whether messages took it, by the bytes that were
    counted; None where any path is right.
    """

    name: str
    title: str
    profile: Callable[[Setup], Profile]
    judge: Callable[[Traffic, Case], tuple[State, str]] | None = None

    def check(self, output: Output, case: Case) -> Check:
        """Return whether the messages took the path, by the bytes that were counted."""
        found = traffic.counted(output, case)
        if self.judge is None:
            words = found.text if found.sent else "no interface was counted"
            return Check(name="transport", state=State.OK, evidence=f"nothing was forced; {words}")
        unseen = traffic.unseen("transport", found, case)
        if unseen is not None:
            return unseen
        state, what = self.judge(found, case)
        reason = Reason.WRONG_TRANSPORT.value if state is State.BAD else ""
        return Check(name="transport", state=state, reason=reason, evidence=f"{what}: {found.text}")


def numbers(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version: `5.0.1.post1` gives (5, 0, 1)."""
    found: list[int] = []
    for part in version.split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        found.append(int(digits))
    return tuple(found)


def forced(transport: str, family: str, version: str) -> Forced | None:
    """Return the settings that force a transport on a release, None where it cannot be."""
    path = REGISTRY[family].paths.get(transport) if family in REGISTRY else None
    return path if path and numbers(version) >= path.since else None


def need(transport: str, setup: Setup, *, like: str = "") -> Forced:
    """Return the settings that force a transport on an MPI, or on the one that it is `like`.

    Raises the `StackproofError` (UNSUPPORTED) that says which MPIs can be forced to it.
    """
    wanted = like or transport
    path = forced(wanted, setup.family, setup.version)
    if path is not None:
        return path
    title = title_of(setup.family)
    able = ", ".join(
        f"{family.title} {'.'.join(map(str, family.paths[wanted].since))} or later"
        for family in REGISTRY.values()
        if wanted in family.paths
    )
    raise fail(
        Reason.UNSUPPORTED,
        f"the transport `{transport}` cannot be forced on {title} {setup.version}".rstrip(),
        hint=f"it can on: {able}; the transport `auto` leaves the choice to the MPI",
    )


def title_of(family: str) -> str:
    """Return a family as its makers write it, an unknown one by its name."""
    return REGISTRY[family].title if family in REGISTRY else family


def no_provider(transport: str, setup: Setup, *missing: str) -> StackproofError:
    """Return the error that says what an image's libfabric was built without."""
    have = ", ".join(sorted(setup.libfabric.providers))
    return fail(
        Reason.UNSUPPORTED,
        f"the transport `{transport}` needs {' and '.join(f'`{name}`' for name in missing)} in "
        f"libfabric, which was built with: {have}",
        hint=f"build it with `fabrics={','.join((*sorted(setup.libfabric.providers), *missing))}`",
    )


def newer(setup: Setup) -> tuple[str, ...]:
    """Return a note where libfabric is newer than the newest that was looked at."""
    release = numbers(setup.libfabric.version)
    if release[: len(NEWEST_LIBFABRIC)] <= NEWEST_LIBFABRIC:
        return ()
    known = ".".join(map(str, NEWEST_LIBFABRIC))
    text = f"libfabric {setup.libfabric.version} is newer than what is known ({known})"
    return (f"{text}; the settings are those of {known}",)


def launched(setup: Setup) -> dict[str, str]:
    """Return what a launcher needs where the fabric gives rights to a job's own processes.

    Without it PRRTE has no daemon in a step on the first node of a Slurm job, and the ranks there
    may not open the NIC (known problem K22). Source: docs.open-mpi.org, "OpenFabrics Interfaces".
    Outside of a job PRRTE then finds no node at all (seen with Open MPI 5.0.11).
    """
    if setup.launcher == "prte" and setup.in_slurm_job and setup.on_slingshot:
        return {"PRTE_MCA_ras_base_launch_orted_on_hn": "1"}
    return {}
