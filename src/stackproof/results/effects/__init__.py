"""What touches the machine, of `results`."""
