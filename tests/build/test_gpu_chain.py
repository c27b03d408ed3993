"""Chains for GPUs and by other compilers, without a GPU, its driver or NVIDIA's installer.

CUDA's header files and runtime are from the package index, by the lines of the how-to.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

import documented
from easybuilds import lock, plan, put, setup, stack
from need import need
from stackproof.build.effects.executor import execute
from stackproof.build.engines.easybuild.chain import chain
from stackproof.build.engines.easybuild.components import (
    COMPILERS,
    ChainRequest,
    ExternalComponent,
    Gpu,
    Toolchain,
)
from stackproof.build.engines.easybuild.effects import builder
from stackproof.build.engines.easybuild.effects.builder import machine_problems
from stackproof.build.engines.easybuild.effects.sources import SourceFinder, of_all
from stackproof.build.engines.easybuild.engine import ENGINE
from stackproof.core.command import Bind
from stackproof.core.effects.sandbox import packages
from stackproof.core.monitor import null_monitor
from stackproof.core.value import replace
from tinysources import LIBRARY

CSRC = Path(__file__).parents[1] / "csrc"
PAGE = documented.ROOT / "docs" / "how-to" / "gpu-buffers.md"


@pytest.fixture(scope="module")
def cuda(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return what the lines of the page make."""
    need("gcc", "network")
    folder = tmp_path_factory.mktemp("toolkit")
    (lines,) = re.findall(r"^```bash\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    lines = lines.replace("python3", sys.executable)
    subprocess.run(["bash", "-euo", "pipefail", "-c", lines], cwd=folder, check=True, timeout=300)
    stub = folder / "cuda" / "lib64" / "stubs" / "libcuda.so"
    defined = subprocess.check_output(["nm", "-D", "--defined-only", stub], text=True)
    # What configure of Open MPI and what its component calls.
    assert {"cuMemFree", "cuMemFree_v2"} <= {line.split()[-1] for line in defined.splitlines()}
    return folder / "cuda"


@pytest.mark.battery
def test_libfabric_takes_cuda_where_no_driver_is(cuda: Path, tmp_path: Path) -> None:
    """The catalogue's own options and commands, on the sources of Debian, up to one object file."""
    need("apt", "easybuild")
    request = ChainRequest(
        libfabric="2.1.0", providers=("tcp",), gpu=Gpu.CUDA, origins=("debian-trixie",),
        gpu_at=ExternalComponent(version="13", prefix=str(cuda)),
    )  # fmt: skip
    (made,) = chain(request, builder.load()).easyconfigs
    (packed,) = of_all(made.sources, SourceFinder((), null_monitor).obtain).values()
    with tarfile.open(packed) as archive:
        archive.extractall(tmp_path, filter="data")
    (tree,) = tmp_path.glob("libfabric*")
    # Their values are literals of Python; `kept` of the catalogue is what stands before `make`.
    said = {one.targets[0].id: one.value for one in ast.parse(made.text).body}  # type: ignore[attr-defined]
    before, options, kept = (
        ast.literal_eval(said[name]) for name in ("preconfigopts", "configopts", "prebuildopts")
    )
    line = f"{before} ./configure -q --prefix={tmp_path}/prefix {options} && {kept} make -s src/hmem_cuda.lo"
    done = subprocess.run(
        ["bash", "-c", line], cwd=tree, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    log = (tree / "config.log").read_text()
    assert "#define ENABLE_CUDA_DLOPEN 1" in log
    (folders,) = re.findall(r"^LDFLAGS = (.*)", (tree / "Makefile").read_text(), re.MULTILINE)
    assert f"-L{cuda}/lib64" in folders.split()

    # The stand-in for the driver has what this release calls.
    driver = tmp_path / "libcuda.so.1"
    strict = ("-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC")
    subprocess.run(["gcc", *strict, CSRC / "fakecuda.c", "-o", driver], check=True, timeout=600)
    text = (tree / "src" / ".libs" / "hmem_cuda.o").read_bytes()
    calls = {name.decode() for name in re.findall(rb"\0((?:cu|cuda|nvml)[A-Z]\w+)(?=\0)", text)}
    assert {"cuPointerGetAttribute", "cudaMemcpy", "nvmlInit_v2"} <= calls
    defined = subprocess.check_output(["nm", "-D", "--defined-only", driver], text=True)
    assert calls <= {line.split()[-1] for line in defined.splitlines()}


@pytest.mark.battery
def test_cuda_gets_a_run_path_and_its_stubs_none(cuda: Path, tmp_path: Path) -> None:
    """As EasyBuild's scripts link an MPI, where CUDA is no module: with `search` of its need."""
    need("easybuild", "gcc", "bubblewrap", "mksquashfs")
    linked = {
        **LIBRARY,
        "two.c": "int cudaRuntimeGetVersion(int *); int cuInit(unsigned);\n"
        "int two(void) { int to = 2; return cudaRuntimeGetVersion(&to) + (int)cuInit(0); }\n",
        "Makefile": "libtwo.so: two.c\n\t$(CC) -shared -fPIC -o $@ two.c "
        f"-L{cuda}/lib64 -lcudart -lcuda\n",
    }
    put(linked)
    whole = lock(SourceFinder((), null_monitor).tool("5.4.1"), linked)
    two = whole.components[0]
    search = f"prebuildopts = 'export LIBRARY_PATH={cuda}/lib64/stubs && '\n"
    made = replace(whole, components=(replace(two, text=two.text + search),))
    at = ExternalComponent(version="13", prefix=str(cuda))
    wanted = stack(name="linked", request=replace(stack().request, gpu=Gpu.CUDA, gpu_at=at))
    ready = replace(setup(), binds=(Bind(source=str(cuda), target=str(cuda)),))
    image = execute(plan(wanted, made), null_monitor, setup=ready).path
    dynamic = _dynamic(image, tmp_path, "software/two/1.0/lib/libtwo.so")
    assert f"{cuda}/lib64" in dynamic["RPATH"].split(":")
    assert "stubs" not in dynamic["RPATH"]
    assert "libcuda.so.1" in dynamic["NEEDED"]


def _filter(prefix: str) -> str:
    at = ExternalComponent(version="12.9", prefix=prefix)
    wanted = stack(request=replace(stack().request, gpu=Gpu.CUDA, gpu_at=at))
    argv = plan(wanted, lock()).steps[1].commands[0].argv
    found = [word for word in argv if word.startswith("--rpath-filter=")]
    return found[0].partition("=")[2].replace(",", "|") if found else ""


def test_a_folder_in_usr_local_gets_a_run_path_as_well() -> None:
    """EasyBuild leaves all of /usr out, and its filter is also an expression of our script."""
    assert _filter("/opt/cuda") == _filter("/usr") == ""
    patterns = _filter("/usr/local/cuda-12.9")
    for path, passed_over in (
        ("/usr/local/cuda-12.9/lib64", False), ("/usr/lib/x86_64-linux-gnu", True),
        ("/usr/share/x", True), ("/lib64", True), ("/opt/x", False),
    ):  # fmt: skip
        assert bool(re.match(patterns, path)) is passed_over, path
        shell = ["bash", "-c", "[[ $1 =~ $2 ]]", "x", path, f"^({patterns})"]
        assert (subprocess.run(shell, check=False).returncode == 0) is passed_over, path


def _dynamic(image: Path, folder: Path, path: str) -> dict[str, str]:
    """Return the entries of a library of an image by their kind, those of one kind with blanks."""
    tree = folder / "tree"
    argv = ["unsquashfs", "-quiet", "-no-progress", "-d", os.fspath(tree), os.fspath(image)]
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
    said = subprocess.check_output(["readelf", "-d", "-p", ".comment", tree / path], text=True)
    found: dict[str, str] = {"comment": said.partition("'.comment'")[2]}
    for kind, value in re.findall(r"\((\w+)\).*\[(.*)\]", said):
        found[kind] = f"{found.get(kind, '')} {value}".strip()
    return found


@pytest.mark.battery
def test_clang_compiles_a_chain(tmp_path: Path) -> None:
    """Named by the recipe: EasyBuild has it in its variables, and writes run paths as for gcc."""
    need("easybuild", "gcc", "bubblewrap", "mksquashfs", "clang")
    put()
    whole = lock(SourceFinder((), null_monitor).tool("5.4.1"))
    free = tuple(replace(one, text=one.text.replace("CC=gcc", "")) for one in whole.components)
    said = subprocess.check_output(["clang", "--version"], text=True)
    (version,) = re.findall(r"clang version (\d+\.\d+\.\d+)", said)
    toolchain = Toolchain(name="clang", version=version)
    wanted = stack(name="clang", request=replace(stack().request, toolchain=toolchain))
    assert machine_problems(wanted, (), ()) == ()
    image = execute(plan(wanted, replace(whole, components=free)), null_monitor, setup=setup()).path
    dynamic = _dynamic(image, tmp_path, "software/four/1.0/bin/four")
    assert f"clang version {version}" in dynamic["comment"]
    assert "/user-environment/software/two/1.0/lib" in dynamic["RPATH"].split(":")

    told = ENGINE.container(wanted, whole)
    assert {package for name in told.builder_programs for package in packages(name)} == {"clang"}

    other = replace(wanted.request, toolchain=replace(toolchain, version="99.1"))
    (problem,) = machine_problems(replace(wanted, request=other), (), ())
    assert "asks for clang 99.1, and `clang` says" in problem.message


@pytest.mark.parametrize("name", COMPILERS)
def test_every_compiler_by_its_folder(name: str, tmp_path: Path) -> None:
    """Found by PATH, never by an absolute name: EasyBuild would write its script over it."""
    made = COMPILERS[name]
    toolchain = Toolchain(name=name, version="1.2.3", prefix=str(tmp_path))
    wanted = stack(request=replace(stack().request, toolchain=toolchain))
    problems = machine_problems(wanted, (), ())
    assert f"`{name}` has no `{tmp_path}/bin/{made.c}`" in problems[0].message
    (tmp_path / "bin").mkdir()
    for program in (made.c, made.cxx, made.fortran):
        script = tmp_path / "bin" / program
        script.write_text(f"#!/bin/sh\necho {name} 1.2.3\n")
        script.chmod(0o755)
    assert machine_problems(wanted, (), ()) == ()
    steps = plan(wanted, lock()).steps
    command = steps[1].commands[0]
    option = f"--minimal-build-env=CC:{made.c},CXX:{made.cxx},FC:{made.fortran},F77:{made.fortran}"
    assert option in command.argv
    assert command.env.prepend == {"PATH": (f"{tmp_path}/bin",)}

    request = ChainRequest(
        libfabric="2.1.0", providers=("tcp",), mpi=("mpich", "4.0.2"), toolchain=toolchain,
        origins=("debian-trixie", "debian-bookworm"), versions={"hwloc": "2.9.0"},
    )  # fmt: skip
    found = chain(request, builder.load())
    fortran = made.fortran == "gfortran"
    assert ("-fallow-argument-mismatch" in found.easyconfigs[-1].text) is fortran
    assert ("gfortran" in found.tools) is fortran
