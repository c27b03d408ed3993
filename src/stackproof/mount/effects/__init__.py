"""What touches the machine, of `mount`."""
