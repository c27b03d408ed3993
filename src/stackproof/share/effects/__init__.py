"""What touches the machine: repositories on disk, and words to the files that they name."""
