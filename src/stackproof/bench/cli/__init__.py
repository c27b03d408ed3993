"""Verbs and their arguments, of `bench`."""
