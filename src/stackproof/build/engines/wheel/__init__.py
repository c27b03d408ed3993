"""The engine that installs official prebuilt MPI libraries from a package index."""
