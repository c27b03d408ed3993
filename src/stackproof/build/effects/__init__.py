"""What touches the machine, of `build`."""
