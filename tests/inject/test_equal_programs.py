"""Programs of the same content are judged once, and never told what is not true of them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from elflab import Lab
from injectlab import found_in, mpich
from need import need
from stackproof.core.errors import StackproofError
from stackproof.inject.effects import check, equal_programs, known_releases
from stackproof.inject.effects.check import CheckOptions, ProgramOptions
from stackproof.inject.effects.equal_programs import EqualPrograms
from stackproof.inject.judge import Question, judge
from stackproof.inject.model import Judgement
from stackproof.inject.replacement import find_replacement
from stackproof.linking.effects.view import RootView, this_machine
from stackproof.linking.loader import LoaderSettings

pytestmark = pytest.mark.battery


class Room:
    """A lab with an MPI and a replacement, and a count of the judgements that are made."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lab = Lab(folder)
        mpich(self.lab, "own")
        mpich(self.lab, "new")
        self.made: list[str] = []

        def counted(view: RootView, program: str, *others: object) -> Judgement:
            self.made.append(program)
            return judge(view, program, *others)  # type: ignore[arg-type]

        monkeypatch.setattr(equal_programs, "judge", counted)

    def program(self, name: str, *, flags: list[str] | None = None) -> str:
        made: str = self.lab.program(
            name, needs=["own/lib/libmpi.so.12"], calls=["MPI_Init"],
            flags=found_in(self.lab, "own/lib") if flags is None else flags,
        )  # fmt: skip
        return made

    def copy(self, program: str, name: str) -> str:
        target = self.lab.path(name)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copy(program, target)
        return target

    def judged(self, *programs: str, view: RootView | None = None, **setting: object) -> None:
        """Assert that each judgement is the one that the program gets by itself."""
        question = Question(
            machine=this_machine(), releases=known_releases.load_releases,
            setting=LoaderSettings(**setting),  # type: ignore[arg-type]
        )  # fmt: skip
        view = view or RootView()
        replacement = find_replacement(view, self.lab.path("new"))
        equal = EqualPrograms(view, replacement)
        for program in programs:
            alone = RootView()
            own = judge(alone, program, find_replacement(alone, self.lab.path("new")), question)
            assert equal.judge(program, question) == own


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Room:
    need("gcc")
    return Room(tmp_path, monkeypatch)


def test_equal_programs_are_judged_once(room: Room) -> None:
    first = room.program("bin/first")
    others = [room.copy(first, name) for name in ("bin/second", "elsewhere/bin/first", "x/bin/x")]
    room.judged(first, *others)
    assert room.made == [first]


def test_origin_makes_equal_programs_differ(room: Room) -> None:
    flags = ["-Wl,--enable-new-dtags,-rpath,$ORIGIN/../lib"]
    first = room.program("one/bin/program", flags=flags)
    mpich(room.lab, "one")
    mpich(room.lab, "two", defines=["extra"])
    second, third = room.copy(first, "two/bin/program"), room.copy(first, "none/bin/program")
    room.judged(first, second, third)
    assert room.made == [first, second, third]
    room.judged(room.copy(first, "one/bin/b"), room.copy(first, "one/bin/c"))
    assert room.made[3:] == [room.lab.path("one/bin/b")]  # of one folder they are equal


def test_an_old_rpath_with_origin_counts_as_well(room: Room) -> None:
    flags = ["-Wl,--disable-new-dtags,-rpath,${ORIGIN}/../lib"]
    first = room.program("one/bin/program", flags=flags)
    mpich(room.lab, "one")
    second = room.copy(first, "two/bin/program")
    room.judged(first, second)
    assert room.made == [first, second]


def test_another_library_path_is_another_question(room: Room) -> None:
    first = room.program("bin/first", flags=[])
    second = room.copy(first, "bin/second")
    for folders in ((), (room.lab.path("own/lib"),), (room.lab.path("new/lib"),)):
        room.judged(first, second, library_path=folders)
    assert room.made == [first, first, first]
    trees = []
    for path in ("", room.lab.path("own/lib")):
        of = ProgramOptions(programs=(first, second), library_path=path)
        question = check.question_of(of, CheckOptions())
        found = check.judge_named(of, room.lab.path("new"), question)
        assert [one.program for _, one in found] == [first, second]
        trees.append([one.environment["LD_LIBRARY_PATH"] for _, one in found])
    assert trees[0] != trees[1]


@pytest.mark.parametrize("at", [0.1, 0.5, 0.9])
def test_one_byte_makes_another_program(room: Room, at: float) -> None:
    first = room.program("bin/first")
    second = room.copy(first, "bin/second")
    with open(second, "r+b") as stream:
        place = int(len(Path(first).read_bytes()) * at)
        stream.seek(place)
        byte = stream.read(1)
        stream.seek(place)
        stream.write(bytes([byte[0] ^ 1]))
    view = RootView()
    files = [view.look(path) for path in (first, second)]
    digests = {view.content_digest(file) for file in files if file}
    assert len(digests) == 2


def test_programs_of_one_size_and_other_content_are_not_equal(room: Room) -> None:
    """Their first and last pages are the same; what differs lies between."""
    first = room.program("bin/first")
    content = bytearray(Path(first).read_bytes() + bytes(40000))
    Path(first).write_bytes(content)
    second = room.copy(first, "bin/second")
    content[len(content) - 20000] = 7
    Path(second).write_bytes(content)
    view = RootView()
    files = [view.look(path) for path in (first, second)]
    assert len({view.content_glance(file) for file in files if file}) == 1
    room.judged(first, second)
    assert room.made == [first, second]


def test_more_rights_are_another_program(room: Room) -> None:
    first = room.program("bin/first", flags=[])
    second = room.copy(first, "bin/second")
    os.chmod(second, 0o4755)
    room.judged(first, second, library_path=(room.lab.path("own/lib"),))
    assert room.made == [first, second]


def test_a_library_is_judged_by_itself(room: Room) -> None:
    first = room.lab.library("bin/libfirst.so", imports=["MPI_Init"])
    second = room.copy(first, "bin/libsecond.so")
    room.judged(first, second)
    assert room.made == [first, second]


def test_what_lies_in_the_replacement_is_judged_by_itself(room: Room) -> None:
    first = room.program("bin/first")
    second = room.copy(first, "new/bin/first")
    room.judged(first, second)
    assert room.made == [first, second]


@pytest.mark.parametrize(("own", "other"), [("p1", "p10"), ("lib", "p"), ("new", "p")])
def test_a_name_that_stands_elsewhere_is_never_put_in_its_place(
    room: Room, own: str, other: str
) -> None:
    """`new` is a folder of the replacement, and `p1` begins the path of another program."""
    first = room.program(f"bin/{own}")
    room.judged(first, room.copy(first, f"bin/{other}"), room.copy(first, f"{own}/{other}"))


def test_links_and_scripts_lead_to_the_program_itself(room: Room, tmp_path: Path) -> None:
    first = room.program("bin/first")
    link = tmp_path / "links" / "first"
    link.parent.mkdir()
    link.symlink_to(first)
    room.judged(os.fspath(link), first)
    scripts = []
    for name in ("a", "b"):
        path = tmp_path / name
        path.write_text(f"#!{first}\n")
        path.chmod(0o755)
        scripts.append(os.fspath(path))
    room.made.clear()
    of = ProgramOptions(programs=tuple(scripts))
    found = check.judge_named(of, room.lab.path("new"), check.question_of(of, CheckOptions()))
    assert [one.program for _, one in found] == scripts
    assert room.made == [first]


def test_what_cannot_be_read_is_said_for_each(room: Room, tmp_path: Path) -> None:
    paths = [os.fspath(tmp_path / name) for name in ("first", "second")]
    for path in paths:
        Path(path).write_text("no program")
    question = Question(machine=this_machine())
    view = RootView()
    equal = EqualPrograms(view, find_replacement(view, room.lab.path("new")))
    for path in paths:
        with pytest.raises(StackproofError, match=os.path.basename(path)):
            equal.judge(path, question)


def test_a_program_that_opens_a_library_beside_itself_is_judged_by_itself(room: Room) -> None:
    """Of three copies one has an MPI where it looks for it, with its own folder in the path."""
    opens = 'dlopen("$ORIGIN/../lib/libmpi.so.12", 2);'
    declarations = f"__attribute__((constructor)) static void start(void) {{ {opens} }}\n"
    first = room.lab.program("a/bin/p", declarations=declarations)
    others = [room.copy(first, f"{name}/bin/p") for name in "bc"]
    mpich(room.lab, "a")
    room.judged(first, *others)
    room.judged(*others, first)
    assert sorted(room.made) == sorted([first, *others] * 2)
