"""A library and a program that uses it as a locked chain for EasyBuild, which takes seconds.

stack, lock, files = chain()
put(files)
execute(plan(stack, lock), "easybuild", monitor, setup=setup())
"""

from __future__ import annotations

from collections.abc import Mapping

from stackproof.build.effects.workspace import BuildSetup, download_path
from stackproof.build.engine import Sources
from stackproof.build.engines.easybuild import tool
from stackproof.build.engines.easybuild.chain import Easyconfig
from stackproof.build.engines.easybuild.components import ChainRequest
from stackproof.build.engines.easybuild.effects import builder
from stackproof.build.engines.easybuild.engine import build_plan
from stackproof.build.engines.easybuild.stack import EasyBuildLock, EasyBuildStack
from stackproof.build.plan import Plan
from stackproof.build.stack import Artefact, Digest, SourceFile, StackView
from stackproof.core.command import EnvPatch
from stackproof.core.effects import files
from stackproof.core.ids import digest
from stackproof.core.value import replace
from tinysources import LIBRARY, PROGRAM, archive

MOUNT = "/user-environment"
_COPY = {
    "two": ("[(['libtwo.so'], 'lib'), (['two.h'], 'include')]", "", "lib/libtwo.so"),
    "four": ("[(['four'], 'bin')]", "TWO=$EBROOTTWO", "bin/four"),
}


def easyconfig(name: str, sha256: str, dependencies: str = "[]") -> str:
    """Return the text that builds one of the two."""
    copied, options, made = _COPY[name]
    return f"""\
easyblock = 'MakeCp'
name = '{name}'
version = '1.0'
homepage = 'https://example.org/{name}'
description = 'for tests'
toolchain = SYSTEM
sources = ['{name}-1.0.tar.gz']
checksums = ['{sha256}']
dependencies = {dependencies}
buildopts = 'CC=gcc {options}'
files_to_copy = {copied}
sanity_check_paths = {{'files': ['{made}'], 'dirs': []}}
moduleclass = 'lib'
"""


def component(name: str, sources: Mapping[str, str], needs: tuple[str, ...] = ()) -> Easyconfig:
    """Return one component whose source file holds `sources`."""
    sha256 = digest(archive(name, dict(sources)))
    listed = ", ".join(f"('{module.replace('/', chr(39) + ', ' + chr(39))}')" for module in needs)
    return Easyconfig(
        component="libfabric" if name == "two" else name,
        name=name,
        version="1.0",
        filename=f"{name}-1.0.eb",
        text=easyconfig(name, sha256, f"[{listed}]"),
        module=f"{name}/1.0",
        sources=(
            SourceFile(
                filename=f"{name}-1.0.tar.gz",
                accepted=(Digest(sha256=sha256, provenance="a test"),),
            ),
        ),
        needs=needs,
        licence="MIT",
        providers=("tcp", "shm") if name == "two" else (),
    )


def contents(library: Mapping[str, str] = LIBRARY) -> dict[str, bytes]:
    """Return the source files by name."""
    return {
        "two-1.0.tar.gz": archive("two", dict(library)),
        "four-1.0.tar.gz": archive("four", PROGRAM),
    }


def stack(**changes: object) -> EasyBuildStack:
    """Return a stack; the library stands for libfabric."""
    whole = EasyBuildStack(
        name="tiny",
        request=ChainRequest(libfabric="1.0", providers=("tcp", "shm")),
        easybuild="5.4.1",
        optarch="GENERIC",
        mount=MOUNT,
        architecture="x86_64",
        views=(StackView(name="default"),),
        default_view="default",
        site_facts={"compiler": "gcc 12.2.0 (test)"},
    )
    return replace(whole, **changes)  # type: ignore[arg-type]


def lock(tool: tuple[Artefact, ...] = (), library: Mapping[str, str] = LIBRARY) -> EasyBuildLock:
    """Return the lock of the two components; `library` are the sources of the library."""
    return EasyBuildLock(
        wants="0" * 64,
        tool=tool,
        components=(component("two", library), component("four", PROGRAM, ("two/1.0",))),
    )


def put(library: Mapping[str, str] = LIBRARY) -> None:
    """Put the source files into the cache."""
    for name, content in contents(library).items():
        files.write(download_path(digest(content), name), content)


def plan(wanted: EasyBuildStack, locked: EasyBuildLock) -> Plan:
    """Return the plan of a stack."""
    return build_plan(wanted, locked, Sources(recipe={"tiny.yaml": "name: tiny\n"}))


def setup() -> BuildSetup:
    """Return what a build has of this machine."""
    return BuildSetup(
        fetch_command=tool.fetch_command,
        install=builder.install,
        environment=EnvPatch(set={"LMOD_CMD": str(builder.find_lmod()), "EASYBUILD_PARALLEL": "2"}),
        kept=files.cache_home() / "easybuild" / "components",
    )
