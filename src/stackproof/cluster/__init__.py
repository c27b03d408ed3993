"""Nodes and Slurm on one machine, for tests of everything that needs more than one."""
