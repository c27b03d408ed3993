"""What touches the machine, of `build/engines/wheel`."""
