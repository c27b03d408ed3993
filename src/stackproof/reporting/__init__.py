"""Rendering of a comparison: pure functions from nouns to text; `stackproof.report` is the door."""
