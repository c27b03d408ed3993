"""Verbs of `pack`."""
