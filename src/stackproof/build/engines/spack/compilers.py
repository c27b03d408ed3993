"""Compilers of a stack: which node of the lock each one is, and where its programs are.

One that is not installed yet has a stand-in, so that Spack 0.23 can solve with it. Spack before
1.0 leaves out a compiler that does not run, asks it for its version and compiles an empty program
to see which C library it takes (lib/spack/spack/compiler.py). A compiler that the stack builds
takes the machine's C library, as the machine's compiler does. So a small script at the future
path answers with the future version and hands everything else to the machine's compiler. It
exists only while a lock is made: what is built is built by the real one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stackproof.build.engines.spack import locks
from stackproof.build.engines.spack.layout import COMPILERS
from stackproof.build.engines.spack.locks import SolvedPackage
from stackproof.build.engines.spack.stack import (
    Compiler,
    Programs,
    SpackEnvironment,
    SpackLock,
    SpackStack,
)
from stackproof.build.engines.spack.stackinator.compilers import old_compiler, satisfies
from stackproof.build.engines.spack.stackinator.findings import externals, mapping

# The programs of a compiler package for C, C++ and Fortran, below its folder of programs.
_PROGRAMS = {
    "gcc": ("gcc", "g++", "gfortran"),
    "nvhpc": ("nvc", "nvc++", "nvfortran"),
    "llvm": ("clang", "clang++", "flang"),
    "llvm-amdgpu": ("amdclang", "amdclang++", "amdflang"),
    "intel-oneapi-compilers": ("icx", "icpx", "ifx"),
}
_LANGUAGES = ("c", "cxx", "fortran")
_OLD_KEYS = ("cc", "cxx", "fc")
PACKAGES = frozenset(_PROGRAMS)
"""Spack's packages that are compilers of stacks."""
# What Spack before 1.0 calls a compiler in a spec, where that is not the package's name.
_OLD_NAMES = {"llvm": "clang", "llvm-amdgpu": "rocmcc", "intel-oneapi-compilers": "oneapi"}
_FLANG_RENAMED = 20  # llvm 20 calls its Fortran compiler `flang`, before it was `flang-new`
_ONEAPI_FLAT = 2024  # oneAPI 2024 moved its programs from <version>/linux/bin to <major.minor>/bin


def list_programs(compiler: str) -> tuple[str, ...]:
    """Return the names of the programs of a compiler of a stack, for C, C++ and Fortran."""
    return _PROGRAMS.get(compiler, _PROGRAMS["gcc"])


def named(stack: SpackStack, name: str) -> Compiler:
    """Return a compiler of the stack by its name; it has to be there."""
    return next(compiler for compiler in stack.compilers if compiler.name == name)


def behind(stack: SpackStack, environment: SpackEnvironment) -> tuple[Compiler, ...]:
    """Return the compilers that an environment uses, its own first, each once.

    The last of them is what built the others: gcc, where no other compiler needs it.
    """
    found: dict[str, Compiler] = {}
    waiting = list(environment.compilers)
    while waiting:
        name = waiting.pop(0)
        if name not in found:
            found[name] = named(stack, name)
            if found[name].needs:
                waiting.append(str(found[name].needs))
    return tuple(found.values())


def programs(stack: SpackStack, lock: SpackLock, compiler: Compiler) -> tuple[Programs, ...]:
    """Return what a compiler of the stack brings: from its lock, or from the site's packages."""
    if compiler.external:
        return outside(stack, compiler.name)
    content = lock.environments[f"{COMPILERS}/{compiler.name}"]
    return from_content(stack, content)


def from_content(stack: SpackStack, content: Mapping[str, Any]) -> tuple[Programs, ...]:
    """Return the compilers among the roots of a lock file's content."""
    known = locks.nodes(content, stack.mount)
    found = (known[key] for key in locks.roots(content) if key in known)
    return tuple(_of_node(node, stack) for node in found if node.name in PACKAGES)


def outside(stack: SpackStack, package: str) -> tuple[Programs, ...]:
    """Return the compilers of the site of one package, as `packages.yaml` names them."""
    return tuple(
        Programs(
            package=package,
            version=str(external["spec"]).partition("@")[2].split(" ")[0].split("~")[0],
            prefix=str(external.get("prefix", "")),
            paths=dict(external["extra_attributes"]["compilers"]),
            ours=False,
        )
        for external in externals(stack.packages.get(package))
        if mapping(external.get("extra_attributes")).get("compilers")
    )


def matching(found: tuple[Programs, ...], specs: tuple[str, ...]) -> tuple[Programs, ...]:
    """Return the compilers that specs such as `gcc@12.3` ask for; all of them without specs."""
    wanted = [spec for spec in specs if spec.split()]
    return tuple(
        one
        for one in found
        if not wanted or any(satisfies(f"{one.package}@{one.version}", spec) for spec in wanted)
    )


def as_externals(found: tuple[Programs, ...]) -> dict[str, Any]:
    """Return a `packages:` section that tells Spack 1.0 and newer of compilers of the stack."""
    section: dict[str, Any] = {}
    for one in found:
        section.setdefault(one.package, {"externals": []})["externals"].append(
            {
                "spec": f"{one.package}@{one.version}" + _languages(one),
                "prefix": one.prefix,
                "extra_attributes": {"compilers": dict(one.paths)},
            }
        )
    return section


def as_compilers(found: tuple[Programs, ...], machine: str) -> list[dict[str, Any]]:
    """Return a `compilers:` section that tells Spack before 1.0 of compilers of the stack."""
    return [
        old_compiler(
            f"{_OLD_NAMES.get(one.package, one.package)}@={one.version}", one.paths, one.os, machine
        )
        for one in found
    ]


def from_compilers_yaml(section: tuple[Mapping[str, Any], ...]) -> tuple[Programs, ...]:
    """Return the site's compilers as Spack before 1.0 has them."""
    return tuple(
        Programs(
            package=str(one["spec"]).partition("@")[0],
            version=str(one["spec"]).partition("@")[2].lstrip("="),
            prefix="",
            paths={
                language: one["paths"][key]
                for language, key in zip(_LANGUAGES, _OLD_KEYS, strict=True)
                if one["paths"].get(key)
            },
            ours=False,
        )
        for one in (item["compiler"] for item in section)
    )


def _languages(one: Programs) -> str:
    """Return the variant that tells Spack which languages an external gcc has."""
    if one.package != "gcc":
        return ""
    words = {"c": "c", "cxx": "c++", "fortran": "fortran"}
    return f" languages:='{','.join(words[language] for language in one.paths)}'"


def _of_node(node: SolvedPackage, stack: SpackStack) -> Programs:
    folder = f"{node.prefix}/{_program_folder(node, stack.architecture)}"
    names = _PROGRAMS[node.name]
    if node.name == "llvm" and _major(node) < _FLANG_RENAMED:
        names = (*names[:2], "flang-new")
    has = _has_languages(node)
    return Programs(
        package=node.name,
        version=node.version,
        prefix=node.prefix,
        os=node.os,
        paths={
            language: f"{folder}/{name}"
            for language, name in zip(_LANGUAGES, names, strict=True)
            if language in has
        },
    )


def _has_languages(node: SolvedPackage) -> frozenset[str]:
    if node.name == "gcc":
        words = {"c": "c", "c++": "cxx", "fortran": "fortran"}
        given = node.variants.get("languages", tuple(words))
        return frozenset(words[word] for word in given if word in words)
    if node.name == "llvm" and not node.variants.get("flang"):
        return frozenset(("c", "cxx"))
    return frozenset(_LANGUAGES)


def _program_folder(node: SolvedPackage, machine: str) -> str:
    """Return the folder of programs below the prefix, as each vendor's installer lays it out."""
    if node.name == "nvhpc":
        return f"Linux_{machine}/{node.version}/compilers/bin"
    if node.name == "intel-oneapi-compilers":
        if _major(node) < _ONEAPI_FLAT:
            return f"compiler/{node.version}/linux/bin"
        return f"compiler/{'.'.join(node.version.split('.')[:2])}/bin"
    return "bin"


def _major(node: SolvedPackage) -> int:
    digits = node.version.split(".")[0]
    return int(digits) if digits.isdecimal() else 0


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
