"""Stand-ins for compilers that are not installed yet, so that Spack 0.23 can solve with them.

Spack before 1.0 leaves out a compiler that does not run, asks it for its version and compiles an
empty program to see which C library it takes (lib/spack/spack/compiler.py). A compiler that the
stack builds takes the machine's C library, as the machine's compiler does. So a small script at
the future path answers with the future version and hands everything else to the machine's
compiler. It exists only while a lock is made: what is built is built by the real one.
"""

from __future__ import annotations

from stackproof.build.engines.spack.compilers import Programs, from_compilers_yaml
from stackproof.build.engines.spack.stack import SpackStack

_ANSWERS = {
    "gcc": ("-dumpfullversion -dumpversion", "{version}"),
    "nvhpc": ("-V", "nvc {version}-0 linuxpower target"),
    "llvm": ("--version", "clang version {version}"),
    "llvm-amdgpu": ("--version", "AMD clang version {version}"),
    "intel-oneapi-compilers": ("--version", "Intel(R) oneAPI DPC++/C++ Compiler {version} (0)"),
}


def scripts(stack: SpackStack, found: tuple[Programs, ...]) -> dict[str, str]:
    """Return the stand-ins of compilers by path below the store."""
    site = from_compilers_yaml(stack.compilers_yaml)
    real = next((one.paths["c"] for one in site if "c" in one.paths), "/usr/bin/gcc")
    return {
        path.removeprefix(f"{stack.mount}/"): _script(one, real)
        for one in found
        for path in one.paths.values()
    }


def _script(one: Programs, real: str) -> str:
    questions, answer = _ANSWERS[one.package]
    return (
        "#!/bin/sh\n"
        f"# Stands for {one.package} {one.version}, which is not installed yet.\n"
        'for word in "$@"; do\n'
        f'    case " {questions} " in\n'
        f"        *\" $word \"*) echo '{answer.format(version=one.version)}'; exit 0 ;;\n"
        "    esac\n"
        "done\n"
        f'exec {real} "$@"\n'
    )
