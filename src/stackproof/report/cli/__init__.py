"""Verbs and their arguments, of `report`."""
