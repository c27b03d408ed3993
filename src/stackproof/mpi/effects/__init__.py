"""What touches the machine, of `mpi`."""
