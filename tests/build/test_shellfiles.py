"""Files as commands of a shell: what a line cannot hold is refused, and groups fit one argument."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from stackproof.build import shellfiles
from stackproof.core.errors import Reason, StackproofError

LONGEST = 131_072
"""Bytes that the kernel takes in one argument (MAX_ARG_STRLEN)."""


def test_files_of_any_size_are_written_in_groups_that_a_shell_takes(tmp_path: Path) -> None:
    texts = {f"{tmp_path}/{n}/it's": f"{n} $x\n".encode() * 4_000 for n in range(4)}
    texts[f"{tmp_path}/binary"] = bytes(range(256)) * 300
    groups = list(shellfiles.write_commands(texts, frozenset({f"{tmp_path}/binary"})))
    assert len(groups) > 1
    for group in groups:
        script = " && ".join(group)
        assert len(script.encode()) < LONGEST
        subprocess.run(["/bin/sh", "-c", script], check=True, timeout=600)
    for path, content in texts.items():
        assert Path(path).read_bytes() == content
    assert (tmp_path / "binary").stat().st_mode & 0o111
    assert not Path(f"{tmp_path}/0/it's").stat().st_mode & 0o111


@pytest.mark.parametrize("text", ["a\nb", "\0", "\x1b[0m", "a\rb"])
def test_a_word_with_a_control_character_is_refused(text: str) -> None:
    for check in (shellfiles.shell_word, shellfiles.single_line):
        with pytest.raises(StackproofError) as caught:
            check(text)
        assert caught.value.reason is Reason.INVALID_VALUE
    assert shellfiles.shell_word("it's") == "'it'\"'\"'s'"
