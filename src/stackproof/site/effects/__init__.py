"""What touches the machine, of `site`."""
