"""Slingshot's NIC for every message, by libfabric's cxi provider."""

from __future__ import annotations

from stackproof.core.command import EnvPatch
from stackproof.core.errors import Reason, fail
from stackproof.core.value import replace
from stackproof.mpi.families import REGISTRY
from stackproof.mpi.transports import support, traffic
from stackproof.mpi.transports.profile import SLINGSHOT, Libfabric, Profile, Setup
from stackproof.results.case import Case, Locality
from stackproof.results.measurement import Check, Output, State
from stackproof.results.path import Medium

_CXI = "cxi"


class Cxi:
    """Messages through the NIC, also inside a node.

    FI_PROVIDER hides every other provider, so that a missing cxi ends the start instead of leaving
    it to TCP.
    """

    name = _CXI
    title = "Slingshot"

    def supports(self, family: str, version: str) -> bool:
        """Return whether the release has the settings that force cxi."""
        return support.forced(_CXI, family, version) is not None

    def profile(self, setup: Setup) -> Profile:
        """Return the family's settings; UNSUPPORTED where fabric or libfabric cannot do it."""
        path = support.need(self.name, setup, like=_CXI)
        loaded = _loaded(self.name, setup)
        need_cxi(self.name, replace(setup, libfabric=Libfabric()) if loaded else setup)
        env = {**path.set, **loaded, **support.launched(setup)}
        return Profile(
            env=EnvPatch(set=env),
            expect="cxi",
            by_provider=True,
            inside=(Medium.SLINGSHOT,),
            between=(Medium.SLINGSHOT,),
            notes=support.newer(setup),
        )

    def check(self, output: Output, case: Case) -> Check:
        """Return BAD when the kernel's interfaces sent what was moved, OK when they did not.

        They do not see what the NIC moves on its own. Between nodes only the NIC is left then;
        inside of one node it may have been shared memory, so that it cannot be told.
        """
        found = traffic.counted(output, case)
        unseen = traffic.unseen("transport", found, case)
        if unseen is not None:
            return unseen
        reason, quiet = "", found.is_quiet(found.off())
        if not quiet and found.carried_everywhere():
            state, reason = State.BAD, Reason.WRONG_TRANSPORT.value
            what = "the messages went through the kernel, by TCP"
        elif not quiet:
            state, what = State.UNKNOWN, "there was other traffic"
        elif case.placement.locality is Locality.INTER:
            state, what = State.OK, "past the kernel"
        else:
            state, what = State.UNKNOWN, "past the kernel, by the NIC or by shared memory"
        return Check(name="transport", state=state, reason=reason, evidence=f"{what}: {found.text}")


def _loaded(transport: str, setup: Setup) -> dict[str, str]:
    """Return the settings by which an MPI loads the machine's libfabric instead of its own.

    Raises `StackproofError` (UNSUPPORTED) where it has to and the file is not known.
    """
    family = REGISTRY[setup.family]
    if not family.libfabric_variable or "cxi" not in setup.libfabric.lacks:
        return {}
    if setup.fabric not in {"", SLINGSHOT}:
        return {}  # which is refused next
    if setup.own_libfabric:
        return {family.libfabric_variable: setup.own_libfabric}
    raise fail(
        Reason.UNSUPPORTED,
        f"the transport `{transport}` needs a libfabric with `cxi`, and {family.title}'s own has "
        "none",
        hint=f"with the machine's it can, by {family.libfabric_variable}=…/libfabric.so.1 and "
        f"{family.provider_variables[0]}=cxi: name that file in the file of `--site`, as "
        "`externals: {libfabric: {path: …}}`, or put another under it (--inject LIBFABRIC)",
    )


def need_cxi(transport: str, setup: Setup) -> None:
    """Raise `StackproofError` (UNSUPPORTED) where fabric or libfabric are known to be unfit."""
    if setup.fabric not in {"", SLINGSHOT}:
        raise fail(
            Reason.UNSUPPORTED,
            f"the transport `{transport}` needs Slingshot-11; here it is {setup.fabric}",
            hint="use `tcp`, or `shm` inside a node; for another machine than this one `run`, "
            "`start` and `activate` have `--site NAME`",
        )
    if "cxi" in setup.libfabric.lacks:
        raise fail(
            Reason.UNSUPPORTED,
            f"the transport `{transport}` needs `cxi` in libfabric; the developers' wheels lack it",
            hint="put a libfabric that has it under the MPI (--inject), or build the MPI on one: "
            "`slingshot:` in a recipe for EasyBuild, or the chains for Spack",
        )
    providers = setup.libfabric.providers
    if providers and "cxi" not in providers:
        raise support.no_provider(transport, setup, "cxi")
    if setup.memory in setup.libfabric.without:
        gpu = setup.memory.value
        raise fail(
            Reason.UNSUPPORTED,
            f"messages from the memory of a GPU ({gpu}) need a libfabric that was built for it; "
            "the image's was not",
            hint=f"build it with `+{gpu}` (a site with that GPU does), or leave `--memory` out",
        )
