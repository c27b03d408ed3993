"""RPMs as HPE names and lays them out, with MPICH's libraries in them, and RPMs that lie.

`Package(...).written(folder)` writes one without rpm, whatever nonsense it holds; `built(...)` has
rpmbuild make it.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import lzma
import shutil
import stat
import struct
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import field

from stackproof.core.value import Value

_FILE, _LINK = stat.S_IFREG, stat.S_IFLNK


def _zstd(content: bytes) -> bytes:
    return subprocess.run(
        ["zstd", "-q", "-c", "-3"], input=content, stdout=subprocess.PIPE, check=True
    ).stdout


PACKERS: Mapping[str, Callable[[bytes], bytes]] = {
    "gzip": lambda content: gzip.compress(content, 1, mtime=0),
    "xz": lambda content: lzma.compress(content, preset=0),
    "bzip2": bz2.compress,
    "zstd": _zstd,
}


class Member(Value, kw_only=False):
    """A file of a package: its content, or the text of a link; its mode as in stat(2)."""

    content: bytes = b""
    mode: int = _FILE | 0o644
    link: str = ""
    stated: str | None = None
    """The digest in the header; that of the content where None."""


def text(content: str, mode: int = 0o644) -> Member:
    return Member(content.encode(), _FILE | mode)


def link(target: str) -> Member:
    return Member(mode=_LINK | 0o777, link=target)


class Package(Value, kw_only=False):
    """An RPM: what its header says, and what it holds."""

    name: str
    members: Mapping[str, Member]
    version: str = "0"
    release: str = "17.sles15sp5"
    architecture: str = "x86_64"
    compressor: str = "gzip"
    scripts: Mapping[int, str] = field(default_factory=dict)
    digests: bool = True
    stated: str | None = None
    """The digest of the payload in the header; the true one where None."""
    only: tuple[str, ...] | None = None
    """The members that the payload really has; all where None."""

    @property
    def file(self) -> str:
        return f"{self.name}-{self.version}-{self.release}.{self.architecture}.rpm"

    def bytes(self) -> bytes:
        payload = PACKERS[self.compressor](self.cpio())
        header = _header(self._tags(payload))
        signature = _header({273: (6, [hashlib.sha256(header).hexdigest()])})
        lead = b"\xed\xab\xee\xdb\3\0" + struct.pack(">HH66sHH16x", 0, 1, b"x", 1, 5)
        return lead + signature + bytes(-len(lead + signature) % 8) + header + payload

    def written(self, folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / self.file
        path.write_bytes(self.bytes())
        return path

    def cpio(self) -> bytes:
        parts = []
        for number, (path, member) in enumerate(self.members.items(), 1):
            if self.only is None or path in self.only:
                content = member.link.encode() or member.content
                parts.append(entry(f".{path}", content, member.mode, inode=number))
        return b"".join(parts) + entry("TRAILER!!!", b"", 0)

    def _tags(self, payload: bytes) -> dict[int, tuple[int, list[object]]]:
        every = list(self.members.items())
        folders = list(dict.fromkeys(path.rpartition("/")[0] + "/" for path, _ in every))
        digests = [
            hashlib.sha256(one.content).hexdigest() if one.stated is None else one.stated
            for _, one in every
        ]
        tags: dict[int, tuple[int, list[object]]] = {
            1000: (6, [self.name]), 1001: (6, [self.version]), 1002: (6, [self.release]),
            1014: (6, ["HPE"]), 1011: (6, ["Hewlett Packard Enterprise"]),
            1022: (6, [self.architecture]), 1124: (6, ["cpio"]), 1125: (6, [self.compressor]),
            1028: (4, [len(one.link.encode() or one.content) for _, one in every]),
            1030: (3, [one.mode for _, one in every]),
            1035: (8, [digest if stat.S_ISREG(one.mode) else ""
                       for digest, (_, one) in zip(digests, every, strict=True)]),
            1036: (8, [one.link for _, one in every]),
            1037: (4, [0 for _ in every]),
            1116: (4, [folders.index(path.rpartition("/")[0] + "/") for path, _ in every]),
            1117: (8, [path.rpartition("/")[2] for path, _ in every]),
            1118: (8, list(folders)),
            5011: (4, [8]),
        }  # fmt: skip
        tags |= {tag: (6, [script]) for tag, script in self.scripts.items()}
        if self.digests:
            found = hashlib.sha256(payload).hexdigest() if self.stated is None else self.stated
            tags |= {5092: (8, [found]), 5093: (4, [8])}
        return tags

    def built(self, folder: Path) -> Path:
        """Have rpmbuild make it, with the compressor that is asked for."""
        top = folder / f"rpmbuild-{self.name}"
        root = top / "files"
        for path, member in self.members.items():
            place = root / path.removeprefix("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            if member.link:
                place.symlink_to(member.link)
            else:
                place.write_bytes(member.content)
                place.chmod(stat.S_IMODE(member.mode))
        modes = {"gzip": "w1.gzdio", "xz": "w0.xzdio", "zstd": "w3.zstdio", "bzip2": "w1.bzdio"}
        spec = top / "package.spec"
        spec.write_text(
            f"Name: {self.name}\nVersion: {self.version}\nRelease: {self.release}\n"
            "Summary: a test\nLicense: HPE\nVendor: Hewlett Packard Enterprise\n"
            "AutoReqProv: no\n%description\na test\n"
            f"%install\nmkdir -p %{{buildroot}}\ncp -a {root}/. %{{buildroot}}/\n"
            + "".join(f"{_SECTIONS[tag]}\n{script}\n" for tag, script in self.scripts.items())
            + "%files\n" + "".join(f'"{path}"\n' for path in self.members)
        )  # fmt: skip
        defines = {
            "_topdir": top, "_binary_payload": modes[self.compressor], "_build_id_links": "none",
            "__os_install_post": "%{nil}", "_rpmdir": top / "out",
            "_rpmfilename": "%%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm",
        }  # fmt: skip
        words = [word for key, value in defines.items() for word in ("--define", f"{key} {value}")]
        argv = ["rpmbuild", "-bb", "--target", self.architecture, *words, spec]
        subprocess.run(argv, check=True, timeout=600, capture_output=True)
        made = folder / self.file
        shutil.move(top / "out" / self.file, made)
        shutil.rmtree(top)
        return made


_SECTIONS = {1023: "%pre", 1024: "%post", 1025: "%preun", 1026: "%postun"}


def entry(name: str, content: bytes, mode: int, *, inode: int = 0, names: int = 1) -> bytes:
    """Return an entry of a cpio archive."""
    raw = name.encode("utf-8", "surrogateescape") + b"\0"
    numbers = (inode, mode, 0, 0, names, 0, len(content), 0, 0, 0, 0, len(raw), 0)
    head = b"070701" + b"".join(b"%08X" % number for number in numbers) + raw
    return head + bytes(-len(head) % 4) + content + bytes(-len(content) % 4)


def _header(tags: Mapping[int, tuple[int, list[object]]]) -> bytes:
    index, store = b"", b""
    for tag, (kind, values) in sorted(tags.items()):
        letter = {3: "H", 4: "I"}.get(kind)
        if letter:
            store += bytes(-len(store) % struct.calcsize(letter))
            content = struct.pack(f">{len(values)}{letter}", *values)
        else:
            content = b"".join(
                str(value).encode("utf-8", "surrogateescape") + b"\0" for value in values
            )
        index += struct.pack(">IIII", tag, kind, len(store), len(values))
        store += content
    return (
        b"\x8e\xad\xe8\1"
        + bytes(4)
        + struct.pack(">II", len(index) // 16, len(store))
        + index
        + store
    )
