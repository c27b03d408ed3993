"""A folder of RPMs as of HPE, with the libraries of MPICH's wheel under Cray's names.

What is not Cray's own is at the site: `Release.site` has libfabric, xpmem and the GPU's libraries.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from stackproof.build.engines.vendor.stack import (
    VendorFile,
    VendorLibrary,
    VendorLock,
    VendorRpm,
    VendorStack,
    wants,
)
from stackproof.core.value import Value
from vendorrpms import Member, Package, link, text

PE = "/opt/cray/pe"
MPICH = "8.1.30"
MARK = "/tmp/stackproof-script-of-rpm"
"""What a script of an RPM would make, if anybody ran it."""
# One format of MPI_Get_library_version, as long as that of MPICH.
_SAYS = b"MPICH Version:      %s\nMPICH Release date: %s\nMPICH ABI:          %s\n"
_CRAY_SAYS = b"MPI VERSION    : CRAY MPICH version 8.1.30%.0s%.0s%.0s\n".ljust(len(_SAYS))
_PC = "prefix={root}\nlibdir=${{prefix}}/lib\nName: mpich\nVersion: {version}\nLibs: -L${{libdir}} -l{library}\n"


class Release(Value, kw_only=False):
    """The folder of RPMs, and that with libraries of the site."""

    rpms: Path
    site: Path


def library(folder: Path, name: str, source: str = "", needs: tuple[Path, ...] = ()) -> Path:
    """Compile a small library of a soname that needs others."""
    folder.mkdir(parents=True, exist_ok=True)
    made = folder / name
    code = (
        source
        or f"int x_{''.join(c if c.isalnum() else '_' for c in name)}(void) {{ return 1; }}\n"
    )
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-Wl,--no-as-needed", f"-Wl,-soname,{name}", "-xc", "-", "-xnone",
         *needs, "-o", made],
        input=code.encode(), check=True, timeout=600,
    )  # fmt: skip
    return made


def patched(source: Path, target: Path, *changes: tuple[str, ...]) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(source.read_bytes())
    for change in changes:
        subprocess.run(["patchelf", *change, target], check=True, timeout=600)
    return target


def of(path: Path, mode: int = 0o755) -> Member:
    return Member(path.read_bytes(), 0o100000 | mode)


def mpich_members(
    wheel: Path, work: Path, *, version: str = MPICH, tag: str = "gnu_123", place: str = "gnu/12.3"
) -> dict[str, Member]:
    """Return the files of an RPM of Cray MPICH, made of a tree of MPICH."""
    root = f"{PE}/mpich/{version}/ofi/{place}"
    pmi = library(work / "pmi", "libpmi.so.0")
    main = patched(
        wheel / "lib/libmpi.so.12", work / version / tag / f"libmpi_{tag}.so.12",
        ("--set-soname", f"libmpi_{tag}.so.12"), ("--add-needed", pmi.name),
        ("--set-rpath", f"{PE}/gcc-libs:/opt/cray/gcc-libs"),
    )  # fmt: skip
    main.write_bytes(main.read_bytes().replace(_SAYS, _CRAY_SAYS))
    wrapper = (wheel / "bin/mpicc").read_text().replace("-lmpi ", f"-lmpi_{tag} ")
    lines = wrapper.splitlines(keepends=True)
    lines = [f"prefix={root}\n" if one.startswith("prefix=") else one for one in lines]
    members = {
        f"{root}/lib/libmpi_{tag}.so.12.0.0": of(main),
        f"{root}/lib/libmpi_{tag}.so.12": link(f"libmpi_{tag}.so.12.0.0"),
        f"{root}/lib/libmpi_{tag}.so": link(f"libmpi_{tag}.so.12"),
        f"{root}/lib/libmpi_{tag}.a": text("!<arch>\n"),
        f"{root}/lib/pkgconfig/mpich.pc": text(
            _PC.format(root=root, version=version, library=f"mpi_{tag}")
        ),
        f"{root}/lib-abi-mpich/libmpi.so.12": of(wheel / "lib/libmpi.so.12"),
        f"{root}/bin/mpicc": text("".join(lines), 0o755),
        f"{root}/bin/mpichversion": of(
            patched(
                wheel / "bin/mpichversion",
                work / version / tag / "mpichversion",
                ("--replace-needed", "libmpi.so.12", main.name),
            )
        ),
        f"{root}/share/doc/README": text("not taken\n"),
    }
    members |= {
        f"{root}/include/{path.name}": of(path, 0o644) for path in wheel.glob("include/*.h")
    }
    # What the wheel brings beside its library, and Cray MPICH has within it.
    members |= {f"{root}/lib/{path.name}": of(path) for path in wheel.glob("lib/mpich/libuc*.so.0")}
    return members


def pmi_members(work: Path, version: str) -> dict[str, Member]:
    root = f"{PE}/pmi/{version}"
    pals = library(work / "pals", "libpals.so.0")
    second = library(work / "pmi", "libpmi2.so.0", needs=(pals,))
    return {
        f"{root}/lib/libpmi.so.0": of(library(work / "pmi", "libpmi.so.0", needs=(second,))),
        f"{root}/lib/libpmi2.so.0": of(second),
    }


def release(wheel: Path, folder: Path, *, version: str = MPICH) -> Release:
    """Make the RPMs of one release that is whole, and of others that are decoys; and the site."""
    work, rpms, site = folder / "work", folder / "rpms", folder / "site"
    rpms.mkdir(parents=True)
    patched(wheel / "lib/mpich/libfabric.so.1", site / "libfabric.so.1")
    cuda = library(site, "libcuda.so.1")
    library(site, "libcudart.so.12", needs=(cuda,))
    library(site, "libhsa-runtime64.so.1")
    library(site, "libamdhip64.so.6")
    library(site, "libxpmem.so.0")
    for package in packages(wheel, work, site, version):
        package.written(rpms)
    return Release(rpms=rpms, site=site)


def packages(wheel: Path, work: Path, site: Path, version: str = MPICH) -> tuple[Package, ...]:
    gtl = f"{PE}/mpich/{version}/gtl/lib"
    hsa = library(work / "gtl", "libmpi_gtl_hsa.so.0", needs=(site / "libamdhip64.so.6",))
    cuda = library(work / "gtl", "libmpi_gtl_cuda.so.0")
    old = {"8.1.25": ("gnu_91", "gnu/9.1"), "8.1.29": ("gnu_91", "gnu/9.1")}
    decoy = lambda place: {f"{PE}/mpich/{place}": text("a decoy\n")}  # noqa: E731
    whole = mpich_members(wheel, work, version=version)
    return (
        Package(
            f"cray-mpich-{version}-gnu123", whole, compressor="zstd",
            scripts={1024: f"touch {MARK}", 1026: "true"},
        ),
        Package(f"cray-mpich-{version}-gnu91", small(version, "gnu_91", "gnu/9.1")),
        Package(f"cray-mpich-{version}-nvidia207", small(version, "nvidia", "nvidia/20.7")),
        Package(
            f"cray-mpich-{version}-gtl",
            {
                f"{gtl}/{cuda.name}": of(cuda),
                f"{gtl}/libmpi_gtl_cuda.so": link(cuda.name),
                f"{gtl}/{hsa.name}": of(hsa),
                f"{gtl}/libmpi_gtl_hsa.so": link(hsa.name),
            },
        ),
        *(Package(f"cray-mpich-{one}-{tag.replace('_', '')}", small(one, tag, place))
          for one, (tag, place) in old.items()),
        Package(f"cray-mpich-ucx-{version}-gnu123", small(version, "gnu_123", "gnu/12.3", "ucx")),
        Package(f"cray-mpich-{version}-doc", decoy(f"{version}/ofi/man/man3/MPI_Send.3")),
        Package(f"cray-mpich-{version}-abi", decoy(f"{version}/ofi/abi/README")),
        Package("cray-pmi-6.1.15", pmi_members(work, "6.1.15"), compressor="xz"),
        Package(
            "cray-pmi-devel-6.1.15",
            {f"{PE}/pmi/6.1.15/include/pmi.h": text("/* PMI */\n")}, compressor="gzip",
        ),
        Package("cray-pmi-6.1.16", {f"{PE}/pmi/6.1.16/lib/libpmi.so.0": text("newer\n")}),
        Package("cray-pals-1.2.12", {
            "/opt/cray/pals/1.2.12/lib/libpals.so.0": of(work / "pals/libpals.so.0"),
        }, compressor="bzip2"),
    )  # fmt: skip


def small(version: str, tag: str, place: str, network: str = "ofi") -> Mapping[str, Member]:
    """Return the files of an RPM that is there to be passed over."""
    root = f"{PE}/mpich/{version}/{network}/{place}"
    return {f"{root}/lib/libmpi_{tag}.so.12": text("no library\n")}


def lock(stack: VendorStack) -> VendorLock:
    """Return a lock that answers a stack; nothing of it is on disk."""
    library = VendorFile(
        path=f"{PE}/mpich/{MPICH}/ofi/gnu/12.3/lib/libmpi_gnu_123.so.12.0.0",
        target=f"cray-mpich-{MPICH}/lib/libmpi_gnu_123.so.12.0.0",
        kind="elf",
        sha256="ab" * 32,
        executable=True,
    )
    name = VendorFile(
        path=library.path.removesuffix(".0.0"),
        target=library.target.removesuffix(".0.0"),
        kind="link",
        link="libmpi_gnu_123.so.12.0.0",
    )
    wrapper = VendorFile(
        path=f"{PE}/mpich/{MPICH}/ofi/gnu/12.3/bin/mpicc",
        target=f"cray-mpich-{MPICH}/bin/mpicc",
        kind="text",
        sha256="cd" * 32,
        executable=True,
    )
    gtl = VendorFile(
        path=f"{PE}/mpich/{MPICH}/gtl/lib/libmpi_gtl_cuda.so.0",
        target=f"cray-gtl-{MPICH}/lib/libmpi_gtl_cuda.so.0",
        kind="elf",
        sha256="ef" * 32,
    )
    common = {"epoch": 0, "version": "0", "release": "17", "architecture": "x86_64",
              "licence": "HPE", "vendor": "HPE", "product_version": MPICH}  # fmt: skip
    packages = (
        VendorRpm(
            filename="cray-mpich.rpm",
            sha256="12" * 32,
            name=f"cray-mpich-{MPICH}-gnu123",
            product="mpich",
            root=f"{PE}/mpich/{MPICH}/ofi/gnu/12.3",
            folder=f"cray-mpich-{MPICH}",
            scripts=("%post",),
            files=(library, name, wrapper),
            **common,
        ),
        VendorRpm(
            filename="cray-gtl.rpm",
            sha256="34" * 32,
            name=f"cray-mpich-{MPICH}-gtl",
            product="gtl",
            root=f"{PE}/mpich/{MPICH}/gtl",
            folder=f"cray-gtl-{MPICH}",
            files=(gtl,),
            **common,
        ),
    )
    libraries = (
        VendorLibrary(
            target=library.target,
            soname="libmpi_gnu_123.so.12",
            needed=("libfabric.so.1", "libpmi.so.0", "libc.so.6"),
            glibc="2.31",
        ),
        VendorLibrary(target=gtl.target, soname="libmpi_gtl_cuda.so.0", needed=("libc.so.6",)),
    )
    return VendorLock(
        wants=wants(stack), compiler="gnu-12.3", packages=packages, libraries=libraries
    )
