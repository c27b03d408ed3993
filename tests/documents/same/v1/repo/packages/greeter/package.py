from spack.package import *


class Greeter(Package):
    """Another program that says hello."""

    homepage = "https://example.org/hello"
    version("1.0", sha256="0" * 64)
