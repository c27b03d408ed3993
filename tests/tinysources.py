"""A library and a program that uses it, as sources in a mirror and as packages of a recipe."""

from __future__ import annotations

import hashlib
import io
import struct
import tarfile
import zlib
from pathlib import Path

from need import SPACK_TAGS
from stackproof.build.engines.spack.effects import machine

LIBRARY = {
    "two.c": "int two(void) { return 2; }\n",
    "two.h": "int two(void);\n",
    "Makefile": "libtwo.so: two.c\n\t$(CC) -shared -fPIC -Wl,-soname,libtwo.so -o $@ two.c\n",
}
PROGRAM = {
    "main.c": '#include <stdio.h>\n#include "two.h"\n'
    'int main(void) { printf("twice two is %d\\n", two() * two()); return 0; }\n',
    "Makefile": "four: main.c\n\t$(CC) -o $@ main.c -I$(TWO)/include -L$(TWO)/lib -ltwo\n",
}
_PACKAGE = '''\
from spack.package import *


class {class_name}(Package):
    """{text}"""

    homepage = "https://example.org/{name}"
    url = "https://example.org/{name}-1.0.tar.gz"

    license("MIT")

    version("1.0", sha256="{sha256}")

    depends_on("c", type="build")
{more}
'''
_LIBRARY = """\

    def install(self, spec, prefix):
        Executable("make")("CC=cc")
        mkdirp(prefix.lib, prefix.include)
        install("libtwo.so", prefix.lib)
        install("two.h", prefix.include)
"""
_PROGRAM = """\
    depends_on("tiny-two")

    def install(self, spec, prefix):
        Executable("make")("CC=cc", "TWO=" + spec["tiny-two"].prefix)
        mkdirp(prefix.bin)
        install("four", prefix.bin)
"""

_SITE = """\
packages:
  gcc:
    buildable: false
    externals:
    - spec: gcc@{version} languages:='c,c++'
      prefix: /usr
      extra_attributes: {{compilers: {{c: {c}, cxx: {cxx}}}}}
"""
_SPACK, _PACKAGES = SPACK_TAGS
_ENVIRONMENTS = """\
default:
  compiler: [gcc]
  specs: [tiny-four]
  views: {all: {uenv: {env_vars: {set: [{MPI_TINY: here}]}}}}
"""
_CONFIG = f"""\
spack:
  repo: {_SPACK}
  commit: {SPACK_TAGS[_SPACK]}
  packages: {{repo: {_PACKAGES}, commit: {SPACK_TAGS[_PACKAGES]}}}
"""


def archive(name: str, texts: dict[str, str]) -> bytes:
    """Return the source of a package: the same bytes every time."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as packed:
        for path, text in texts.items():
            entry = tarfile.TarInfo(f"{name}-1.0/{path}")
            entry.size = len(text)
            packed.addfile(entry, io.BytesIO(text.encode()))
    return _stored(stream.getvalue())


def _stored(data: bytes) -> bytes:
    """Return a gzip file that does not compress: what does differs between releases (RFC 1952)."""
    most = 0xFFFF
    blocks = [data[at : at + most] for at in range(0, len(data), most)]
    body = b"".join(
        struct.pack("<BHH", number == len(blocks), len(block), len(block) ^ most) + block
        for number, block in enumerate(blocks, 1)
    )
    ends = struct.pack("<LL", zlib.crc32(data), len(data))
    return b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + body + ends


def fill(mirror: Path) -> dict[str, str]:
    """Put both sources into a mirror; return the text of each package by its path in `repo`."""
    found = {}
    for name, class_name, texts, more in (
        ("tiny-two", "TinyTwo", LIBRARY, _LIBRARY),
        ("tiny-four", "TinyFour", PROGRAM, _PROGRAM),
    ):
        content = archive(name, texts)
        digest = hashlib.sha256(content).hexdigest()
        source = mirror / f"_source-cache/archive/{digest[:2]}/{digest}.tar.gz"
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_bytes(content)
        found[f"packages/{name.replace('-', '_')}/package.py"] = _PACKAGE.format(
            class_name=class_name, text=f"{name} for tests.", name=name, sha256=digest, more=more
        )
    return found


def write_recipes(folder: Path, packages: dict[str, str]) -> tuple[Path, Path]:
    """Write one stack as a recipe of stackproof's own and as one of Stackinator's, and a site."""
    own, theirs = folder / "own" / "tiny.yaml", folder / "tiny"
    for base in (own.parent, theirs):
        for path, text in packages.items():
            target = base / "repo" / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
    environments = "".join(f"  {line}\n" for line in _ENVIRONMENTS.splitlines())
    own.write_text(
        f"name: tiny\nengine: spack\ngeneration: 3\nrepo: repo\n{_CONFIG}"
        f"compilers: {{gcc: {{version: system}}}}\nenvironments:\n{environments}"
    )
    (theirs / "config.yaml").write_text(f"name: tiny\nversion: 3\n{_CONFIG}")
    (theirs / "compilers.yaml").write_text("gcc: {version: system}\n")
    (theirs / "environments.yaml").write_text(_ENVIRONMENTS)
    gcc = next(machine.find_compilers())
    (folder / "site").mkdir()
    (folder / "site" / "packages.yaml").write_text(
        _SITE.format(version=gcc.version, c=gcc.paths["c"], cxx=gcc.paths["cxx"])
    )
    return own, theirs
