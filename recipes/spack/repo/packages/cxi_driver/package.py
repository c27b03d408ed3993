"""HPE's headers of the Cassini driver: Spack's package, with the release pinned to its commit."""

from spack_repo.builtin.packages.cxi_driver.package import CxiDriver as _Original

from spack.package import *


class CxiDriver(_Original):
    __doc__ = _Original.__doc__

    # Spack's own package names the tag alone, and a tag can be moved. The commit is that of the
    # tag in https://github.com/HewlettPackard/shs-cxi-driver.
    version(
        "13.0.0",
        tag="release/shs-13.0.0",
        commit="f62ae06d0b05774eb8dc4d8f347b4eb881ae35cb",
        preferred=True,
    )
