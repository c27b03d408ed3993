"""libfabric: which providers each rank opened, and what lnx joins and sends by."""

from __future__ import annotations

from stackproof.mpi.path_logs.patterns import rule
from stackproof.results.path import Topic

# Of the core what it opens, of lnx what it joins; all providers together write thousands of lines.
# Levels are ordered warn, trace, info (fi_log in include/rdma/providers/fi_log.h of 2.x).
SETTINGS = {
    "FI_LOG_LEVEL": "info",
    "FI_LOG_PROV": "core,lnx",
    "FI_LOG_SUBSYS": "core,domain",
    "FI_LNX_DUMP_STATS": "1",
}

RULES = (
    rule(Topic.OPENED, r"^libfabric:.*fi_fabric_?\(\).*<info> Using (?P<value>\S+) provider \d"),
    # Its own providers bear its release: 205.10 is 2.5.1 (OFI_VERSION_DEF_PROV of
    # include/ofi.h).
    rule(
        Topic.VERSION,
        r"^libfabric:.*registering provider: (?:tcp|shm|udp|ofi_rxm) "
        r"\((?P<major>\d)0?(?P<minor>\d+)\.(?P<revision>\d)0?\)",
        "libfabric {major}.{minor}.{revision}",
    ),
    rule(Topic.LINK, r"^libfabric:.*:lnx:.*<info> Found (?P<value>\S+)$"),
    # lnx_dump_core_ep_stats of prov/lnx/src/lnx_ep.c, 2.2.0 and later: how many messages were sent
    # comes after the domain's name, by six functions.
    rule(
        Topic.SENT,
        r"^libfabric:.*:lnx:.*lnx_dump_core_ep_stats.*<trace> "
        r"(?P<value>\S+?),(?P<numbers>\d+(?:,\d+){7})$",
        "{value} {numbers}",
    ),
)
