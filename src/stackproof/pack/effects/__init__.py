"""What touches the machine, of `pack`."""
