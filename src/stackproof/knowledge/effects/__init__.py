"""What touches the machine, of `knowledge`."""
