"""Rooms that read what other people made start programs of this machine, by names of their own."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from housefiles import MODULES, PACKAGE, tree

ROOMS = {
    "core", "linking", "inject", "image", "pack", "share", "doctor", "results", "compare", "report",
    "recipe", "mpi", "knowledge", "site",
}  # fmt: skip
"""Rooms that judge what they are given; the others start what their user asked for, as he said."""
STARTS = {"Command", "subprocess.run", "subprocess.Popen", "os.execve", "os.execvp", "os.execvpe",
          "os.execv", "os.posix_spawn"}  # fmt: skip
ALLOWED = {
    ("core/effects/foreign/parser.py", "program"): "a parser of the system, behind walls",
    ("core/effects/run.py", "argv"): "where commands of all rooms are started",
    ("core/effects/sandbox.py", "argv"): "the sandbox itself",
    ("doctor/effects/machine.py", "argv"): "a table of commands in the same file",
    ("inject/effects/artefact.py", "superblock.pack_argv(folder, whole)"): "mksquashfs",
    ("pack/effects/entry_files.py", "argv"): "gcc, of an architecture from a list",
    ("pack/effects/deliver.py", "argv"): "zstd, or mksquashfs",
    ("pack/effects/interpreters.py", "program"): "a Python of root's or of the user's own",
    ("site/effects/probe.py", "argv"): "a table of commands in the same file",
}  # fmt: skip
"""Where the first word is no text in the code, and whose it is."""


def first_words(module: ast.Module) -> Iterator[str]:
    """Yield what stands for the program where one is started, unless that is a text."""
    names: dict[str, list[ast.expr]] = {}
    for node in ast.walk(module):
        for target in node.targets if isinstance(node, ast.Assign) else ():
            if isinstance(target, ast.Name):
                names.setdefault(target.id, []).append(node.value)

    def is_text(word: ast.expr) -> bool:
        if isinstance(word, ast.Tuple | ast.List) and word.elts:
            return is_text(word.elts[0])
        if isinstance(word, ast.Name) and word.id in names:
            # Taken out while it is looked at: a name may be made of itself.
            return all(is_text(value) for value in names.pop(word.id))
        return isinstance(word, ast.Constant) and isinstance(word.value, str)

    for call in ast.walk(module):
        if isinstance(call, ast.Call) and ast.unparse(call.func) in STARTS:
            given = {word.arg: word.value for word in call.keywords}
            for argv in [given.get("argv"), *call.args][: 1 if "argv" in given else 2]:
                known = dict(names)
                if argv is not None and not is_text(argv):
                    first = argv.elts[0] if isinstance(argv, ast.Tuple | ast.List) else argv
                    yield ast.unparse(first)
                names.update(known)


def test_no_room_that_judges_starts_what_it_judges():
    found = {
        (path.relative_to(PACKAGE).as_posix(), word)
        for path in MODULES
        if path.relative_to(PACKAGE).parts[0] in ROOMS
        for word in first_words(tree(path))
    }
    assert sorted(found - ALLOWED.keys()) == []
    assert sorted(ALLOWED.keys() - found) == [], "no longer needed"


def test_a_program_from_elsewhere_is_seen(tmp_path):
    module = tmp_path / "a.py"
    module.write_text(
        'TOOL = "ldd"\nrun(Command(argv=(TOOL, file)))\nwords = ("ldd", file)\nCommand(argv=words)\n'
        "Command(argv=(elf.interpreter, '--list', program))\nsubprocess.run([loader, file])\n"
    )
    assert list(first_words(ast.parse(module.read_text()))) == ["elf.interpreter", "loader"]
