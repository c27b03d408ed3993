"""The capture noun, what was read off a machine, and its reading: capture to site, pure.

A capture is plain text of files, folders and commands, so that one taken on another machine can be
read anywhere: `stackproof site probe --capture` writes one, `--from FILE` reads it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from msgspec import field

from stackproof.core.value import Value
from stackproof.site.model import FabricType, Site, SourceKind, from_document

# The name that a probe gives to the kind of node it ran on.
PARTITION = "node"
# Tells whether a process may read its sibling's memory; see `site/effects/cma_check.py`.
SIBLING_READ = "process_vm_readv between siblings"
USER_NAMESPACE = "unshare --user --map-root-user true"
# Programs that a probe looks for, and how each tells its version.
TOOLS: dict[str, str] = {
    "bwrap": "--version",
    "fusermount3": "--version",
    "gcc": "--version",
    "ip": "-V",
    "mksquashfs": "-version",
    "squashfuse_ll": "--version",
    "srun": "--version",
    "unshare": "--version",
}
# More of them, which only who completes a site's file looks for: compilers, and what starts jobs.
MORE_TOOLS: dict[str, str] = {
    **{f"gcc-{number}": "--version" for number in range(9, 21)},
    "gfortran": "--version",
    "nvcc": "--version",
    "hipcc": "--version",
    "sinfo": "--version",
    "flux": "--version",
    "qstat": "--version",
}
# How this machine's processor is called by archspec, which Spack asks as well.
PROCESSOR = "archspec cpu"


_LONGEST = 500  # as the schema of a site has it
_LSCPU_LINE = re.compile(r"^[ \t]*([^\s:][^:\n]*):[ \t]+(\S(?:[^\n]*\S)?)[ \t\r]*$", re.MULTILINE)
_ARCHITECTURES = ("x86_64", "aarch64", "ppc64le", "riscv64")
_CPUINFO, _MEMINFO = "/proc/cpuinfo", "/proc/meminfo"
_OS_RELEASE, _KERNEL = "/etc/os-release", "/proc/sys/kernel/osrelease"
_NET, _CXI, _IB = "/sys/class/net", "/sys/class/cxi", "/sys/class/infiniband"
_NVIDIA = "/proc/driver/nvidia/gpus"
_CRAY_MPICH, _CRAY_LIBFABRIC = "/opt/cray/pe/mpich", "/opt/cray/libfabric"
_CRAY_PE = "/opt/cray/pe/cpe"
_GDRCOPY, _NVIDIA_DRIVER = "/sys/module/gdrdrv/version", "/proc/driver/nvidia/version"
# What pkg-config is asked for, and whose version it is.
_MODULES = {
    "xpmem": "xpmem",
    "cray-xpmem": "xpmem",
    "libibverbs": "rdma-core",
    "libfabric": "libfabric",
}
_VERSION_FILES = {
    "libcxi": "/usr/lib64/pkgconfig/libcxi.pc",
    "rocm": "/opt/rocm/.info/version",
}

# What a probe reads; `*` stands for each name in a folder that is listed.
FILES = (
    _CPUINFO, _MEMINFO, _OS_RELEASE, _KERNEL, *_VERSION_FILES.values(),
    f"{_NET}/*/speed", f"{_NET}/*/operstate", f"{_IB}/*/ports/1/link_layer",
    f"{_NVIDIA}/*/information", _GDRCOPY, _NVIDIA_DRIVER,
)  # fmt: skip
FOLDERS = (
    _NET, _CXI, _IB, _NVIDIA, _CRAY_MPICH, _CRAY_LIBFABRIC, _CRAY_PE, "/dev",
    f"{_CRAY_MPICH}/*/ofi/gnu",
)  # fmt: skip
COMMANDS = (
    "uname -m", "lscpu", "getconf GNU_LIBC_VERSION", "srun --mpi=list", USER_NAMESPACE,
    *(f"{name} {option}" for name, option in TOOLS.items()),
)  # fmt: skip
MORE_COMMANDS = (
    "sinfo -h -o %R", "flux queue list -n -o {queue}", "qstat -Q",
    *(f"pkg-config {what} {module}" for module in _MODULES
      for what in ("--modversion", "--variable=prefix")),
    *(f"{name} {option}" for name, option in MORE_TOOLS.items()),
)  # fmt: skip


class CommandOutput(Value):
    """What a command printed (both streams, standard output first) and its exit code."""

    text: str
    returncode: int


class Capture(Value):
    """What was read off one machine; a file or command that is not there is left out.

    `folders` maps a path to the names in it, `programs` a name to its path, `sizes` a file system
    to its size in bytes, `opened` a device to whether it could be opened; `taken` is UTC ISO 8601.
    """

    SCHEMA: ClassVar[str] = "stackproof/capture/1"

    taken: str
    note: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    folders: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    commands: Mapping[str, CommandOutput] = field(default_factory=dict)
    programs: Mapping[str, str] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    opened: Mapping[str, bool] = field(default_factory=dict)


_Finding = tuple[tuple[str, ...], Any, str]
"""One fact: its path in the site document, its value, and the file or command that says so."""


def read_capture(
    capture: Capture, *, name: str = "local", preferred: Mapping[str, str] | None = None
) -> Site:
    """Return the site that a capture shows; what it does not show stays unknown.

    Of software that is there in several versions the one in `preferred` counts, by its name, else
    the newest. A text that cannot be understood gives no fact, never an error.
    """
    data: dict[str, Any] = {"name": name}
    sources: dict[str, Any] = {}
    facts: dict[str, str] = {}
    for reader in (*_READERS, functools.partial(_vendor, preferred=preferred or {})):
        for path, value, source in reader(capture):
            identifier = re.sub(r"[^A-Za-z0-9]+", "-", source).strip("-")
            kind = SourceKind.FILE if source.startswith("/") else SourceKind.COMMAND
            sources[identifier] = {"title": source, "kind": str(kind), "date": capture.taken}
            facts[".".join(path)] = identifier
            place = data
            for key in path[:-1]:
                place = place.setdefault(key, {})
            place[path[-1]] = _tidy(value)
    return from_document({**data, "sources": sources, "facts": facts}, file="<capture>")


def _tidy(value: Any) -> Any:
    """Return a value as a document can hold it: a text in one line, and not endless."""
    if not isinstance(value, str):
        return value
    return "".join(one for one in " ".join(value.split()) if one.isprintable())[:_LONGEST]


def _file(capture: Capture, path: str) -> str:
    return capture.files.get(path, "").strip()


def _answer(capture: Capture, command: str) -> str:
    """Return what a command printed, empty when it is not there or failed."""
    answer = capture.commands.get(command)
    return answer.text if answer and answer.returncode == 0 else ""


def _node(key: str, value: Any, source: str) -> _Finding:
    return ("partitions", PARTITION, key), value, source


def _processor(capture: Capture) -> Iterator[_Finding]:
    machine = _answer(capture, "uname -m").strip()
    if machine in _ARCHITECTURES:
        yield _node("architecture", machine, "uname -m")
    lines = dict(_LSCPU_LINE.findall(_answer(capture, "lscpu")))
    if model := lines.get("Model name"):
        yield _node("cpu", model, "lscpu")
    elif found := re.search(r"^model name\s*:\s*(.+?)\s*$", _file(capture, _CPUINFO), re.MULTILINE):
        yield _node("cpu", found[1], _CPUINFO)
    if re.fullmatch(r"[a-z0-9_]+", name := _answer(capture, PROCESSOR).strip()):
        yield _node("microarchitecture", name, PROCESSOR)
    sockets, each = _whole(lines.get("Socket(s)")), _whole(lines.get("Core(s) per socket"))
    if sockets and each:
        yield _node("sockets", sockets, "lscpu")
        yield _node("cores", sockets * each, "lscpu")


def _memory(capture: Capture) -> Iterator[_Finding]:
    if found := re.search(
        r"^MemTotal:\s+([0-9]{1,15}) kB$", _file(capture, _MEMINFO), re.MULTILINE
    ):
        yield _node("memory-gb", _gigabytes(int(found[1]) * 1024), _MEMINFO)


def _whole(text: str | None) -> int | None:
    """Return a number without a sign that fits any use here, None for every other text."""
    return int(text) if text and re.fullmatch(r"[0-9]{1,15}", text) else None


def _gigabytes(size: int) -> float:
    return round(size / 1e9, 3)


def _system(capture: Capture) -> Iterator[_Finding]:
    if found := re.search(r'^PRETTY_NAME="?(.+?)"?$', _file(capture, _OS_RELEASE), re.MULTILINE):
        yield ("os",), found[1], _OS_RELEASE
    if kernel := _file(capture, _KERNEL):
        yield ("kernel",), kernel, _KERNEL
    command = "getconf GNU_LIBC_VERSION"
    if found := re.match(r"glibc (\S+)", _answer(capture, command)):
        yield ("glibc",), found[1], command


def _interfaces(capture: Capture) -> Iterator[_Finding]:
    for name in capture.folders.get(_NET, ()):
        if name == "lo":
            continue
        state, speed = f"{_NET}/{name}/operstate", f"{_NET}/{name}/speed"
        if _file(capture, state) in {"up", "down"}:
            up = _file(capture, state) == "up"
            yield ("interfaces", name, "up"), up, state
        if rate := _rate(capture, name):
            yield ("interfaces", name, "speed-mb-s"), rate, speed


def _rate(capture: Capture, interface: str) -> float | None:
    """Return the rate of an interface in MB/s; the kernel gives Mbit/s, -1 when it has none."""
    rate = _whole(_file(capture, f"{_NET}/{interface}/speed"))
    return rate / 8 if rate else None


def _fabric(capture: Capture) -> Iterator[_Finding]:
    others = [name for name in capture.folders.get(_NET, ()) if name != "lo"]
    if devices := capture.folders.get(_CXI, ()):
        yield ("fabric", "type"), FabricType.SLINGSHOT_11.value, _CXI
        yield _node("nics", len(devices), _CXI)
        rated = [name for name in others if name.startswith("hsn") and _rate(capture, name)]
        if rated:
            source = f"{_NET}/{rated[0]}/speed"
            limit = _rate(capture, rated[0])
            yield ("fabric", "limit-mb-s"), limit, source
    elif cards := _infiniband(capture):
        yield ("fabric", "type"), FabricType.INFINIBAND.value, _IB
        yield _node("nics", len(cards), _IB)
    elif others:
        yield ("fabric", "type"), FabricType.ETHERNET.value, _NET
    elif _NET in capture.folders:
        yield ("fabric", "type"), FabricType.NONE.value, _NET


def _infiniband(capture: Capture) -> list[str]:
    """Return the devices whose link is InfiniBand; the same driver serves Ethernet cards."""
    names = capture.folders.get(_IB, ())
    return [n for n in names if _file(capture, f"{_IB}/{n}/ports/1/link_layer") == "InfiniBand"]


def _gpus(capture: Capture) -> Iterator[_Finding]:
    devices = capture.folders.get("/dev", ())
    if cards := capture.folders.get(_NVIDIA, ()):
        text = _file(capture, f"{_NVIDIA}/{cards[0]}/information")
        found = re.search(r"^Model:\s+(.+?)\s*$", text, re.MULTILINE)
        yield _node("gpu", found[1] if found else "NVIDIA", _NVIDIA)
        yield _node("gpus", len(cards), _NVIDIA)
    elif numbered := [name for name in devices if re.fullmatch(r"nvidia\d+", name)]:
        yield _node("gpu", "NVIDIA", "/dev")
        yield _node("gpus", len(numbered), "/dev")
    elif "kfd" in devices:
        # How many there are stays unknown: the kernel counts dies, a site counts packages.
        yield _node("gpu", "AMD", "/dev")


def _launchers(capture: Capture) -> Iterator[_Finding]:
    if version := _version(capture, "srun"):
        yield ("launchers", "srun", "version"), version, "srun --version"
    command = "srun --mpi=list"
    if kinds := parse_pmi_kinds(_answer(capture, command)):
        yield ("launchers", "srun", "pmi"), list(kinds), command


def parse_pmi_kinds(text: str) -> tuple[str, ...]:
    """Return the wire-up kinds in what `srun --mpi=list` prints, in its order.

    Slurm 22 and newer print a heading and one indented kind a line, then a line that names the
    PMIx versions; older ones put `srun: ` before each line.
    """
    kinds: list[str] = []
    for line in text.splitlines():
        word = line.removeprefix("srun:").strip()
        if re.fullmatch(r"[a-z][a-z0-9_]*", word):
            kinds.append(word)
        elif found := re.match(r"specific pmix plugin versions available:\s*(.+)", word):
            kinds += [name.strip() for name in found[1].split(",")]
    return tuple(dict.fromkeys(kind for kind in kinds if kind != "none"))


def _scheduler(capture: Capture) -> Iterator[_Finding]:
    for program, kind, command in (
        ("sinfo", "slurm", "sinfo -h -o %R"),
        ("flux", "flux", "flux queue list -n -o {queue}"),
        ("qstat", "pbs", "qstat -Q"),
    ):
        if version := _version(capture, program):
            line = f"{program} {MORE_TOOLS[program]}"
            yield ("scheduler", "type"), kind, line
            yield ("scheduler", "version"), version, line
            if queues := parse_queues(_answer(capture, command)):
                yield ("scheduler", "queues"), list(queues), command
            return


def parse_queues(text: str) -> tuple[str, ...]:
    """Return the first word of each line that can be a queue's name, each once, in their order.

    That is what `sinfo -h -o %R` and `flux queue list` print; `qstat -Q` has a heading, with a line
    under it, and more columns.
    """
    lines = text.splitlines()
    ruled = [number for number, line in enumerate(lines) if re.match(r"-{3,}", line)]
    words = (line.split() for line in lines[ruled[0] + 1 if ruled else 0 :])
    names = (row[0] for row in words if row and (ruled or len(row) == 1))
    return tuple(dict.fromkeys(n for n in names if re.fullmatch(r"[A-Za-z0-9][\w.@+-]{0,99}", n)))


def _vendor(capture: Capture, preferred: Mapping[str, str]) -> Iterator[_Finding]:
    names = capture.folders.get(_CRAY_MPICH, ())
    if version := _chosen(names, preferred.get("cray-mpich")):
        facts = {"family": "cray-mpich", "version": version, "path": f"{_CRAY_MPICH}/{version}"}
        for key, value in facts.items():
            yield ("vendor-mpi", key), value, _CRAY_MPICH
    # What a stack links with is below, by compiler.
    built = {n: _newest(capture.folders.get(f"{_CRAY_MPICH}/{n}/ofi/gnu", ())) for n in names}
    if version := _chosen([name for name in names if built[name]], preferred.get("cray-mpich")):
        folder = f"{_CRAY_MPICH}/{version}/ofi/gnu"
        yield from _external("cray-mpich", version, f"{folder}/{built[version]}", folder)
    names = capture.folders.get(_CRAY_LIBFABRIC, ())
    if version := _chosen(names, preferred.get("libfabric")):
        path = f"{_CRAY_LIBFABRIC}/{version}"
        yield from _external("libfabric", version, path, _CRAY_LIBFABRIC)
    if version := _newest(capture.folders.get(_CRAY_PE, ())):
        place = ("externals", "cray-programming-environment", "version")
        yield place, version, _CRAY_PE


def _external(name: str, version: str, prefix: str, source: str) -> Iterator[_Finding]:
    for key, value in (("version", version), ("path", prefix)):
        yield ("externals", name, key), value, source


def _software(capture: Capture) -> Iterator[_Finding]:
    for name, file in _VERSION_FILES.items():
        if found := re.search(r"(?:^|\bVersion: *)(\d[\w.]*)", _file(capture, file), re.MULTILINE):
            yield ("externals", name, "version"), found[1], file
    if "xpmem" in capture.folders.get("/dev", ()):
        yield ("externals", "xpmem", "path"), "/dev/xpmem", "/dev"
    for module, name in _MODULES.items():
        command = f"pkg-config --modversion {module}"
        release = _answer(capture, command).strip()
        prefix = _answer(capture, f"pkg-config --variable=prefix {module}").strip()
        if re.fullmatch(r"\d+(\.\w+)*", release) and re.fullmatch(r"/[^\s:]*", prefix):
            if name == "rdma-core":  # libibverbs 1.14.41.0 is of rdma-core 41.0
                release = ".".join(release.split(".")[2:]) or release
            yield from _external(name, release, prefix, command)
    if (program := capture.programs.get("srun")) and (version := _version(capture, "srun")):
        prefix = program.rpartition("/bin/")[0] or "/"
        yield from _external("slurm", version, prefix, "srun --version")


def _drivers(capture: Capture) -> Iterator[_Finding]:
    found = re.search(r"Module\s.*?\b(\d+(?:\.\d+)+)", _file(capture, _NVIDIA_DRIVER))
    if found:
        path = ("externals", "nvidia-driver", "version")
        yield path, found[1], _NVIDIA_DRIVER
    if re.fullmatch(r"\d+(\.\w+)*", version := _file(capture, _GDRCOPY)):
        yield ("externals", "gdrcopy", "version"), version, _GDRCOPY
    if "gdrdrv" in capture.folders.get("/dev", ()):
        yield ("externals", "gdrcopy", "path"), "/dev/gdrdrv", "/dev"


def _chosen(names: Sequence[str], preferred: str | None) -> str | None:
    """Return the version that is preferred, if it is there, else the newest."""
    return preferred if preferred in names else _newest(names)


def _newest(names: Sequence[str]) -> str | None:
    """Return the highest version among the names of a folder; others, as `default`, are left."""
    versions = [name for name in names if re.fullmatch(r"\d+(\.\w+)*", name)]
    return max(versions, key=_numbers, default=None)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


def _version(capture: Capture, tool: str) -> str | None:
    """Return the version in what a program says of itself, whatever its exit code."""
    answer = capture.commands.get(f"{tool} {(TOOLS | MORE_TOOLS)[tool]}")
    found = re.search(r"(?<![\w.])v?(\d+(?:\.\d+)+(?:-rc\d+)?)", answer.text if answer else "")
    return found[1] if found else None


def _tools(capture: Capture) -> Iterator[_Finding]:
    for name, option in (TOOLS | MORE_TOOLS).items():
        if path := capture.programs.get(name):
            yield ("tools", name, "path"), path, path
            if version := _version(capture, name):
                yield ("tools", name, "version"), version, f"{name} {option}"


def _limits(capture: Capture) -> Iterator[_Finding]:
    trials = {"user-namespaces": USER_NAMESPACE, "process-vm-readv": SIBLING_READ}
    for key, command in trials.items():
        if answer := capture.commands.get(command):
            yield ("limits", key), answer.returncode == 0, command
    if "/dev/fuse" in capture.opened:
        value = capture.opened["/dev/fuse"]
        yield ("limits", "fuse"), value, "/dev/fuse"
    if size := capture.sizes.get("/dev/shm"):  # noqa: S108 - a file system that is looked at
        yield ("limits", "shm-gb"), _gigabytes(size), "/dev/shm"  # noqa: S108 - as above


_READERS = (
    _processor, _memory, _gpus, _fabric, _interfaces, _launchers, _scheduler, _software, _drivers,
    _tools, _system, _limits,
)  # fmt: skip
