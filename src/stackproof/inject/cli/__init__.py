"""Verbs and their arguments, of `inject`."""
