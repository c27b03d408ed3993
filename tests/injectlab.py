"""Programs and MPIs that are made for one case of a prediction, and the prediction.

from injectlab import causes, judged, mpich, openmpi
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from elflab import Lab
from stackproof.inject.attempt import Question
from stackproof.inject.effects import known_releases
from stackproof.inject.judge import judge
from stackproof.inject.model import Effect
from stackproof.inject.replacement import find_replacement
from stackproof.linking.effects.view import RootView, this_machine
from stackproof.linking.loader import LoaderSettings, load_program

MPICH = ["MPI_Init", "PMPI_Init", "MPI_Recv", "MPII_Win_get_attr"]
WORLD = [("ompi_mpi_comm_world", 8)]
USES_MPICH = "void MPI_Recv(int); void use(void) { MPI_Recv(0x4c000405); MPI_Recv(0x4c00080b); }\n"
USES_OPENMPI = "extern int ompi_mpi_comm_world[]; int *use(void) { return ompi_mpi_comm_world; }\n"


def judged(lab, program, prefix, **setting):
    view = RootView()
    question = Question(
        machine=this_machine(),
        releases=known_releases.load_releases,
        setting=LoaderSettings(**setting),
    )
    return judge(view, program, find_replacement(view, lab.path(prefix)), question)


def causes(judgement, *effects):
    wanted = effects or tuple(Effect)
    return {one.cause for one in judgement.findings if one.effect in wanted}


def mpich(lab: Lab, folder: str, name: str = "libmpi.so.12", **more: Any) -> str:
    defines = [*MPICH, *more.pop("defines", [])]
    return lab.library(f"{folder}/lib/{name}", defines=defines, **more)


def openmpi(lab, folder, **more):
    defines = ["MPI_Init", "PMPI_Init", *more.pop("defines", [])]
    return lab.library(f"{folder}/lib/libmpi.so.40", defines=defines, data=WORLD, **more)


def found_in(lab, *folders):
    return [f"-Wl,--enable-new-dtags,-rpath,{':'.join(map(lab.path, folders))}"]


def links_made(lab, judgement):
    """Return the environment of a judgement after its links were made."""
    home = Path(lab.path("aliases"))
    home.mkdir(exist_ok=True)
    for link, target in judgement.way.links.items():
        (home / os.path.basename(link)).symlink_to(target)
    return {
        name: value.replace("/run/stackproof-aliases", str(home))
        for name, value in judgement.environment.items()
    }


def root_of(lab):
    """Make the folder `root` a place where programs of this machine start; return its path."""
    root = lab.path("root")
    program = lab.program("any", calls=[])
    closure = load_program(RootView(), program, machine=this_machine(), setting=LoaderSettings())
    for path in (closure.program.elf.interpreter, *(one.path for one in closure.objects[1:])):
        os.makedirs(root + os.path.dirname(path), exist_ok=True)
        shutil.copy(os.path.realpath(path), root + path)
    return root
