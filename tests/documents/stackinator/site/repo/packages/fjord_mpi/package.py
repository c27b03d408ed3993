from spack.package import *


class FjordMpi(Package):
    """The MPI of an imaginary machine."""

    homepage = "https://example.org/fjord"
    version("1.0", sha256="0" * 64)
    provides("mpi")
