"""PROVE: an injection, by running the program with its own MPI, another, and a wrong one."""
