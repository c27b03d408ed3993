"""The versions of Stackinator's recipe language: what each has and the others have not.

Everything that depends on the version of a recipe is in this table or names the table's field.
Source: the documentation and schemas of Stackinator's branches `releases/v5` (version 1),
`releases/v6` (version 2) and `main` (version 3), https://github.com/eth-cscs/stackinator.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import field

from stackproof.core.value import Value

SpackVersion = tuple[int, int]


class Language(Value):
    """One version of the recipe language.

    Spack versions are from `spack_from` (included) to `spack_before` (excluded); `spack_meant` is
    the oldest that Stackinator itself builds this version with. `compiler_defaults` are the
    variants of a compiler's spec where the recipe names none, `gcc_variants` what gcc prefers while
    it is built.
    """

    version: int
    spack_from: SpackVersion
    spack_meant: SpackVersion
    spack_before: SpackVersion | None = None
    compiler_defaults: Mapping[str, str] = field(default_factory=dict)
    gcc_variants: tuple[str, ...] = ()
    prefers_exact_compiler: bool = False
    system_gcc: bool = False
    reserved_environments: tuple[str, ...] = ()
    finds_externals: bool = True

    def schema(self, topic: str) -> str:
        """Return the schema of `config`, `compilers` or `environments`."""
        return f"stackinator-{topic}-{min(self.version, 2 if topic == 'environments' else 3)}"


SPLICES_SINCE: SpackVersion = (0, 23)
"""The first Spack that splices what `concretizer:splice:explicit` names.

Source: the release notes of v0.23.0, https://github.com/spack/spack/releases/tag/v0.23.0.
"""

_SINCE_SPACK_1 = {
    "gcc": "+bootstrap",
    "nvhpc": "~mpi~blas~lapack",
    "llvm": "+clang ~gold",
    "llvm-amdgpu": "",
    "intel-oneapi-compilers": "",
}

LANGUAGES: Mapping[int, Language] = {
    1: Language(
        version=1,
        spack_from=(0, 21),
        spack_before=(1, 0),
        spack_meant=(0, 21),
        compiler_defaults={
            "gcc": "languages=c,c++",
            "nvhpc": "~mpi~blas~lapack",
            "llvm": "+clang targets=x86 ~gold ^ninja@kitware",
        },
        gcc_variants=("build_type=Release", "+bootstrap", "+strip"),
    ),
    2: Language(
        version=2,
        spack_from=(1, 0),
        spack_meant=(1, 0),
        compiler_defaults=_SINCE_SPACK_1,
        gcc_variants=("build_type=Release", "+bootstrap", "+profiled", "+strip", "~binutils"),
        reserved_environments=("uenv_tools",),
    ),
    3: Language(
        version=3,
        spack_from=(1, 0),
        spack_meant=(1, 2),
        compiler_defaults=_SINCE_SPACK_1,
        gcc_variants=("build_type=Release", "+bootstrap", "+strip", "~binutils"),
        prefers_exact_compiler=True,
        system_gcc=True,
        reserved_environments=("uenv_tools",),
        finds_externals=False,
    ),
}

# Keys that not every version has: document and path (`*` is any name) -> versions, and what to
# write in the others.
_KEYS: Mapping[tuple[str, ...], tuple[tuple[int, ...], str]] = {
    ("config", "mirror"): ((1,), "name a mirrors.yaml on the command line (`--mirror`)"),
    ("config", "system"): ((1,), "name the cluster on the command line (`--site`)"),
    ("config", "default-view"): ((2, 3), "views are named on the command line of `uenv start`"),
    ("config", "cleanup"): ((3,), "a `post-install` hook can remove files"),
    ("config", "spack", "packages"): ((2, 3), "Spack up to 0.23 holds its packages itself"),
    ("compilers", "bootstrap"): ((1,), "since version 2 the machine's own gcc builds the stack's"),
    ("compilers", "gcc", "specs"): ((1,), "since version 2 it is `gcc: version:`, one version"),
    ("compilers", "llvm", "requires"): ((1,), "since version 2 the stack's gcc builds it"),
    ("compilers", "llvm", "specs"): ((1,), "since version 2 it is `llvm: version:`"),
    ("compilers", "gcc", "version"): ((2, 3), "in version 1 it is `gcc: specs: [gcc@VERSION]`"),
    ("compilers", "llvm", "version"): ((2, 3), "in version 1 it is `llvm: specs: [llvm@VERSION]`"),
    ("compilers", "nvhpc"): ((2, 3), "in version 1 it is `llvm: specs: [nvhpc@VERSION]`"),
    ("compilers", "llvm-amdgpu"): ((2, 3), "version 1 cannot build it"),
    ("compilers", "intel-oneapi-compilers"): ((2, 3), "version 1 cannot build it"),
    ("compilers", "*", "spec"): ((3,), "version 2 has variants of its own choice"),
    ("environments", "*", "mpi"): ((1,), "since version 2 it is `network: mpi:`"),
    ("environments", "*", "network"): ((2, 3), "in version 1 it is `mpi: spec:`"),
    ("environments", "*", "duplicates"): ((2, 3), "version 1 has Spack's default, minimal"),
    ("environments", "*", "prefer"): ((2, 3), "version 1 prefers the first compiler"),
    ("environments", "*", "views", "*", "uenv", "env_vars"): (
        (2, 3),
        "a `post-install` hook can change `meta/env.json`",
    ),
}


def other_version_of(path: tuple[str | int, ...], version: int, said: str) -> str | None:
    """Return what to say of a key that other versions have, None when none has it.

    `said` are the words for what the recipe says of its version.
    """
    for pattern, (versions, instead) in _KEYS.items():
        matches = len(pattern) == len(path) and all(
            want in {"*", have} for want, have in zip(pattern, path, strict=True)
        )
        if matches and version not in versions:
            names = " and ".join(str(number) for number in versions)
            s, have = ("s", "have") if len(versions) > 1 else ("", "has")
            return (
                f"only version{s} {names} of the recipe language {have} it, and {said}; {instead}"
            )
    return None
