"""RPMs read without rpm: what rpm says of the same files, and what nobody may believe."""

from __future__ import annotations

import os
import stat
import struct
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from need import need
from stackproof.build.engines.vendor import rpm, selection
from stackproof.build.engines.vendor.effects import folder
from stackproof.core.effects import files
from stackproof.core.errors import Reason, StackproofError
from stackproof.core.value import replace
from stackproof.linking.elf.layout import BytesSource
from vendorrpms import Member, Package, entry, link, text

ROOT = "/opt/cray/pe/pmi/6.1.15"
PMI = Package(
    "cray-pmi-6.1.15",
    {
        f"{ROOT}/lib/libpmi.so.0": Member(os.urandom(70_000), stat.S_IFREG | 0o755),
        f"{ROOT}/lib/libpmi.so": link("libpmi.so.0"),
        f"{ROOT}/lib/a blank, ünï": text("a text\n"),
        f"{ROOT}/lib/empty": Member(),
        f"{ROOT}/include/pmi.h": text("/* PMI */\n" * 500),
    },
    scripts={1024: "touch @MARK@"},
)
QUERY = (
    "%{NAME} %{EPOCHNUM} %{VERSION} %{RELEASE} %{ARCH} %{LICENSE} %{PAYLOADCOMPRESSOR} "
    "[%{PAYLOADDIGEST} ]\\n[%{FILENAMES}|%{FILEMODES}|%{FILESIZES}|%{FILEDIGESTS}|%{FILELINKTOS}\\n]"
)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STACKPROOF_CACHE", str(tmp_path / "cache"))


def parsed(content: bytes) -> rpm.Rpm:
    return rpm.parse(BytesSource("x.rpm", content))


def unpacked(path: Path) -> dict[str, bytes]:
    with folder.opened(path) as source:
        product = selection.products(rpm.parse(source))
    assert product is not None
    place, found = folder.unpacked(path, product, files.sha256(path))
    return {name: (place / digest).read_bytes() for name, digest in found.files.items()}


def reason(path: Path) -> tuple[Reason, str]:
    with pytest.raises(StackproofError) as caught:
        unpacked(path)
    (problem,) = caught.value.problems
    assert str(path) in str(problem.where)
    return problem.reason, problem.message


@pytest.mark.parametrize("compressor", ["gzip", "xz", "bzip2", "zstd"])
def test_what_rpm_says_of_what_rpmbuild_made(compressor: str, tmp_path: Path) -> None:
    """Names, files and digests are rpm's; contents are those of rpm2cpio; no script is run."""
    need("rpmbuild", "zstd")
    mark = tmp_path / "mark"
    package = replace(PMI, compressor=compressor, scripts={1024: f"touch {mark}"})
    path = package.built(tmp_path)
    with folder.opened(path) as source:
        found = rpm.parse(source)
    asked = ["rpm", "-qp", "--nosignature", "--qf", QUERY, path]
    said = subprocess.run(asked, check=True, capture_output=True).stdout.decode()
    head, *lines = said.splitlines()
    assert head.split() == [
        found.name, str(found.epoch), found.version, found.release, found.architecture,
        found.licence, found.compressor, found.payload_sha256,
    ]  # fmt: skip
    assert lines == [
        f"{one.path}|{one.mode}|{one.size}|{one.sha256}|{one.link}" for one in found.files
    ]
    assert found.scripts == ("%post",)
    assert found.nevra == path.name.removesuffix(".rpm")
    contents = {name: one.content for name, one in PMI.members.items() if not one.link}
    assert unpacked(path) == contents
    assert not mark.exists()


def test_what_the_writer_of_the_tests_writes_rpm_takes(tmp_path: Path) -> None:
    need("rpmbuild")
    path = PMI.written(tmp_path)
    done = subprocess.run(["rpm", "-K", "--nosignature", path], capture_output=True, check=False)
    assert done.stdout.decode().strip() == f"{path}: digests OK"


def test_names_of_one_file_have_its_content(tmp_path: Path) -> None:
    need("rpmbuild")
    top = tmp_path / "top"
    spec = tmp_path / "hard.spec"
    spec.write_text(
        "Name: cray-pmi-6.1.15\nVersion: 0\nRelease: 1\nSummary: x\nLicense: x\nAutoReqProv: no\n"
        f"%description\nx\n%install\nmkdir -p %{{buildroot}}{ROOT}/lib\n"
        f"cd %{{buildroot}}{ROOT}/lib; echo one > a; ln a b; ln a c\n%files\n{ROOT}\n"
    )
    define = ["--define", f"_topdir {top}", "--define", "__os_install_post %{nil}"]
    subprocess.run(["rpmbuild", "-bb", *define, spec], check=True, capture_output=True)
    (path,) = top.rglob("*.rpm")
    assert {name[-1]: content for name, content in unpacked(path).items()} == {
        "a": b"one\n", "b": b"one\n", "c": b"one\n",
    }  # fmt: skip


def test_without_a_digest_of_the_payload_files_are_still_checked(tmp_path: Path) -> None:
    path = replace(PMI, digests=False).written(tmp_path)
    assert unpacked(path)[f"{ROOT}/include/pmi.h"].startswith(b"/* PMI")
    wrong = text("other\n")
    members = {**PMI.members, f"{ROOT}/lib/x": replace(wrong, stated="0" * 64)}
    bad = replace(PMI, digests=False, members=members).written(tmp_path / "bad")
    assert reason(bad) == (
        Reason.INVALID_VALUE,
        f"the RPM is damaged or cut off: `{ROOT}/lib/x` is another file than its header states",
    )


def test_a_payload_with_another_digest_is_not_unpacked(tmp_path: Path) -> None:
    path = replace(PMI, stated="0" * 64).written(tmp_path)
    assert reason(path)[0] is Reason.DIGEST_MISMATCH
    whole = PMI.written(tmp_path / "cut")
    os.truncate(whole, whole.stat().st_size - 100)
    assert reason(whole)[0] is Reason.DIGEST_MISMATCH
    assert not list((tmp_path / "cache").rglob("files.json"))


def test_a_file_of_the_header_that_is_not_in_the_payload(tmp_path: Path) -> None:
    lost = f"{ROOT}/include/pmi.h"
    path = replace(PMI, only=tuple(name for name in PMI.members if name != lost)).written(tmp_path)
    assert reason(path) == (
        Reason.INVALID_VALUE,
        f"the RPM is damaged or cut off: `{lost}` of its header is not among its files",
    )


def test_what_the_header_does_not_list_is_never_written(tmp_path: Path) -> None:
    class Lying(Package):
        def cpio(self) -> bytes:
            evil = entry("../../../../evil", b"evil", stat.S_IFREG | 0o4755)
            return evil + entry(f".{ROOT}/lib/more", b"more", stat.S_IFREG) + super().cpio()

    path = Lying(PMI.name, PMI.members).written(tmp_path)
    assert set(unpacked(path)) == {name for name, one in PMI.members.items() if not one.link}
    assert not [one for one in tmp_path.rglob("*") if one.name in {"evil", "more"}]


def test_an_archive_that_grows_without_bounds_is_ended(tmp_path: Path) -> None:
    zeros = Member(bytes(3 << 20))
    members = {f"{ROOT}/lib/zeros{n}": zeros for n in range(3)}
    small = replace(PMI, members=members, compressor="xz").written(tmp_path)
    assert set(unpacked(small)) == set(members)  # large, and as its header says


@pytest.mark.parametrize("at", [0, 50, 96, 108, 150, 400])
def test_a_file_that_is_cut_off_anywhere_in_its_headers(at: int) -> None:
    with pytest.raises(StackproofError) as caught:
        parsed(PMI.bytes()[:at])
    assert caught.value.reason is Reason.INVALID_VALUE
    assert "damaged or cut off" in caught.value.problems[0].message


def test_a_header_that_was_changed_is_found() -> None:
    content = PMI.bytes()
    with pytest.raises(StackproofError, match="its header has another digest"):
        parsed(content.replace(b"17.sles15sp5", b"18.sles15sp5"))


def test_sizes_without_end() -> None:
    content = PMI.bytes()
    for at, number in ((96 + 8, 1 << 30), (96 + 12, 1 << 31)):
        wrong = content[:at] + struct.pack(">I", number) + content[at + 4 :]
        with pytest.raises(StackproofError) as caught:
            parsed(wrong)
        assert caught.value.reason is Reason.TOO_LARGE


def test_source_packages_and_other_archives_are_not_for_this() -> None:
    for tag, value in ((1106, "1"), (1124, "drpm")):
        with pytest.raises(StackproofError) as caught:
            parsed(replace(PMI, scripts={tag: value}).bytes())
        assert caught.value.reason is Reason.UNSUPPORTED


@given(st.data())
def test_any_damage_gives_an_rpm_or_an_error_of_ours(data: st.DataObject) -> None:
    content = bytearray(replace(PMI, scripts={}).bytes()[:2000])
    for _ in range(data.draw(st.integers(1, 8))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        parsed(bytes(content))
    except StackproofError as error:
        assert error.reason in {Reason.INVALID_VALUE, Reason.TOO_LARGE, Reason.UNSUPPORTED}  # noqa: PT017
