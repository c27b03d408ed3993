"""Stackproof: define, build, deploy, inject and prove MPI stacks."""

__version__ = "0.1.0"
