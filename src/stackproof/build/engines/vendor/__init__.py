"""The engine that repackages a vendor's MPI from the RPMs that a site has of it."""
