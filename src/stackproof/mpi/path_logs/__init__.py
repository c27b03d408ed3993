"""Probes: how each MPI is made to say which path its messages take, and how its words are read.

Members are the `evidence.py` of families, and pure. What is stated is only what was said; what it
means for a transport is decided in `stackproof.bench.path_verdict`.
"""

from stackproof.mpi.path_logs.patterns import Carrier, Line, LineRule, Pair, Probe, Words, read

__all__ = ["Carrier", "Line", "LineRule", "Pair", "Probe", "Words", "read"]
