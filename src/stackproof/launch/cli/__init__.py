"""Verbs and their arguments, of `launch`."""
