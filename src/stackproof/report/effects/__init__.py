"""What touches the machine, of `report`."""
