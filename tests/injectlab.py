"""Programs and MPIs that are made for one case of a prediction, and the prediction.

from injectlab import causes, judged, mpich, openmpi
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from elflab import Lab
from stackproof.core import noun
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


def judged(lab, program, prefix, view=None, **more):
    """Return the judgement of a program; `more` is of the loader's settings, and of the question."""
    view = view or RootView()
    names = LoaderSettings.__struct_fields__
    setting = LoaderSettings(**{name: more.pop(name) for name in [*more] if name in names})
    more = {"machine": this_machine(), "releases": known_releases.load_releases, **more}
    replacement = find_replacement(view, lab.path(prefix))
    found = judge(view, program, replacement, Question(setting=setting, **more))
    assert found == noun.from_data(type(found), noun.to_data(found))
    return found


def causes(judgement, *effects):
    wanted = effects or tuple(Effect)
    return {one.cause for one in judgement.findings if one.effect in wanted}


def mpich(lab: Lab, folder: str, name: str = "libmpi.so.12", **more: Any) -> str:
    defines = [*MPICH, *more.pop("defines", [])]
    return lab.library(f"{folder}/lib/{name}", defines=defines, **more)


def openmpi(lab, folder, **more):
    defines = ["MPI_Init", "PMPI_Init", *more.pop("defines", [])]
    return lab.library(f"{folder}/lib/libmpi.so.40", defines=defines, data=WORLD, **more)


def uses_mpich(lab, calls=("MPI_Init",), *, name="bin/program", own="old/lib", **more):
    """Compile a program whose code shows that it is for MPICH, and that finds its own one."""
    return _uses(lab, calls, name, own, "libmpi.so.12", USES_MPICH, more)


def uses_openmpi(lab, calls=("MPI_Init",), *, name="bin/program", own="old/lib", **more):
    """Compile a program whose code shows that it is for Open MPI, and that finds its own one."""
    return _uses(lab, calls, name, own, "libmpi.so.40", USES_OPENMPI, more)


def _uses(lab, calls, name, own, library, code, more):
    given = {"needs": [f"{own}/{library}"], "flags": found_in(lab, own), **more}
    given["declarations"] = code + more.get("declarations", "")
    return lab.program(name, calls=calls, **given)


def found_in(lab, *folders):
    return [f"-Wl,--enable-new-dtags,-rpath,{':'.join(map(lab.path, folders))}"]


def rpath_of(lab, *folders):
    return [f"-Wl,--disable-new-dtags,-rpath,{':'.join(map(lab.path, folders))}"]


def links_made(lab, judgement):
    """Return the environment of a judgement after its links were made."""
    home = Path(lab.path("aliases"))
    home.mkdir(exist_ok=True)
    for link, target in judgement.way.links.items():
        Path(link.replace("/run/stackproof-aliases", str(home))).symlink_to(target)
    return {
        name: value.replace("/run/stackproof-aliases", str(home))
        for name, value in judgement.environment.items()
    }


def root_of(lab):
    """Make the folder `root` a place where programs of this machine start; return its path."""
    root = lab.path("root")
    program = lab.program("any", calls=[])
    closure = load_program(RootView(), program, machine=this_machine())
    for path in (closure.program.elf.interpreter, *(one.path for one in closure.objects[1:])):
        os.makedirs(root + os.path.dirname(path), exist_ok=True)
        shutil.copy(os.path.realpath(path), root + path)
    return root
