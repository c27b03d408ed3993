"""The transports of a recipe as views of its image, for tools that compute no profile."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from stackproof.build.stack import AnyStack
from stackproof.core.command import EnvPatch
from stackproof.core.errors import Location, Problem, Reason, StackproofError
from stackproof.core.value import Value, replace
from stackproof.image.model import MpiFacts, View
from stackproof.mpi import transports
from stackproof.mpi.transports.profile import ETHERNET, INFINIBAND, SLINGSHOT, Libfabric, Setup
from stackproof.results.case import Placement, Rank

# Values of `site.FabricType`; any other word of a recipe's facts says nothing.
_FABRICS = (SLINGSHOT, INFINIBAND, ETHERNET, "none")
# A node of Slingshot has one NIC or several, which some profiles name one by one.
_NICS = (1, 4)


class TransportViews(Value):
    """What an image's transport views add to its default view, by transport.

    `notes` tell of transports that are no view; `problems` of those that cannot be had at all.
    """

    changes: Mapping[str, EnvPatch]
    notes: tuple[Problem, ...] = ()
    problems: tuple[Problem, ...] = ()

    def placed(self, where: Location | None) -> TransportViews:
        """Return the same, with the place in the recipe that asks for the transports."""
        return replace(
            self,
            notes=tuple(replace(one, where=where) for one in self.notes),
            problems=tuple(replace(one, where=where) for one in self.problems),
        )

    def required(self) -> Mapping[str, EnvPatch]:
        """Return the changes; raises `StackproofError` with all problems where there are any."""
        if self.problems:
            raise StackproofError(*self.problems)
        return self.changes


def transport_views(
    stack: AnyStack, mpi: MpiFacts | None, libfabric: Libfabric, *, taken: Collection[str] = ()
) -> TransportViews:
    """Return the changes by views of a stack's transports, as far as an image alone decides them.

    The profile is computed for every kind of machine. Where it comes out the same on all that can
    have the transport, it is a view; elsewhere the view refuses to run, as a forced path does. The
    names in `taken` are views of the recipe and stay as they are. The stack's facts have a `fabric`
    where the image is of one site's software, and none where it is for every machine.
    """
    fabric = stack.site_facts.get("fabric", "")
    changes: dict[str, EnvPatch] = {}
    notes: list[Problem] = []
    problems: list[Problem] = []
    for name in stack.transports:
        if mpi is None:
            problems.append(_no_mpi(name))
            continue
        setup = Setup(
            family=mpi.family,
            version=mpi.version,
            placement=Placement(name="job", ranks=(Rank(node="node"),)),
            libfabric=libfabric,
            launcher=mpi.launcher,
        )
        try:
            found, everywhere = _outcomes(name, setup, fabric)
        except StackproofError as error:
            problems += error.problems
            continue
        if name in taken:
            notes.append(_note(name, "the recipe has a view of this name, which stays as it is"))
        elif len(found) == 1 and (everywhere or libfabric.providers):
            changes[name] = found[0]
        elif len(found) == 1:
            why = "not every machine has it, and the image does not say which libfabric it is on"
            notes.append(_note(name, why))
        else:
            notes.append(_note(name, "its variables depend on the machine"))
    return TransportViews(changes=changes, notes=tuple(notes), problems=tuple(problems))


def description(name: str) -> str:
    """Return what a reader sees beside the view of a transport."""
    return f"the default view, and messages by {transports.get(name).title} alone"


def with_transports(
    views: Mapping[str, View], default_view: str | None, mount: str, changes: Mapping[str, EnvPatch]
) -> dict[str, View]:
    """Return the views of an image and those of its transports, each on top of the default view."""
    base = views[default_view].env if default_view else EnvPatch()
    return {
        **views,
        **{
            name: View(
                name=name,
                root=f"{mount}/env/{name}",
                description=description(name),
                env=base.then(change),
            )
            for name, change in changes.items()
        },
    }


def _outcomes(name: str, setup: Setup, fabric: str) -> tuple[tuple[EnvPatch, ...], bool]:
    """Return the different changes on all machines, and whether each machine has one.

    Raises `StackproofError` (UNSUPPORTED) where none has.
    """
    transport = transports.get(name)
    found: list[EnvPatch] = []
    refused = False
    for machine in _machines(setup, fabric):
        try:
            change = transport.profile(machine).env
        except StackproofError:
            refused = True
            continue
        if change not in found:
            found.append(change)
    if not found:
        # In the words of `--transport` on a machine of which nothing is known.
        transport.profile(replace(setup, fabric=fabric if fabric in _FABRICS else ""))
    return tuple(found), not refused


def _machines(setup: Setup, fabric: str) -> Iterator[Setup]:
    for kind in (fabric,) if fabric in _FABRICS else _FABRICS:
        for nics in _NICS if kind == SLINGSHOT else (0,):
            yield replace(setup, fabric=kind, nics=nics)


def _note(name: str, why: str) -> Problem:
    return Problem(
        reason=Reason.UNSUPPORTED,
        message=f"the transport `{name}` is not made into a view: {why}",
        hint=f"on the machine, `stackproof run --transport {name}` computes it",
    )


def _no_mpi(name: str) -> Problem:
    return Problem(
        reason=Reason.UNSUPPORTED,
        message=f"the transport `{name}` needs an MPI, and the stack has none",
        hint="leave `transports` out",
    )
