"""libfabric's lnx provider: shared memory inside a node, joined with cxi or TCP between nodes."""

from __future__ import annotations

from stackproof.core.command import EnvPatch
from stackproof.core.errors import Reason, StackproofError, fail
from stackproof.mpi.transports import support
from stackproof.mpi.transports.cxi import judge_cxi
from stackproof.mpi.transports.kernel import judge_shm, judge_tcp
from stackproof.mpi.transports.profile import INFINIBAND, SLINGSHOT, Memory, Profile, Setup
from stackproof.mpi.transports.support import Transport
from stackproof.mpi.transports.traffic import Traffic
from stackproof.results.case import Case, Locality
from stackproof.results.measurement import State
from stackproof.results.path import Medium

_FIRST = (2, 0)
# From here on lnx calls itself `lnx`; before, by what it joins (prov/lnx/src/lnx_init.c of 2.1.0
# and 2.2.0; github.com/ofiwg/libfabric/issues/11392).
_PLAIN_NAME = (2, 2)
# From here on lnx offers nothing to who asks for more than tagged messages, as Open MPI 5.0 does:
# seen with libfabric 2.6.0 below Open MPI 5.0.8 and 5.0.11 (prov/lnx/src/lnx_init.c, LNX_TX_CAPS).
_TAGGED_ALONE = (2, 6)
_SELF_SENDS = (
    "with XPMEM a rank that sends more than 4096 bytes to itself fails (known problem K09); "
    "FI_SHM_USE_XPMEM=0 goes without"
)
# Of the providers that carry TCP only rxm can be joined: tcp itself lacks FI_PEER up to 2.6.0
# (prov/tcp/src, prov/rxm/src/rxm_attr.c). So the link must name rxm, and libfabric must have it.
_TCP = "tcp;ofi_rxm"
_RXM = frozenset({"rxm", "ofi_rxm"})


def _profile(setup: Setup) -> Profile:
    """Return the settings; UNSUPPORTED, with what can, for versions that have no such path.

    Messages go by Open MPI's OFI layer through lnx alone.
    """
    path = support.need("lnx", setup)
    release = support.numbers(setup.libfabric.version)
    _refuse(setup, release)
    network = "cxi" if setup.on_slingshot else _TCP
    provider = "lnx" if release >= _PLAIN_NAME else f"shm+{network}:lnx"
    env = {
        **{name: text.replace("{provider}", provider) for name, text in path.set.items()},
        "FI_LNX_PROV_LINKS": _links(network, setup.nics, release),
        **support.launched(setup),
    }
    if release >= _PLAIN_NAME:
        # Before 2.2 it would hide from lnx what it joins: seen with 2.1.0.
        env["FI_PROVIDER"] = "lnx"
    if network == "cxi" and release[:2] == (2, 4):
        env["FI_CXI_RX_MATCH_MODE"] = "software"  # 2.4.0 sets it too late by itself (K06)
    if network == _TCP and setup.placement.interface:
        env["FI_TCP_IFACE"] = setup.placement.interface
    # Every shm below lnx uses XPMEM where it is asked to and the node has it, and copies as
    # before where it has none (prov/shm/src/smr_util.c, 2.1.0); from 2.4 on never for a GPU's
    # memory (NEWS.md).
    unknown = setup.xpmem is None and setup.on_slingshot
    by_xpmem = (setup.xpmem or unknown) and setup.memory is Memory.HOST
    if by_xpmem:
        env["FI_SHM_USE_XPMEM"] = "1"
    return Profile(
        env=EnvPatch(set=env),
        expect=provider,
        by_provider=True,
        inside=(Medium.MEMORY,),
        between=(Medium.SLINGSHOT if network == "cxi" else Medium.TCP,),
        notes=(*support.newer(setup), *((_SELF_SENDS,) if by_xpmem else ())),
    )


def _judge(found: Traffic, case: Case) -> tuple[State, str]:
    """Return the answer of shared memory in one node; between nodes of what joins them."""
    placement = case.placement
    if placement.locality is Locality.INTRA:
        return judge_shm(found, case)
    if case.fabric == SLINGSHOT:
        return judge_cxi(found, case)
    state, what = judge_tcp(found, case)
    if state is State.BAD and len(placement.nodes) < len(placement.ranks):
        # Part of the messages may rightly stay in shared memory, and none can be counted.
        return State.UNKNOWN, what
    return state, what


LNX = Transport(name="lnx", title="lnx (shared memory and network)", profile=_profile, judge=_judge)


def _links(network: str, nics: int, release: tuple[int, ...]) -> str:
    """Return one link for each NIC where several are understood, which is since 2.2.

    One link with all NICs would be shared by all ranks (K14). Source: fi_lnx(7).
    """
    if network == "cxi" and nics > 1 and release >= _PLAIN_NAME:
        return "|".join(f"shm+cxi:cxi{number}" for number in range(nics))
    return f"shm+{network}"


def _refuse(setup: Setup, release: tuple[int, ...]) -> None:
    """Raise UNSUPPORTED for what is known not to work."""
    if not release:
        raise fail(
            Reason.UNSUPPORTED,
            "the transport `lnx` depends on the release of libfabric, which is not known",
            hint="an image built from source says it: put such a libfabric under the MPI with "
            "--inject, or build the MPI on one that has lnx, shm and cxi (or tcp and rxm)",
        )
    if release < _FIRST:
        raise fail(
            Reason.UNSUPPORTED,
            f"libfabric {setup.libfabric.version} has no lnx provider",
            hint="libfabric 2.0 or later has; see `stackproof explain FI_LNX_PROV_LINKS`",
        )
    if release >= _TAGGED_ALONE and support.numbers(setup.version) < (5, 1):
        raise fail(
            Reason.UNSUPPORTED,
            f"lnx of libfabric {setup.libfabric.version} offers tagged messages alone, and Open "
            f"MPI {setup.version} asks for more",
            hint="libfabric 2.0 to 2.5 can; or use the transport `cxi`",
        )
    if setup.fabric == INFINIBAND:
        raise fail(
            Reason.UNSUPPORTED,
            "the transport `lnx` is known over Slingshot-11 and over TCP alone",
            hint="use `auto` on InfiniBand",
        )
    if release >= _PLAIN_NAME and not setup.on_slingshot:
        # Seen: Open MPI 5.0.8 crashed on 2.2.0 and on 2.5.1, and 5.0.11 on 2.5.1; why is not known.
        raise fail(
            Reason.UNSUPPORTED,
            f"lnx over TCP of libfabric {setup.libfabric.version} fails in use",
            hint="libfabric 2.1 can; so can the transport `tcp`; on Slingshot say `--site NAME`",
        )
    have = setup.libfabric.providers
    wanted = {"lnx", "shm", "cxi"} if setup.on_slingshot else {"lnx", "shm", "tcp"}
    missing = sorted(wanted - have) if have else []
    if have and not setup.on_slingshot and not have & _RXM:
        missing.append("rxm")
    if missing:
        raise support.no_provider("lnx", setup, *missing)
    if setup.memory is not Memory.HOST:
        _refuse_device(setup, release)


def _refuse_device(setup: Setup, release: tuple[int, ...]) -> None:
    shared = len(setup.placement.nodes) < len(setup.placement.ranks) or (
        setup.placement.locality is Locality.INTRA
    )
    if support.numbers(setup.version) < (5, 0, 8):
        raise _known("K03", f"Open MPI {setup.version}", "Open MPI 5.0.9 or later can")
    if setup.memory is Memory.CUDA and release < _PLAIN_NAME and shared:
        raise _known("K07", f"libfabric {setup.libfabric.version}", "libfabric 2.2 or later can")
    if setup.memory is Memory.ROCM and (2, 4) <= release <= (2, 5, 0) and shared:
        raise _known("K08", f"libfabric {setup.libfabric.version}", "try libfabric 2.5.1 or later")


def _known(rule: str, what: str, remedy: str) -> StackproofError:
    return fail(
        Reason.UNSUPPORTED,
        f"{what} cannot send device buffers over lnx (known problem {rule})",
        hint=f"{remedy}, and so does the transport `cxi`; see `stackproof explain {rule}`",
    )
