"""Slingshot's NIC for every message, by libfabric's cxi, with MPIs' settings or the vendor's."""

from __future__ import annotations

from stackproof.core.command import EnvPatch
from stackproof.core.errors import Reason, fail
from stackproof.core.value import replace
from stackproof.mpi.families import REGISTRY
from stackproof.mpi.transports import support
from stackproof.mpi.transports.profile import SLINGSHOT, Libfabric, Profile, Setup
from stackproof.mpi.transports.support import Transport
from stackproof.mpi.transports.traffic import Traffic
from stackproof.results.case import Case, Locality
from stackproof.results.measurement import State
from stackproof.results.path import Medium

_CXI, _MATCHED = "cxi", "matched"


def _profile_cxi(setup: Setup, name: str = _CXI) -> Profile:
    """Return the family's settings; UNSUPPORTED where fabric or libfabric cannot do it.

    Messages go through the NIC, also inside a node. FI_PROVIDER hides every other provider, so
    that a missing cxi ends the start instead of leaving it to TCP.
    """
    path = support.need(name, setup, like=_CXI)
    loaded = _loaded(name, setup)
    need_cxi(name, replace(setup, libfabric=Libfabric()) if loaded else setup)
    return Profile(
        env=EnvPatch(set={**path.set, **loaded, **support.launched(setup)}),
        expect="cxi",
        by_provider=True,
        inside=(Medium.SLINGSHOT,),
        between=(Medium.SLINGSHOT,),
        notes=support.newer(setup),
    )


def judge_cxi(found: Traffic, case: Case) -> tuple[State, str]:
    """Return BAD when the kernel's interfaces sent what was moved, OK when they did not.

    They do not see what the NIC moves on its own. Between nodes only the NIC is left then;
    inside of one node it may have been shared memory, so that it cannot be told.
    """
    if not found.is_quiet(found.off()):
        if found.carried_everywhere():
            return State.BAD, "the messages went through the kernel, by TCP"
        return State.UNKNOWN, "there was other traffic"
    if case.placement.locality is Locality.INTER:
        return State.OK, "past the kernel"
    return State.UNKNOWN, "past the kernel, by the NIC or by shared memory"


# What Cray MPICH 8.1 sets by itself: intro_mpi(3), and the values that 8.1.25 prints in
# github.com/E3SM-Project/polaris/issues/205.
VENDOR_SETTINGS = {
    "FI_CXI_RDZV_THRESHOLD": "16384",
    "FI_CXI_RDZV_EAGER_SIZE": "2048",
    "FI_CXI_DEFAULT_CQ_SIZE": "32768",
    "FI_CXI_OFLOW_BUF_SIZE": "12582912",
    "FI_CXI_OFLOW_BUF_COUNT": "3",
    "FI_MR_CACHE_MAX_SIZE": "-1",
    "FI_MR_CACHE_MAX_COUNT": "524288",
}


def _profile_matched(setup: Setup) -> Profile:
    """Return what `cxi` sets, and the vendor's settings; of the vendor's MPI only these are fixed.

    Inside a node Cray MPICH goes on to use its own shared memory.
    """
    own = support.forced(_MATCHED, setup.family, setup.version)
    if own is None:
        found = _profile_cxi(setup, _MATCHED)
        return replace(found, env=EnvPatch(set={**found.env.set, **VENDOR_SETTINGS}))
    need_cxi(_MATCHED, setup)
    return Profile(
        env=EnvPatch(set={**own.set, **VENDOR_SETTINGS}),
        expect="cxi",
        inside=(Medium.MEMORY, Medium.SLINGSHOT),
        between=(Medium.SLINGSHOT,),
        notes=support.newer(setup),
    )


CXI = Transport(
    name=_CXI, title="Slingshot", profile=_profile_cxi, judge=judge_cxi,
)  # fmt: skip
MATCHED = Transport(
    name=_MATCHED,
    title="Slingshot with the vendor's settings",
    profile=_profile_matched,
    judge=judge_cxi,
)


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
