"""Verbs and their arguments, of `mount`."""
