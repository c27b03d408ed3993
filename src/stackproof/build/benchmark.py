"""The step that compiles the benchmark with a stack's own MPI, for every engine."""

from __future__ import annotations

from collections.abc import Mapping

from stackproof.build.plan import BENCHMARK, Step
from stackproof.core.command import Command, EnvPatch
from stackproof.image.model import MpiFacts
from stackproof.mpi import families

NATIVE = "stackproof-bench"
"""The name of the benchmark program in an image."""
_FOLDER = "benchmarks"
FLAGS = ("-std=c11", "-O2", "-Wall", "-Wextra", "-D_GNU_SOURCE")
"""How it is compiled, in images and for arms that are none."""
LIBRARIES = ("-lm", "-ldl")
"""What it is linked with: C libraries before 2.34 have dlopen in one of its own."""


def program_path(mount: str) -> str:
    """Return where the program is in a mounted image."""
    return f"{mount}/{_FOLDER}/{NATIVE}"


def compile_step(
    *,
    mount: str,
    facts: MpiFacts,
    csrc: Mapping[str, str],
    env: EnvPatch | None = None,
) -> Step:
    """Return the step that compiles the benchmark with the MPI's own compiler wrapper.

    `csrc` are the C sources by name, `env` is what the wrapper needs. The sources stay in the
    image: whoever doubts a number can read the program that made it.
    """
    units = sorted(name for name in csrc if name.endswith(".c"))
    compiler = families.REGISTRY[facts.family].compiler
    return Step(
        name=BENCHMARK,
        description=f"compile {NATIVE} with the stack's {compiler}",
        files={f"{_FOLDER}/src/{name}": text for name, text in csrc.items()},
        commands=(
            Command(
                argv=(
                    f"{facts.prefix}/bin/{compiler}", *FLAGS, "-o", f"../{NATIVE}", *units,
                    *LIBRARIES,
                ),
                cwd=f"{mount}/{_FOLDER}/src",
                env=env or EnvPatch(),
            ),
        ),
        outputs=(_FOLDER,),
    )  # fmt: skip
