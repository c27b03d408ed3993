"""Verbs and their arguments, of `build`."""
