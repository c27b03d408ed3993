"""The probe on this machine, and its behaviour when programs are missing or slow."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path

import pytest

from refusals import refused
from stackproof.core.command import Command, Completed
from stackproof.core.effects import run
from stackproof.core.errors import Reason, fail
from stackproof.site import capture
from stackproof.site.effects import probe
from stackproof.site.model import leaves

COVERS = (
    "site/effects/cma_check.py",
    "site/effects/toolchain.py",
)


def test_probe_of_this_machine():
    site = probe.probe_site()
    node = site.partitions["node"]
    assert node.architecture == platform.machine()
    assert site.kernel == platform.release()
    assert site.limits.user_namespaces is not None
    assert site.limits.process_vm_readv is not None
    assert set(site.interfaces) == set(os.listdir("/sys/class/net")) & set(site.interfaces)
    assert node.memory_gb == pytest.approx(
        os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, rel=0.01
    )
    assert all(site.sources_of(path) for path in leaves(site))


def test_local_is_the_probe_and_a_name_or_a_path_is_not():
    asked: list[tuple[str, ...]] = []

    def runner(command: Command, *, log: Path | None = None) -> Completed:
        asked.append(command.argv)
        return run.run(command, log=log)

    assert probe.load_site("local", runner).kernel == platform.release()
    assert asked
    asked.clear()
    assert probe.load_site("lumi-c", runner).kernel is None
    assert not asked


def test_programs_that_are_missing_or_hang_are_left_out():
    def runner(command: Command, *, log: Path | None = None) -> Completed:
        del log
        if command.argv[0] == "lscpu":
            return Completed(
                argv=command.argv, returncode=-9, stdout=b"Model name: x", stderr=b"", seconds=10,
                timed_out=True,
            )  # fmt: skip
        assert command.timeout_s
        raise fail(Reason.TOOL_MISSING, f"cannot run `{command.argv[0]}`")

    taken = probe.take_capture(runner)
    assert taken.commands == {}
    site = capture.read_capture(taken)
    assert site.partitions["node"].architecture is None
    assert site.kernel == platform.release()


def test_cma_check_agrees_with_the_kernels_settings():
    """With Yama off and without a filter the read is allowed; the program leaves no child."""
    program = Path(probe.__file__).with_name("cma_check.py")
    done = run.run(Command(argv=(sys.executable, "-I", str(program)), timeout_s=30))
    assert done.returncode in {0, 1}
    yama = Path("/proc/sys/kernel/yama/ptrace_scope")
    if yama.exists() and yama.read_text().strip() in {"2", "3"} and os.geteuid() != 0:
        assert done.returncode == 1
    if done.returncode == 1:
        assert done.stdout.strip()  # the reason


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("no-such-site", Reason.FILE_MISSING),
        ("./no-such-file.yaml", Reason.FILE_MISSING),
        ("/", Reason.INVALID_VALUE),
        ("/dev/zero", Reason.TOO_LARGE),
    ],
)
def test_what_cannot_be_loaded(name, reason):
    with refused(reason):
        probe.load_site(name)


def test_a_file_is_loaded_by_its_path(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("name: mine\n")
    assert probe.load_site(str(path)).name == "mine"
