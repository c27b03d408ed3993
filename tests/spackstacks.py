"""Stacks for Spack and lock files as Spack writes them, of every generation, for tests."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from stackproof.build.engines.spack import lockplan
from stackproof.build.engines.spack.stack import (
    Compiler,
    GitSource,
    LocalRepository,
    LockedClone,
    PackageRepository,
    SpackEnvironment,
    SpackLock,
    SpackStack,
    SpackView,
    Splice,
    ViewChange,
)
from stackproof.build.plan import Copy
from stackproof.core.value import replace

SPACK = "https://example.org/spack.git"
PACKAGES = "https://example.org/packages.git"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
MOUNT = "/user-environment"
SITE_GCC = {
    "externals": [
        {
            "spec": "gcc@12.3.0 languages:='c,c++,fortran'",
            "prefix": "/usr",
            "extra_attributes": {
                "compilers": {
                    "c": "/usr/bin/gcc-12",
                    "cxx": "/usr/bin/g++-12",
                    "fortran": "/usr/bin/gfortran-12",
                }
            },
        }
    ],
    "buildable": True,
}
SITE_COMPILERS = (
    {
        "compiler": {
            "spec": "gcc@=7.5.0",
            "paths": {
                "cc": "/usr/bin/gcc",
                "cxx": "/usr/bin/g++",
                "f77": "/usr/bin/gfortran",
                "fc": "/usr/bin/gfortran",
            },
            "operating_system": "sles15",
            "modules": [],
        }
    },
)


def entry(text: str) -> Copy:
    return Copy(sha256=hashlib.sha256(text.encode()).hexdigest())


def views() -> tuple[SpackView, ...]:
    return (
        SpackView(
            name="default",
            description="everything",
            prefix_paths={"LD_LIBRARY_PATH": ("lib", "lib64")},
            changes=(
                ViewChange(op="set", variable="APP_HOME", value="/user-environment/env/default"),
                ViewChange(op="unset", variable="PYTHONPATH"),
                ViewChange(op="prepend", variable="PATH", value="${@HOME@}/bin"),
            ),
        ),
        SpackView(
            name="run",
            link="run",
            exclude=("cuda",),
            projections={"all": "{name}"},
            add_compilers=False,
        ),
    )


def environment(**changes: Any) -> SpackEnvironment:
    base = SpackEnvironment(
        name="apps",
        compilers=("gcc",),
        specs=("app@1.2 +shared", "openmpi@5.0.9", "libfabric@2.2:"),
        mpi="openmpi",
        variants=("+mpi",),
        prefer=("%[when=%c] c=gcc@14 %[when=%cxx] cxx=gcc@14 %[when=%fortran] fortran=gcc@14",),
        views=views(),
    )
    return replace(base, **changes)


def stack(generation: int = 2, **changes: Any) -> SpackStack:
    """Return a stack that has one of everything, in the language of a generation."""
    base = SpackStack(
        name="prgenv",
        generation=generation,
        mount=MOUNT,
        spack=GitSource(url=SPACK, commit="releases/v1.1"),
        architecture="aarch64",
        description="compilers and MPI",
        default_view="default",
        package_repositories=(
            PackageRepository(name="builtin", source=GitSource(url=PACKAGES, commit="develop")),
        ),
        local_repositories=(
            LocalRepository(namespace="recipe", files={"packages/app/package.py": entry("app")}),
        ),
        compilers=(
            Compiler(
                name="gcc",
                specs=("gcc@14.3 +bootstrap",),
                variants=("build_type=Release", "+bootstrap"),
            ),
        ),
        environments=(environment(),),
        packages={"gcc": SITE_GCC, "slurm": {"buildable": False}},
        modules={"default": {"arch_folder": False, "tcl": {"hash_length": 0}}},
        cleanup="runtime",
        pre_install="#!/bin/sh\necho before\n",
        post_install="#!/bin/sh\necho after\n",
        recipe_files={"config.yaml": entry("name: prgenv")},
        extra_files={"reframe.yaml": entry("x")},
        site_facts={"cluster": "alps"},
    )
    if generation == 1:
        base = replace(
            base,
            spack=GitSource(url=SPACK, commit="v0.23.1"),
            package_repositories=(),
            compilers=(
                Compiler(
                    name="bootstrap",
                    specs=("gcc@12.3 languages=c,c++",),
                    variants=("build_type=Release", "~bootstrap"),
                    package_variants={"gmp": ("libs=static",)},
                    find_external=("perl", "m4"),
                ),
                Compiler(
                    name="gcc",
                    specs=("gcc@14.3",),
                    needs="bootstrap",
                    needs_spec="gcc@12.3",
                    variants=("build_type=Release", "+bootstrap"),
                ),
            ),
            environments=(environment(compiler_specs=("gcc@14.3",), prefer=()),),
            packages={"slurm": {"buildable": False}},
            compilers_yaml=SITE_COMPILERS,
            concretizer={"targets": {"granularity": "microarchitectures"}},
        )
    return replace(base, **changes)


def clones(of: SpackStack) -> tuple[LockedClone, ...]:
    found = [
        LockedClone(
            name="spack", url=SPACK, ref=of.spack.commit or "", commit=COMMIT, folder="spack"
        )
    ]
    found += [
        LockedClone(
            name=r.name,
            url=r.source.url,
            ref="develop",
            commit=COMMIT[::-1],
            folder=f"repos/{r.name}",
        )
        for r in of.package_repositories
    ]
    return tuple(found)


def node(name: str, version: str, *needs: tuple[str, str], **more: Any) -> dict[str, Any]:
    """Return one package of a lock file; `needs` are pairs of name and type of dependency."""
    return {
        "name": name,
        "version": version,
        "arch": {"platform": "linux", "platform_os": "sles15", "target": {"name": "neoverse_v2"}},
        "namespace": "builtin",
        "parameters": {"shared": True, "cflags": [], **more.pop("variants", {})},
        "package_hash": "abc====",
        "dependencies": [
            {
                "name": other,
                "hash": digest(other),
                "parameters": {
                    "deptypes": kind.split(","),
                    "virtuals": ["c", "cxx"] if other == "gcc" else [],
                },
            }
            for other, kind in needs
        ],
        "hash": digest(name),
        **more,
    }


def digest(name: str) -> str:
    return (name.replace("-", "") * 32)[:32]


def content(roots: tuple[str, ...], *nodes: dict[str, Any], version: int = 6) -> dict[str, Any]:
    return {
        "_meta": {
            "file-type": "spack-lockfile",
            "lockfile-version": version,
            "specfile-version": 5,
        },
        "spack": {"version": "1.1.0"},
        "roots": [{"hash": digest(name), "spec": name} for name in roots],
        "concrete_specs": {one["hash"]: one for one in nodes},
    }


def lock_files(of: SpackStack) -> dict[str, bytes]:
    """Return what Spack left in every folder: compilers, then app on Open MPI on libfabric."""
    found = {}
    for compiler in of.compilers:
        if not compiler.external:
            version = "12.3.0" if compiler.name == "bootstrap" else "14.3.0"
            languages = ["c", "c++"] if compiler.name == "bootstrap" else ["c", "c++", "fortran"]
            gcc = node("gcc", version, ("gmp", "link"), variants={"languages": languages})
            found[f"compilers/{compiler.name}/spack.lock"] = content(
                ("gcc",), gcc, node("gmp", "6.3.0")
            )
    outside = {"external": {"path": "/opt/site/slurm", "module": None, "extra_attributes": {}}}
    for one in of.environments:
        if one.splice:
            found |= spliced_files(one.name)
            continue
        found[f"environments/{one.name}/spack.lock"] = content(
            ("app", "openmpi", "libfabric"),
            node("app", "1.2", ("openmpi", "build,link"), ("gcc", "build"), ("cmake", "build")),
            node("openmpi", "5.0.9", ("libfabric", "link"), ("slurm", "link"), ("gcc", "build")),
            node("libfabric", "2.2.0", ("gcc", "build")),
            node("slurm", "23.02", **outside),
            node("gcc", "14.3.0", variants={"languages": ["c", "c++", "fortran"]}),
            node("cmake", "3.31.9"),
        )
    return {path: json.dumps(data).encode() for path, data in found.items()}


UNSPLICED = "c" * 32
"""The hash of `app` as it was compiled, in the lock files of `spliced`."""


def spliced(generation: int = 2) -> SpackStack:
    """Return a stack that is compiled with MPICH, and linked with Intel MPI."""
    splice = Splice(
        mpi="mpich",
        built_with=("mpich@4.3.2 netmod=ofi",),
        specs=("intel-oneapi-mpi@2021.17", "libfabric@2.2:"),
    )
    specs = ("app@1.2 +shared", "libfabric@2.2:")
    one = environment(specs=specs, mpi="intel-oneapi-mpi", splice=splice)
    return stack(generation, environments=(one,))


def spliced_files(name: str) -> dict[str, dict[str, Any]]:
    """Return what Spack leaves of a spliced environment and of its parts, as Spack 0.23 did."""
    common = (
        node("libfabric", "2.2.0", ("gcc", "build")),
        node("gcc", "14.3.0", variants={"languages": ["c", "c++", "fortran"]}),
    )
    compiled = (
        node("app", "1.2", ("mpich", "build,link"), ("gcc", "build"), hash=UNSPLICED),
        node("mpich", "4.3.2", ("libfabric", "link"), ("gcc", "build")),
    )
    replacement = node("intel-oneapi-mpi", "2021.17.0", ("libfabric", "link"))
    linked = node(
        "app", "1.2", ("intel-oneapi-mpi", "link"), build_spec={"name": "app", "hash": UNSPLICED}
    )
    alone = content(("intel-oneapi-mpi", "libfabric"), replacement, *common)
    built = content(("app", "libfabric", "mpich"), *compiled, *common)
    built["roots"][0]["hash"] = UNSPLICED
    whole = content(("app", "libfabric"), linked, *compiled, replacement, *common)
    whole["include_concrete"] = {f"/build/replacements/{name}": alone}
    return {
        f"built/{name}/spack.lock": built,
        f"replacements/{name}/spack.lock": alone,
        f"environments/{name}/spack.lock": whole,
    }


def locked(of: SpackStack) -> SpackLock:
    """Return the lock that is made of what Spack left."""
    return lockplan.read_lock(of, clones(of), lock_files(of))
