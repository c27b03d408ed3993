"""MVAPICH: its device ch4 is MPICH's; a release that says nothing tells nothing."""

from __future__ import annotations

from stackproof.mpi.families.mpich.evidence import MpichLog

PROBE = MpichLog()
