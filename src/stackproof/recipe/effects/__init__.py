"""What touches the machine, of `recipe`."""
