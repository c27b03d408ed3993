"""What touches the machine, of `compare`."""
