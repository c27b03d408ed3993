from spack.package import *


class FjordTools(Package):
    """Tools of an imaginary machine."""

    homepage = "https://example.org/fjord"
    version("1.0", sha256="0" * 64)
