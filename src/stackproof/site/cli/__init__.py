"""Verbs and their arguments, of `site`."""
