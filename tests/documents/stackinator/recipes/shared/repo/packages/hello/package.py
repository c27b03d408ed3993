from spack.package import *


class Hello(Package):
    """A program that says hello."""

    homepage = "https://example.org/hello"
    version("1.0", sha256="0" * 64)

    patch("greet.patch")
