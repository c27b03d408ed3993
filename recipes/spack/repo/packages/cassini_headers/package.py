"""HPE's headers of the Cassini NIC: Spack's package, with the release pinned to its commit."""

from spack_repo.builtin.packages.cassini_headers.package import CassiniHeaders as _Original

from spack.package import *


class CassiniHeaders(_Original):
    __doc__ = _Original.__doc__

    # Spack's own package names the tag alone, and a tag can be moved. The commit is that of the
    # tag in https://github.com/HewlettPackard/shs-cassini-headers.
    version(
        "13.0.0",
        tag="release/shs-13.0.0",
        commit="144056ff2143b99ec08b3f1cd07c5e3ae176878d",
        preferred=True,
    )
