"""The wheel engine: what it asks pip for, and what it makes of the answers."""

from __future__ import annotations

import json

import pytest

from stackproof.build.engines.wheel import engine as wheel_engine
from stackproof.build.engines.wheel.stack import Stack
from stackproof.core.command import Completed
from stackproof.core.errors import Reason, StackproofError
from stackproof.mpi import families


def stack(family: str = "mpich", version: str | None = "5.0.2", **more: object) -> Stack:
    values: dict[str, object] = {
        "name": "x", "version": "1", "description": "", "engine": "wheel", "mpi_family": family,
        "requirements": families.REGISTRY[family].wheels(version), "mount": "/user-environment",
        "architecture": "x86_64", "views": (), "default_view": None, "transports": (),
        "benchmarks": (), **more,
    }  # fmt: skip
    return Stack(**values)  # type: ignore[arg-type]


def done(stdout: bytes = b"", stderr: bytes = b"", code: int = 0) -> Completed:
    return Completed(argv=("pip",), returncode=code, stdout=stdout, stderr=stderr, seconds=0.1)


def entry(name: str, version: str) -> dict[str, object]:
    return {
        "download_info": {
            "url": f"https://index.invalid/files/{name}-{version}-py3-none-any.whl#sha256=00",
            "archive_info": {"hashes": {"sha256": "ab" * 32}},
        },
        "metadata": {"name": name, "version": version, "license": "BSD"},
    }


def test_lock_names_files_and_never_the_index() -> None:
    report = json.dumps({"install": [entry("mpich", "5.0.2")]}).encode()
    lock = wheel_engine.read_lock(stack(), done(report))
    assert lock.artefacts[0].filename == "mpich-5.0.2-py3-none-any.whl"
    assert lock.artefacts[0].sha256 == "ab" * 32
    assert "index.invalid" not in repr(lock)
    assert lock.wants == wheel_engine.wants(stack())


def test_the_mpi_comes_first_in_the_lock() -> None:
    intel = stack("intel-mpi", "2021.18.1")
    report = json.dumps({"install": [entry("aaa", "1"), entry("impi-devel", "2021.18.1"),
                                     entry("impi_rt", "2021.18.1")]}).encode()  # fmt: skip
    lock = wheel_engine.read_lock(intel, done(report))
    assert [a.name for a in lock.artefacts] == ["impi_rt", "impi-devel", "aaa"]
    assert wheel_engine.mpi_version(intel, lock) == "2021.18.1"


NO_VERSION = (
    b"ERROR: Could not find a version that satisfies the requirement mpich==9.9.9 "
    b"(from versions: 0.0.0, 4.3.1, 5.0.2)\nERROR: No matching distribution found for mpich==9.9.9"
)
OFFLINE = (
    b"WARNING: Retrying (Retry(total=0, connect=None)) after connection broken by 'NewConnection"
    b"Error'\nERROR: Could not find a version that satisfies the requirement mpich==5.0.2 "
    b"(from versions: none)"
)
NOTHING = (
    b"ERROR: Could not find a version that satisfies the requirement nosuch (from versions: none)"
)


@pytest.mark.parametrize(
    ("stderr", "reason", "quoted"),
    [
        (NO_VERSION, Reason.UNKNOWN_VERSION, "5.0.2, 4.3.1"),
        (OFFLINE, Reason.NO_NETWORK, "lock"),
        (NOTHING, Reason.UNKNOWN_VERSION, "x86_64"),
        (b"ERROR: something else", Reason.BUILD_FAILED, "something else"),
    ],
)
def test_pip_failures(stderr: bytes, reason: Reason, quoted: str) -> None:
    with pytest.raises(StackproofError) as caught:
        wheel_engine.read_lock(stack(), done(stderr=stderr, code=1))
    assert caught.value.reason is reason
    assert quoted in str(caught.value)


@pytest.mark.parametrize("report", [b"", b"[]", b"{}", b'{"install": [{}]}', b"\xff"])
def test_unreadable_report(report: bytes) -> None:
    with pytest.raises(StackproofError) as caught:
        wheel_engine.read_lock(stack(), done(report))
    assert caught.value.reason is Reason.GARBAGE_OUTPUT


def test_wants_covers_what_was_asked_and_nothing_else() -> None:
    base = wheel_engine.wants(stack())
    assert wheel_engine.wants(stack(version="4.3.1")) != base
    assert wheel_engine.wants(stack(packages=("mpi4py",))) != base
    assert wheel_engine.wants(stack(architecture="aarch64")) != base
    assert wheel_engine.wants(stack(description="other", mount="/opt/x")) == base


def test_problems() -> None:
    assert not wheel_engine.index_problems(stack())
    assert [p.reason for p in wheel_engine.index_problems(stack("cray-mpich", "8.1.29"))] == [
        Reason.UNSUPPORTED
    ]
    assert wheel_engine.index_problems(stack(architecture="riscv64"))


def test_only_the_mpi_is_asked_for_without_dependencies() -> None:
    assert "--no-deps" in wheel_engine.lock_command(stack()).argv
    assert "--no-deps" not in wheel_engine.lock_command(stack(packages=("mpi4py",))).argv


def test_fetch_asks_for_the_locked_tags() -> None:
    argv = wheel_engine.fetch_command(
        wheel_engine.Artefact(
            name="mpi4py", version="4.1.0", sha256="0" * 64,
            filename="mpi4py-4.1.0-cp312-cp312-manylinux_2_17_x86_64.whl",
        ),
        "/tmp/x",
    ).argv  # fmt: skip
    assert {"--python-version=3.12", "--abi=cp312", "--platform=manylinux_2_17_x86_64"} <= {*argv}
    assert argv[-1] == "mpi4py==4.1.0"
