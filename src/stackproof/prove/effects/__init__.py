"""What touches the machine, of `prove`."""
