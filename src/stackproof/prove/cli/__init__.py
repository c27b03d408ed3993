"""Verbs and their arguments, of `prove`."""
