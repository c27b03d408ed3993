"""What the digest of an image's tree is about, and where the image keeps it."""

from __future__ import annotations

RECORD = "meta/tree.json"
"""The file in an image with the digest of its tree."""
WITHOUT = ("benchmarks", "meta")
"""What does not count in an image: the benchmark, which the machine's own compiler makes where it
is built, and what the image says of itself, this digest among it."""
