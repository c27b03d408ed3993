"""`compilers.yaml`: which compilers a stack has, and what builds them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stackproof.build.engines.spack.stack import Compiler
from stackproof.build.engines.spack.stackinator.findings import DocumentPart, FindingsList, Folder
from stackproof.build.engines.spack.stackinator.versions import Language

# What Spack calls a compiler in a constraint, where that is not the package's name.
CONSTRAINT_NAMES = {"intel-oneapi-compilers": "oneapi"}
SYSTEM = "system"

# Version 1 only. Gcc is made of static libraries, with tools of the machine.
# Source: templates/compilers.*.spack.yaml and recipe.py of Stackinator's branch releases/v5.
_STATIC = {
    "mpc": ("libs=static",),
    "gmp": ("libs=static",),
    "mpfr": ("libs=static",),
    "zstd": ("libs=static",),
    "zlib": ("~shared",),
}
_FOUND = ("perl", "m4", "autoconf", "automake", "libtool", "gawk", "python", "texinfo")
_BOOTSTRAP_VARIANTS = ("build_type=Release", "~bootstrap", "+strip")


def read_compilers(
    folder: Folder, language: Language, findings: FindingsList
) -> tuple[Compiler, ...] | None:
    """Return the compilers in the order they are built; None when the document is not valid."""
    schema = language.schema("compilers")
    document = findings.read(folder, "compilers.yaml", schema, language.version, "a recipe")
    if document is None:
        return None
    read = _stages if language.version == 1 else _by_kind
    return read(DocumentPart(document, findings), document.data, language)


def _by_kind(
    entry: DocumentPart, data: Mapping[str, Any], language: Language
) -> tuple[Compiler, ...] | None:
    """Return one compiler of each kind: gcc by the site's own, the others by gcc."""
    system = data["gcc"]["version"] == SYSTEM
    if system and not language.system_gcc:
        there = entry.findings.called("`version: 3` in config.yaml")
        message = "`system` is not a version of gcc in this version of the recipe language"
        hint = f'name a version, such as "13", or write {there}'
        entry.problem(("gcc", "version"), message, hint)
        return None
    if system and data["gcc"].get("spec"):
        message = "the machine's own gcc is used as it is: `spec` has no effect"
        entry.note(("gcc", "spec"), message)
    result = []
    for name, default in language.compiler_defaults.items():
        body = data.get(name)
        if body is None:
            continue
        version = body["version"]
        if any(character in version for character in " @%^/"):
            hint = 'write the version alone, such as "13.2"; variants go to `spec` (version 3)'
            entry.problem((name, "version"), f"`{version}` is not a version", hint)
        if name == "gcc" and system:
            result.append(Compiler(name="gcc", specs=(), external=True))
            continue
        is_gcc = name == "gcc"
        spec = f"{name}@{version} {body.get('spec') or default}".strip()
        result.append(
            Compiler(
                name=name,
                specs=(spec,),
                needs=None if is_gcc or system else "gcc",
                variants=language.gcc_variants if is_gcc else (),
            )
        )
    return tuple(result)


def _stages(
    entry: DocumentPart, data: Mapping[str, Any], language: Language
) -> tuple[Compiler, ...]:
    """Return the stages of version 1: bootstrap, gcc, and what gcc builds."""
    first, defaults = data["bootstrap"]["spec"], language.compiler_defaults
    stages = [
        Compiler(
            name="bootstrap",
            specs=(f"{first} {defaults['gcc']}",),
            variants=_BOOTSTRAP_VARIANTS,
            package_variants=_STATIC,
            find_external=_FOUND,
        ),
        Compiler(
            name="gcc",
            specs=tuple(data["gcc"]["specs"]),
            needs="bootstrap",
            needs_spec=first,
            variants=language.gcc_variants,
            package_variants=_STATIC,
            find_external=_FOUND,
        ),
    ]
    llvm: dict[str, Any] | None = data.get("llvm")
    if llvm is not None:
        required = llvm["requires"]
        if not any(satisfies(spec, required) for spec in data["gcc"]["specs"]):
            message = f"`{required}` is not one of the gcc that this recipe builds"
            hint = f"it builds {', '.join(data['gcc']['specs'])}"
            entry.problem(("llvm", "requires"), message, hint)
        specs = tuple(_staged(spec, defaults) for spec in llvm["specs"])
        stages.append(Compiler(name="llvm", specs=specs, needs="gcc", needs_spec=required))
    return tuple(stages)


def _staged(spec: str, defaults: Any) -> str:
    name = spec.partition("@")[0]
    # Without a blank in front of `~`, as Spack up to 0.23 prints it.
    return f"{spec} {defaults[name]}" if name == "llvm" else f"{spec}{defaults[name]}"


def old_compiler(
    spec: str, paths: Mapping[str, str | None], system: str, target: str
) -> dict[str, Any]:
    """Return an entry of `compilers:` as Spack before 1.0 has it; `paths` are by language."""
    return {
        "compiler": {
            "spec": spec,
            "paths": {
                "cc": paths.get("c"),
                "cxx": paths.get("cxx"),
                "f77": paths.get("fortran"),
                "fc": paths.get("fortran"),
            },
            "flags": {},
            "operating_system": system,
            "target": target,
            "modules": [],
            "environment": {},
            "extra_rpaths": [],
        }
    }


def base(spec: str) -> tuple[str, str]:
    """Return the package and the version that a spec begins with (`gcc@12.3 +x`: gcc, 12.3)."""
    head = spec.split(maxsplit=1)[0] if spec.split() else ""
    for mark in "~+%^":
        head = head.partition(mark)[0]
    name, _, version = head.partition("@")
    return name, version.removeprefix("=")


def satisfies(spec: str, asked: str) -> bool:
    """Return whether a spec of one exact version is what another one asks for.

    `gcc@12.3` satisfies `gcc`, `gcc@12` and `gcc@12.3`, and not `gcc@12.31` or `gcc@1`.
    """
    name, version = base(spec)
    other, wanted = base(asked)
    return name == other and (not wanted or f"{version}.".startswith(f"{wanted}."))
