"""The stack of a vendor's MPI and its lock: the RPMs, and what of them goes where."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from msgspec import field

from stackproof.build.stack import DEFAULT_MOUNT, StackView
from stackproof.core import ids
from stackproof.core.value import Value
from stackproof.mpi.families.cray_mpich import CRAY_MPICH


class VendorStack(Value):
    """A recipe for a vendor's MPI, resolved on a site.

    `mpi_version` may be the beginning of one, or empty for the newest; `compiler` is as HPE calls
    it, with a version or without (`gnu`, `gnu-12.3`). `gtl` is none, cuda or rocm, `hip` the number
    of ROCm's library that takes the place of 6. `libraries` are folders of the machine that have
    what the RPMs need and do not bring. `site_facts` are as in that of wheels.
    """

    SCHEMA: ClassVar[str] = "stackproof/vendor-stack/1"

    name: str
    version: str = "0"
    description: str = ""
    engine: str = "vendor"
    mpi_family: str = CRAY_MPICH.name
    mpi_version: str = ""
    compiler: str = "gnu"
    gtl: str = "none"
    hip: str = ""
    xpmem: bool = False
    abi: bool = True
    libraries: tuple[str, ...] = ()
    mount: str = DEFAULT_MOUNT
    architecture: str
    views: tuple[StackView, ...]
    default_view: str | None
    transports: tuple[str, ...] = ()
    benchmarks: tuple[str, ...] = ()
    compression: str = "zstd"
    compression_level: int = 6
    site_facts: Mapping[str, str] = field(default_factory=dict)


class VendorFile(Value):
    """A file or link of an RPM and where it goes below the mount point.

    `kind` is `elf`, `text` (it may name the vendor's folders, which are replaced), `link` or
    `plain`.
    """

    path: str
    target: str
    kind: str
    sha256: str = ""
    link: str = ""
    executable: bool = False


class VendorLibrary(Value):
    """A library or program among the files: names, and the newest glibc that it asks for.

    `versions` are the version nodes that it wants of other libraries, by soname.
    """

    target: str
    soname: str
    needed: tuple[str, ...]
    glibc: str = ""
    versions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class VendorRpm(Value):
    """An RPM of the lock: its file with its digest, and what rpm calls it (NEVRA).

    `root` is its folder as the vendor has it, `folder` that below the mount point; `scripts` are
    those that rpm would have run, and nobody did.
    """

    filename: str
    sha256: str
    name: str
    epoch: int
    version: str
    release: str
    architecture: str
    licence: str
    vendor: str
    product: str
    product_version: str
    root: str
    folder: str
    scripts: tuple[str, ...] = ()
    files: tuple[VendorFile, ...] = ()

    @property
    def nevra(self) -> str:
        """Return name, epoch, version, release and architecture as rpm writes them."""
        epoch = f"{self.epoch}:" if self.epoch else ""
        return f"{self.name}-{epoch}{self.version}-{self.release}.{self.architecture}"


class VendorLock(Value):
    """What a vendor's stack is made of, kept beside the recipe as `<recipe>.lock.json`.

    The first of `packages` is the MPI. `compiler` is the one that it was built with, as in a
    recipe.
    """

    SCHEMA: ClassVar[str] = "stackproof/vendor-lock/1"

    engine: str = "vendor"
    wants: str
    compiler: str
    packages: tuple[VendorRpm, ...]
    libraries: tuple[VendorLibrary, ...]
    notes: tuple[str, ...] = ()

    @property
    def mpi(self) -> VendorRpm:
        """Return the RPM of the MPI itself."""
        return self.packages[0]


def wants(stack: VendorStack) -> str:
    """Return the id of what a lock must answer: the MPI, its compiler, its parts, the machine."""
    return ids.content_id(
        {
            "engine": stack.engine,
            "mpi": [stack.mpi_family, stack.mpi_version],
            "compiler": stack.compiler,
            "gtl": stack.gtl,
            "abi": stack.abi,
            "architecture": stack.architecture,
        }
    )
