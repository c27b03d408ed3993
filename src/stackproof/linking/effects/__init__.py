"""What touches the machine, of `linking`."""
