"""Verbs and their arguments, of `core`."""
