"""Every command line of README and of the pages is one that the parser takes, or says why not."""

from __future__ import annotations

import argparse
import os
import re

import pytest

import documented
from documented import ROOT
from stackproof import cli
from stackproof.cli import commandtree
from stackproof.core.effects import shipped

PAGES = [*documented.pages(), ROOT / "CODING_STYLE.md"]
OTHERS = [line for page in PAGES for line in documented.others_of(page)]
# Who looks after lines that begin with another program, where no mark in the page says it: a file
# that runs the like, or a sentence why none does.
SEEN_TO = {
    r"make (demo|test)": "tools/fresh.py",
    r"git clone REPOSITORY": "tools/fresh.py",
    r"tools/bootstrap demo": "tools/fresh.py",
    r"\.venv/bin/nox -s (quick|tests)": "noxfile.py",
    r"\. \.venv/bin/activate": "what Python's venv writes",
    r"packaging/build-deb": "tests/native/test_packaging.py",
    r"rpmbuild -tb": "tests/native/test_packaging.py",
    r"dpkg-statoverride": "tests/native/test_packaging.py",
    r"apt-get (purge|remove|install)": "dpkg in tests/native/test_packaging.py; the tests install nothing",
    r"meson (setup|compile|test|install)": "tests/native/test_native_build.py",
    r"(chmod|install|rm|mkdir) .*(/usr|/etc|/user-)": "changes the machine; tests/native/test_packaging.py has its own",
    r"native/spank/headers-of": "tests/native/test_spank_build.py",
    r"srun .*--image": "tests/native/test_spank.py",
    r"srun --help": "tests/native/test_spank.py",
    r"srun .*site probe --missing": "tests/site/test_missing_slurm.py",
    r"nsenter -t PID|gdb -ex 'target remote": "tests/mount/test_debuggers.py",
    r"ldd ": "needs EESSI and a Slurm machine",
    r"sbatch .*stackproof build": "needs a Slurm machine; tests/build/test_spack_nodes.py has one of its own",
    r"(mpich-pack|site/mpich)/bin/|bin/mpiexec|tar xf pack": "tests/house/test_documented_run.py",
    r"mpiexec -launcher ssh": "tests/doctor/test_doctor_made.py",
    r"mpiexec -n 4 stackproof run": "what not to do",
    r"echo 'name: my-machine'|cat login.txt": "tests/site/test_missing_slurm.py",
    r"rm -r ~/\.cache/stackproof": "deletes what the user has",
    r"cp (-r recipes/spack|sites/)": "tests/build/test_chains.py",
    r"buildah bud": "needs buildah, and images of a registry",
    r"podman run --rm mpich": "needs podman, and images of a registry",
}
LINES = [line for page in documented.pages() for line in documented.lines_of(page)]
SITES = set(shipped.names("sites"))


def test_there_are_command_lines_on_the_pages():
    assert len(LINES) > 100
    assert {"README.md", "docs/tutorial/first-verdict.md"} <= {line.page for line in LINES}
    assert all(line.commands for line in LINES)


def parsed(words: list[str]) -> argparse.Namespace:
    """Return what the parser makes of a command line; `…` and `X...` stand for any words."""
    words = [word.removesuffix("...") for word in words if word != "…"]
    return cli.build_parser(words[1], alone=True).parse_args(words[1:])


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.place)
def test_the_parser_takes_it(line, capsys):
    for words in line.commands:
        if "…" in words:
            assert words[1] in cli.VERBS
            continue
        try:
            args = parsed(words)
        except SystemExit:
            pytest.fail(f"{line.place}: {line.text}\n{capsys.readouterr().err}")
        site = getattr(args, "site", None)
        if isinstance(site, str) and re.fullmatch("[a-z][a-z0-9-]*", site):
            assert site in SITES, line.place
        recipe = getattr(args, "recipe", None)
        if isinstance(recipe, str) and recipe.startswith("recipes/"):
            assert (ROOT / recipe).exists(), line.place
        elif isinstance(recipe, str) and re.fullmatch("(spack/)?[a-z0-9.-]+", recipe):
            known = {*shipped.names("recipes"), *_named_on(line.page)}
            assert recipe in known, line.place


def _named_on(page: str) -> set[str]:
    """Return the files that a page tells its reader to write, or that stand for his own."""
    text = (ROOT / page).read_text()
    return set(re.findall(r"[a-z0-9-]+\.yaml", text))


def test_a_page_that_is_not_run_says_who_looks_after_it():
    """A reason that names a test names one that is there."""
    for line in LINES:
        for name in re.findall(r"(?:tests|docs)/[\w/-]+\.(?:py|md)", line.reason):
            assert (ROOT / name).is_file(), f"{line.place}: {name}"


@pytest.mark.parametrize("line", OTHERS, ids=lambda line: line.place)
def test_a_line_of_another_program_is_run_by_somebody_or_says_why_not(line):
    known = [said for pattern, said in SEEN_TO.items() if re.match(pattern, line.text)]
    assert line.reason or known, f"{line.place}: {line.text}"
    for said in [line.reason, *known]:
        for name in re.findall(r"(?:tests|docs|tools)/[\w/-]+\.(?:py|md)|noxfile\.py", said):
            assert (ROOT / name).is_file(), f"{line.place}: {name}"


def test_who_looks_after_lines_of_other_programs_has_some():
    texts = [line.text for line in OTHERS]
    assert [one for one in SEEN_TO if not any(re.match(one, text) for text in texts)] == []


@pytest.mark.parametrize("line", OTHERS, ids=lambda line: line.place)
def test_what_a_line_names_of_this_project_is_there(line):
    """A file, a target of make, a session of nox."""
    word = line.text.split()[0]
    if re.match(r"(packaging|tools|native|benchmarks)/", word):
        assert os.access(ROOT / word, os.X_OK), line.place
    targets = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^make (\w+)", line.text):
        assert f"\n{target}:" in targets, line.place
    sessions = (ROOT / "noxfile.py").read_text(encoding="utf-8")
    for session in re.findall(r"nox -s (\w+)", line.text):
        assert f"def {session}(" in sessions, line.place


@pytest.mark.parametrize(
    "page",
    [ROOT / "README.md", *sorted((ROOT / "docs" / "tutorial").glob("*.md"))],
    ids=lambda page: page.name,
)
def test_what_readme_and_the_tutorial_show_is_a_command_or_a_compared_output(page):
    assert documented.uncompared_output(page) == []


def test_output_that_nothing_compares_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(documented, "ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text(
        "    stackproof check a \\\n        --json\n    printed\n\n```console\n"
        "$ stackproof plan a\nstack a\n$ make x\nmade\n```\n"
    )
    assert documented.uncompared_output(page) == ["page.md:3: printed", "page.md:9: made"]


def test_blocks_marks_and_continued_lines(tmp_path, monkeypatch):
    monkeypatch.setattr(documented, "ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text(
        "Text\n\n    stackproof check a \\\n        --json | head  # why\n    what it prints\n\n"
        "<!-- not run: because -->\n\n    stackproof plan b\n\n    stackproof plan c\n\nText `d`\n\n"
        "    stackproof plan e\n\n```sh\n$ stackproof plan f && stackproof plan g > h\n```\n\n"
        "```yaml\nstackproof: no command\n```\n\n    make nothing && srun x\n    makes sense\n"
    )
    (other,) = documented.others_of(page)
    assert (other.number, other.text) == (25, "make nothing && srun x")
    lines = documented.lines_of(page)
    assert [(line.number, line.reason) for line in lines] == [
        (3, ""), (9, "because"), (11, "because"), (15, ""), (18, ""),
    ]  # fmt: skip
    assert lines[0].commands == [["stackproof", "check", "a", "--json"]]
    assert lines[4].commands == [["stackproof", "plan", "f"], ["stackproof", "plan", "g"]]


def test_output_of_a_console_block_is_compared_in_shape(tmp_path, monkeypatch):
    monkeypatch.setattr(documented, "ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text(
        "```console\n$ stackproof build a \\\n    --json\nok 1.5 s\n…\nverdict: PASS\n"
        "$ stackproof plan b\nstep one …\n```\n\n    stackproof check c\n    shown, not held\n"
    )
    build, plan, check = documented.lines_of(page)
    assert build.output == ("ok 1.5 s", "…", "verdict: PASS")
    assert (plan.output, check.output) == (("step one …",), ())
    assert documented.shape_differences(build, "ok  12 s\nmore\nverdict: FAIL\n") == []
    assert documented.shape_differences(plan, "step one of 3\n") == []
    assert documented.shape_differences(plan, "step two\n") == ["step one …"]
    rows = "  latency     0.97 ?     0.99 FAIL\n", "  latency  1.20      0.5 slow?\n"
    measured = documented.Line(page="p", number=1, text="x", output=(rows[0],))
    assert documented.shape_differences(measured, rows[1]) == []
    assert documented.shape_differences(measured, rows[1].replace("latency", "bandwidth"))
    swapped = documented.shape_differences(build, "verdict: PASS\nok 2 s\n")
    assert swapped == ["verdict: PASS"]


def test_verbs_in_the_middle_of_a_sentence_are_verbs():
    """On the pages, and in what the program itself says."""
    sources = [ROOT / "README.md", *documented.pages(), *(ROOT / "src").rglob("*.py")]
    verbs = commandtree.load().commands
    actions = {one.words[-1]: {below.words[-1] for below in one.commands} for one in verbs}
    assert "prune" in actions["image"]
    wrong, count = [], 0
    for path in dict.fromkeys(sources):
        text = path.read_text(encoding="utf-8")
        for match in re.finditer(r"`stackproof ([a-z]+)(?: ([a-z][a-z-]*)\b(?![./:=@]))?", text):
            count += 1
            verb, action = match[1], match[2]
            if verb not in actions or (action and actions[verb] and action not in actions[verb]):
                line = text.count("\n", 0, match.start()) + 1
                wrong.append(f"{path.relative_to(ROOT)}:{line}: {match[0]}`")
    assert wrong == []
    assert count > 100
