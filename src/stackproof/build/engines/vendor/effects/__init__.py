"""What touches the machine, of `build/engines/vendor`."""
