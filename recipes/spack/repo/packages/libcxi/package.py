"""HPE's library for the Cassini NIC: Spack's package, with the release pinned to its commit."""

from spack_repo.builtin.packages.libcxi.package import Libcxi as _Original

from spack.package import *


class Libcxi(_Original):
    __doc__ = _Original.__doc__

    # Spack's own package names the tag alone, and a tag can be moved. The commit is that of the
    # tag in https://github.com/HewlettPackard/shs-libcxi.
    version(
        "13.0.0",
        tag="release/shs-13.0.0",
        commit="4b7fc964bf5065539a631abf425ba5a1a340e5ba",
        preferred=True,
    )
