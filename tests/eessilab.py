"""A program of EESSI's kind, its MPI and MPIs of the host, compiled for tests of injections."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from elflab import Lab, run
from stackproof import cli
from stackproof.linking.effects.view import RootView

USES_MPICH = "void MPI_Recv(int); void use(void) { MPI_Recv(0x4c000405); MPI_Recv(0x4c00080b); }\n"
EVERY = ["MPI_Init", "MPI_Recv", "MPI_Get_count", "MPII_Win_get_attr"]


class Eessi(Lab):
    """A program with EESSI's DT_RPATH and a loader of its own, its MPI, and MPIs of the host.

    `host` and `newer` have an inner library in a folder of their own, found by a DT_RUNPATH.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.software = folder / "host_injections" / "2025.06" / "software" / "linux" / "x"
        self.software.mkdir(parents=True)
        self.overrides = self.software / "rpath_overrides" / "MPICH"
        self.place = self.overrides / "system"
        self.library("eessi/lib/libz.so.1", defines=["inflate"])
        self.library("eessi/lib/libmpi.so.12", defines=EVERY)
        self.mpi("host")
        self.mpi("newer")
        usual = RootView().elf(RootView().look(self.program("any"))).interpreter
        compat = folder / "compat" / "lib64" / os.path.basename(usual)
        compat.parent.mkdir(parents=True)
        shutil.copy(usual, compat)
        folders = f"{self.place}/lib:{self.place}/lib64:{self.path('eessi/lib')}"
        self.app = self.program(
            "eessi/bin/app",
            needs=["eessi/lib/libmpi.so.12", "eessi/lib/libz.so.1"],
            calls=["MPI_Init", "MPI_Get_count", "inflate"],
            declarations=USES_MPICH,
            flags=[f"-Wl,--disable-new-dtags,-rpath,{folders}", f"-Wl,--dynamic-linker,{compat}"],
        )

    def mpi(self, name, *, defines=EVERY, inner=True):
        needs = []
        if inner:
            self.library(f"{name}/lib/inner/libz.so.1", defines=["inflate", "more"])
            self.library(f"{name}/lib/inner/libfabric.so.1", defines=["fi_getinfo"])
            needs = [f"{name}/lib/inner/libz.so.1", f"{name}/lib/inner/libfabric.so.1"]
        self.library(
            f"{name}/lib/libmpi.so.12",
            defines=defines,
            imports=["fi_getinfo"] if inner else [],
            needs=needs,
            flags=["-Wl,--enable-new-dtags,-rpath,$ORIGIN/inner"],
        )

    def loaded(self):
        """Return the outcome and the loaded files by name."""
        outcome = run(self.app)
        assert outcome.done, outcome.error
        return outcome, {os.path.basename(path): path for path in outcome.loaded}


def inject(capsys, *words):
    """Return exit code, standard output and standard error."""
    with pytest.raises(SystemExit) as stop:
        cli.main(["inject", *map(str, words)])
    output = capsys.readouterr()
    return stop.value.code, output.out, output.err
