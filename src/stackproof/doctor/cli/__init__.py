"""Verbs and their arguments, of `doctor`."""
