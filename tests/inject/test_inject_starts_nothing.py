"""Whoever judges a program, or puts an MPI under it, starts nothing of it: he may be root."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from eessilab import Eessi, inject
from injectlab import uses_mpich
from need import need
from stackproof.core.errors import ExitCode
from stackproof.linking.effects import runpath

pytestmark = [
    pytest.mark.guarantee(
        "What others wrote",
        "Whoever judges a program starts nothing of it.",
        "`inject check` and `inject apply` read a program, its loader and its libraries. "
        "Tried: a script, a program and a file of the usual name as loader, auditors, "
        "constructors and IFUNCs.",
    )
]

_CODE = """
#include <fcntl.h>
#include <unistd.h>
static void mark(void) {{ close(open("{mark}", O_CREAT | O_WRONLY, 0600)); }}
__attribute__((constructor)) static void begin(void) {{ mark(); }}
static int answer(void) {{ return 42; }}
static int (*choose(void))(void) {{ mark(); return answer; }}
int chosen(void) __attribute__((ifunc("choose")));
unsigned la_version(unsigned own) {{ mark(); return own; }}
int main(void) {{ return chosen(); }}
"""
TRAPS = {
    "a script for its loader": "--dynamic-linker,{folder}/script",
    "a program for its loader": "--dynamic-linker,{folder}/program",
    "a program with a loader's name": "--dynamic-linker,{folder}/lib/ld-linux-x86-64.so.2",
    "an auditor": "--audit={folder}/libtrap.so",
    "an auditor of what it needs": "--depaudit={folder}/libtrap.so",
    "a library that begins by itself": "--no-as-needed,{folder}/libtrap.so",
}
REFUSED = {"a script for its loader", "an auditor", "an auditor of what it needs"}
VERBS = {
    "check": ("check", "{app}", "--with", "{host}"),
    "wrapper": ("apply", "{app}", "--with", "{host}", "--wrapper", "{place}"),
    "dry run": ("apply", "{app}", "--with", "{host}", "--wrapper", "{place}", "--dry-run"),
    "override": ("apply", "{app}", "--with", "{host}", "--eessi", "{software}"),
}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Eessi:
    """Return programs of somebody hostile: each leaves a mark where a part of it is started."""
    need("gcc", "patchelf")
    folder = tmp_path_factory.mktemp("traps")
    (folder / "trap.c").write_text(_CODE.format(mark=folder / "mark"))
    for target, *words in (
        ("program",),
        ("lib/ld-linux-x86-64.so.2",),
        ("libtrap.so", "-shared", "-fPIC"),
    ):
        (folder / target).parent.mkdir(exist_ok=True)
        argv = ["gcc", *words, "-o", folder / target, folder / "trap.c"]
        subprocess.run(argv, check=True, timeout=600)
    script = folder / "script"
    script.write_text(f"#!/bin/sh\ntouch {folder}/mark\n")
    script.chmod(0o755)
    return Eessi(folder)


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("trap", TRAPS)
def test_nothing_of_a_program_is_started(
    lab: Eessi, capsys: pytest.CaptureFixture[str], trap: str, verb: str, tmp_path: Path
) -> None:
    mark = lab.folder / "mark"
    override = f"{lab.place}/lib:{lab.path('eessi/lib')}"
    app = uses_mpich(
        lab,
        name="hostile/bin/app",
        own="eessi/lib",
        flags=[
            f"-Wl,{TRAPS[trap].format(folder=lab.folder)}",
            f"-Wl,--disable-new-dtags,-rpath,{override}",
        ],
    )
    # The trap is one: what asked the program's own loader before, or starts the program, meets it.
    for argv in ([runpath.read(app).interpreter, "--list", app], [app]):
        if not mark.exists():
            subprocess.run(argv, check=False, capture_output=True, timeout=600)
    assert mark.exists()
    mark.unlink()
    given = {
        "app": app, "host": lab.path("host"), "place": str(tmp_path / "wrapped"),
        "software": str(lab.software),
    }  # fmt: skip
    code, _, err = inject(capsys, *(word.format(**given) for word in VERBS[verb]))
    assert not mark.exists()
    # An auditor may load anything, and a script is no loader.
    good = {ExitCode.DONE, ExitCode.STEPS}
    assert code in ({ExitCode.INVALID, ExitCode.UNKNOWN} if trap in REFUSED else good), err
    if verb == "override" and code == ExitCode.DONE:
        assert inject(capsys, "undo", str(lab.place))[0] == ExitCode.DONE
        assert not mark.exists()
