"""From a recipe to two ranks of a program of EESSI, by the lines of the how-to, with a real Lmod.

The repository is a folder laid out as EESSI's, with a real Open MPI 4.1 as its own and a program that
was linked as EESSI's are; under it comes Open MPI 5 of the shipped recipe, in an image. What the ranks
have mapped is read by the ranks themselves, at their end.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import eessitree
from documented import ROOT
from eessitree import EessiTree, write
from need import need

pytestmark = pytest.mark.machine

PAGE = ROOT / "docs/how-to/inject-into-eessi.md"
OSU = "OSU-Micro-Benchmarks/7.4-gompi-2023a"
MAPS = """
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
__attribute__((destructor)) static void keep(void) {
    char line[4096], name[4096];
    const char *rank = getenv("OMPI_COMM_WORLD_RANK"), *folder = getenv("MAPS");
    if (!rank || !folder) return;
    snprintf(name, sizeof name, "%s/maps.%s", folder, rank);
    FILE *in = fopen("/proc/self/maps", "r"), *out = fopen(name, "w");
    while (fgets(line, sizeof line, in)) fputs(line, out);
    fclose(out);
}
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> EessiTree:
    need("lmod", "network", "gcc", "patchelf", "mksquashfs", "bubblewrap")
    found = eessitree.made(tmp_path_factory.mktemp("eessi"))
    (found.repository.parent / "opt-eessi").mkdir()
    (found.repository / "host_injections").symlink_to("../opt-eessi")
    program = found.software / "software" / OSU / "bin" / "osu_bw"
    write(
        found.software / "modules" / "all" / f"{OSU}.lua",
        f'depends_on("{eessitree.MODULE}")\nprepend_path("PATH", "{program.parent}")\n',
    )
    compile_program(found, program)
    return found


def compile_program(tree: EessiTree, program: Path) -> None:
    """Compile the stand-in for OSU's program with EESSI's MPI, and link it as EESSI's are."""
    program.parent.mkdir(parents=True)
    maps = write(program.parent.parent / "maps.c", MAPS)
    standin = ROOT / "tests" / "osustandin" / "c"
    override = tree.site / "rpath_overrides" / "OpenMPI" / "system"
    rpath = f"{override}/lib:{override}/lib64:{tree.mpi}/lib"
    argv = [tree.mpi / "bin" / "mpicc", "-O1", '-DRELEASE="7.4"', f"-I{standin}", "-o", program,
            standin / "mpi/pt2pt/standard/osu_bw.c", maps,
            f"-Wl,--disable-new-dtags,-rpath,{rpath}"]  # fmt: skip
    env = {**os.environ, "OPAL_PREFIX": str(tree.mpi)}
    subprocess.run(list(map(str, argv)), check=True, timeout=600, env=env)


def shell(tree: EessiTree, folder: Path, *lines: str) -> str:
    """Return what some lines print in one shell of a user of EESSI."""
    env = {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "HOME": str(folder),
        "STACKPROOF_CACHE": os.environ.get("STACKPROOF_CACHE", str(folder / "cache")),
        "MAPS": str(folder),
        "EESSI_CVMFS_REPO": str(tree.repository),
        "EESSI_VERSION": eessitree.VERSION,
        **{f"{name}_ALLOW_RUN_AS_ROOT{more}": "1"
           for name in ("OMPI", "PRTE") for more in ("", "_CONFIRM")},
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    }  # fmt: skip
    done = subprocess.run(
        ["bash", "-c", "set -e\n" + "\n".join(lines)], cwd=folder, env=env, check=False,
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def mapped(folder: Path) -> list[set[str]]:
    """Return which libraries each rank had mapped."""
    return [
        {os.path.normpath(word) for word in re.findall(r"/\S+", path.read_text()) if ".so" in word}
        for path in sorted(folder.glob("maps.*"))
    ]


def test_the_lines_of_the_how_to(tree: EessiTree, tmp_path: Path) -> None:
    block = re.search(r"test_eessi_road.*-->\n\n((?:    .*\n)+)", PAGE.read_text())
    assert block is not None
    texts = [line.strip() for line in block[1].splitlines()]
    assert len(texts) <= 10
    lines = [
        line.replace("/cvmfs/software.eessi.io/versions/2025.06",
                     f"{tree.repository}/versions/{eessitree.VERSION}")
        for line in texts
    ]  # fmt: skip
    shutil.copy(ROOT / "recipes" / "openmpi.yaml", tmp_path)
    shutil.copy(ROOT / "recipes" / "openmpi.lock.json", tmp_path)
    said = shell(tree, tmp_path, *lines, "echo of $SEEN_BY_EESSI; type -p mpirun")
    place = tree.site / "rpath_overrides" / "OpenMPI" / "system"
    assert f"libmpi.so.40 => {place}/lib/libmpi.so.40" in said
    assert "OSU MPI Bandwidth Test" in said
    found = place / "home" / "bin/mpirun"
    assert f"of {OSU}\n{found}\n" in said
    real = place.resolve()
    ranks = mapped(tmp_path)
    assert len(ranks) == 2
    for libraries in ranks:
        assert f"{real}/lib/libmpi.so.40" in libraries
        assert f"{real}/lib/libopen-pal.so.80" in libraries
        assert not any(path.startswith(f"{tree.mpi}/") for path in libraries)
        assert not any("user-environment" in path or "cache" in path for path in libraries)

    undone = shell(
        tree, tmp_path, *lines[1:3],
        "stackproof inject undo ${EESSI_SOFTWARE_PATH/versions/host_injections}/rpath_overrides/"
        "OpenMPI/system", "module update; ldd $(which osu_bw); type -p mpirun",
    )  # fmt: skip
    assert f"libmpi.so.40 => {tree.mpi}/lib/libmpi.so.40" in undone
    assert undone.endswith(f"{tree.mpi}/bin/mpirun\n")
    assert not (tree.site / ".lmod" / "SitePackage.lua").exists()
