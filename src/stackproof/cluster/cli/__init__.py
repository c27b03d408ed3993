"""Verbs and their arguments, of `cluster`."""
