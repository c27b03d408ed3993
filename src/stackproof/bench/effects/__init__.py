"""What touches the machine, of `bench`."""
