"""XPMEM's library alone: Spack's package with a state of the sources that can leave the module out.

The kernel module belongs to the machine, not to an image; the releases that Spack's own package
has build it always. A machine that states its own library as an external keeps that one.
"""

from spack_repo.builtin.packages.xpmem.package import Xpmem as _Original

from spack.package import *


class Xpmem(_Original):
    __doc__ = _Original.__doc__

    # What comes after 2.6.5, the last commit of https://github.com/hpc/xpmem, of 11 September 2024;
    # nothing after 2.6.3 has a tag there.
    version("2.6.6-20240911", commit="3bcab55479489fdd93847fa04c58ab16e9c0b3fd", preferred=True)

    variant("kernel-module", default=False, description="Build the kernel module")

    # It would be for the kernel that happens to run where the image is built.
    conflicts("+kernel-module")

    @when("@2.6.6-20240911")
    def install(self, spec, prefix):
        # The list of the loader's folders goes to /etc of the machine otherwise.
        with working_dir(self.build_directory):
            make(f"ldsoconfdir={prefix.etc.join('ld.so.conf.d')}", *self.install_targets)
