"""Evidence, by what it is taken from: results, programs, logs, libraries."""
