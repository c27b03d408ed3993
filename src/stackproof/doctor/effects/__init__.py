"""What touches the machine, of `doctor`."""
