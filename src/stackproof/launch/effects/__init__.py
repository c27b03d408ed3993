"""What touches the machine, of `launch`."""
