"""What touches the machine, of `inject`."""
