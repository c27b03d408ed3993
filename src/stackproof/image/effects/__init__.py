"""What touches the machine, of `image`."""
