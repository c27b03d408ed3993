"""Verbs and their arguments, of `recipe`."""
