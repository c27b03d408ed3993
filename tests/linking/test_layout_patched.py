"""Programs that patchelf changed, as the reader sees them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from need import need
from stackproof.core.errors import Reason, StackproofError
from stackproof.linking.effects import runpath


def _program(folder: Path, *options: str) -> Path:
    target = folder / "program"
    code = "#include <math.h>\nint main(int c, char **v) { (void)v; return (int)sin(c); }"
    argv = ["gcc", "-x", "c", "-", "-no-pie", "-fno-builtin", "-o", target, "-lm", *options]
    subprocess.run(argv, input=code.encode(), check=True, timeout=600)
    return target


@pytest.mark.parametrize("words", [1, 40, 200])
def test_a_table_may_go_on_in_the_next_segment(words: int, tmp_path: Path) -> None:
    """Of a program at a fixed address patchelf puts names before it, as far as they fit."""
    need("gcc", "patchelf")
    target = _program(tmp_path)
    rpath = ":".join(f"$ORIGIN/../some/folder/number/{number}" for number in range(words))
    runpath.seal(str(target), rpath)
    found = runpath.read(str(target))
    assert (found.rpath, found.runpath) == (rpath, None)
    assert found.needed == ("libm.so.6", "libc.so.6")
    assert subprocess.run([target], check=False, timeout=600).returncode == 0


def test_a_file_that_is_no_elf_file_is_left(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("#!/bin/sh\n")
    with pytest.raises(StackproofError) as error:
        runpath.seal(str(tmp_path / "text"), "$ORIGIN")
    assert error.value.reason is Reason.NOT_ELF
    assert (tmp_path / "text").read_text() == "#!/bin/sh\n"
