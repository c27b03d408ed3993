"""What touches the machine, of `cluster`."""
