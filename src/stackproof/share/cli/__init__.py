"""Verbs of this room."""
