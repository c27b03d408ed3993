"""One JSON Schema per document kind; every key has a description."""
