"""DIAGNOSE: evidence of a stack, a machine or results, and the known problems it points to."""
