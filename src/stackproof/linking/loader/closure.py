"""What a program loads: who asks for what, and the file that each name leads to.

Objects are loaded breadth first, as `_dl_map_object_deps` (glibc, elf/dl-deps.c) does: the program,
then LD_PRELOAD, then what they need, in the order of their DT_NEEDED entries. An object answers to
every name it was asked for by, and to its SONAME, so that the first one wins. What a library
filters (DT_FILTER, DT_AUXILIARY) comes before it.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

from msgspec import Struct, field, structs

from stackproof.core import limits
from stackproof.core.errors import Location, Reason, fail
from stackproof.core.value import Value, replace
from stackproof.linking.elf import ElfFile
from stackproof.linking.loader.ldcache import FileView
from stackproof.linking.loader.machine import Interpreter, Machine, interpreter_of
from stackproof.linking.loader.search import Fatal, Hit, LoaderSettings, MappedObject, Searcher


class Edge(Value):
    """A name that an object asks for; `to` is the object that answers, None when there is none."""

    by: int
    name: str
    to: int | None


class Unreadable(Value):
    """A file that ends the program when it is loaded."""

    by: int
    name: str
    path: str
    message: str


class Closure(Struct, kw_only=True):
    """A program and all that it loads at its start, in the order of loading.

    `edges` are in the order in which they were followed; `ignored` are the preloads that were
    not found, which only brings a warning; `passed_over` are files of the right name for another
    machine.
    """

    searcher: Searcher
    objects: list[MappedObject] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    unreadable: list[Unreadable] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    loader: Hit | None = None
    _numbers: dict[str, int] = field(default_factory=dict)
    _indexed: int = 0

    @property
    def program(self) -> MappedObject:
        """Return the program itself."""
        return self.objects[0]

    @property
    def missing(self) -> tuple[Edge, ...]:
        """Return the names that nothing was found for."""
        return tuple(edge for edge in self.edges if edge.to is None)

    @property
    def taken(self) -> dict[str, str]:
        """Return the path of the file that answers to each name, preloads' own paths too."""
        return {name: loaded.path for loaded in self.objects[1:] for name in loaded.names}

    @property
    def passed_over(self) -> dict[str, str]:
        """Return files that had the right name and were for another machine, and for which."""
        return self.searcher.passed_over

    def named(self, name: str) -> MappedObject | None:
        """Return the object that answers to a name."""
        for loaded in self.objects[self._indexed :]:
            for word in (*loaded.names, loaded.elf.soname):
                if word:
                    self._numbers.setdefault(word, loaded.number)
        self._indexed = len(self.objects)
        number = self._numbers.get(name)
        return None if number is None else self.objects[number]

    def _answers(self, loaded: MappedObject, name: str) -> MappedObject:
        """Let an object answer to one more name."""
        loaded.names.add(name)
        self._numbers.setdefault(name, loaded.number)
        return loaded

    def needs_of(self, number: int) -> tuple[Edge, ...]:
        """Return the edges that leave an object."""
        return tuple(edge for edge in self.edges if edge.by == number)

    def chain(self, loaded: MappedObject) -> list[MappedObject]:
        """Return an object, the one that had it loaded, and so on up to the program."""
        found = [loaded]
        while found[-1].by is not None:
            found.append(self.objects[found[-1].by])
        return found

    def add(self, name: str, hit: Hit, by: MappedObject) -> MappedObject:
        """Take in a found file, or the object that is this file already."""
        for loaded in self.objects:
            if loaded.file.identity == hit.file.identity:
                return self._answers(loaded, name)
        loaded = MappedObject(
            number=len(self.objects),
            path=hit.path,
            file=hit.file,
            elf=hit.elf,
            origin=posixpath.dirname(hit.path) or "/",
            by=by.number,
            how=hit.how,
            names={name},
        )
        self.objects.append(loaded)
        if len(self.objects) > limits.OBJECTS.count:
            raise fail(
                Reason.TOO_LARGE,
                f"`{self.program.path}` loads more than {limits.OBJECTS.count} libraries",
                where=Location(file=self.program.path),
            )
        return loaded

    def load(self, name: str, by: MappedObject) -> MappedObject | None:
        """Load one library for an object, without what it needs itself."""
        found = self.named(name)
        if found is not None:
            self._answers(found, name)
        elif self.loader and name in {self.loader.elf.soname, self.loader.path}:
            found = self.add(name, self.loader, by)
        else:
            hit = self.searcher.find(name, self.chain(by), self.program)
            if isinstance(hit, Fatal):
                problem = Unreadable(by=by.number, name=name, path=hit.path, message=hit.message)
                self.unreadable.append(problem)
            elif hit is not None:
                found = self.add(name, hit, by)
        return found

    def opened(self, path: str, caller: int) -> Closure | None:
        """Return this closure after an object has opened a file by its path (dlopen).

        None when there is no such file, or when it is loaded already. Raises `StackproofError`
        like the view does.
        """
        file = self.searcher.view.look(path)
        if file is None or any(one.file.identity == file.identity for one in self.objects):
            return None
        elf = self.searcher.view.elf(file)
        more = Closure(
            searcher=self.searcher,
            objects=[structs.replace(one, names={*one.names}) for one in self.objects],
            loader=self.loader,
            _numbers=dict(self._numbers),
            _indexed=self._indexed,
        )
        hit = Hit(path=path, file=file, elf=elf, how="dlopen")
        start = more.add(path, hit, more.objects[caller])
        more.follow(start.number)
        return more

    def follow(self, start: int) -> None:
        """Load what the objects from number `start` on need, and so on, breadth first."""
        order = list(range(len(self.objects)))
        done: set[int] = set()
        place = start
        while place < len(order):
            loaded = self.objects[order[place]]
            if loaded.number in done:
                place += 1
                continue
            done.add(loaded.number)
            known = len(self.objects)
            for name in loaded.elf.needed:
                self._need(name, loaded)
            order += range(known, len(self.objects))
            for name in loaded.elf.filters:
                _put_before(loaded, self._need(name, loaded), order)
            for name in loaded.elf.auxiliaries:
                _put_before(loaded, self._need(name, loaded, may_be_missing=True), order)
        if order != sorted(order):
            self._renumber(order)

    def _need(
        self, name: str, by: MappedObject, *, may_be_missing: bool = False
    ) -> MappedObject | None:
        broken = len(self.unreadable)
        found = self.load(name, by)
        if may_be_missing:  # or be no library: then the loader goes on
            del self.unreadable[broken:]
        if found is not None or (len(self.unreadable) == broken and not may_be_missing):
            to = None if found is None else found.number
            self.edges.append(Edge(by=by.number, name=name, to=to))
        return found

    def _renumber(self, order: Sequence[int]) -> None:
        """Give the objects the numbers of their order, which filters changed."""
        new = {old: place for place, old in enumerate(order)}
        self.objects[:] = [self.objects[number] for number in order]
        for loaded in self.objects:
            loaded.number = new[loaded.number]
            loaded.by = None if loaded.by is None else new[loaded.by]
        self.edges[:] = [
            replace(edge, by=new[edge.by], to=None if edge.to is None else new[edge.to])
            for edge in self.edges
        ]
        self.unreadable[:] = [replace(one, by=new[one.by]) for one in self.unreadable]
        self._numbers = {name: new[old] for name, old in self._numbers.items()}
        self._indexed = 0


def _put_before(loaded: MappedObject, found: MappedObject | None, order: list[int]) -> None:
    """Put what an object filters before that object, unless it is searched earlier already.

    So does glibc for DT_FILTER and DT_AUXILIARY. Nothing comes before the program itself.
    """
    if found is None:
        return
    if found.number in order:
        if order.index(found.number) < order.index(loaded.number):
            return
        order.remove(found.number)
    order.insert(order.index(loaded.number) + (loaded.number == 0), found.number)


_WITHOUT_VARIABLES = LoaderSettings()


def load_program(
    view: FileView, path: str, *, machine: Machine, setting: LoaderSettings = _WITHOUT_VARIABLES
) -> Closure:
    """Return what a program loads when it is started with `setting`, by default without variables.

    A library in the place of a program is taken as one, with the machine's usual loader. Raises
    `StackproofError`: FILE_MISSING, NOT_ELF, ELF_DAMAGED, TOO_LARGE.
    """
    file = view.look(path)
    if file is None:
        raise fail(
            Reason.FILE_MISSING,
            f"there is no file `{path}`",
            where=Location(file=path),
            hint="name a program or a library",
        )
    elf = view.elf(file)
    machine = Machine(architecture=elf.machine, level=machine.level)
    interpreter = _interpreter(view, elf)
    searcher = Searcher(
        view=view,
        machine=machine,
        interpreter=interpreter,
        setting=setting,
        bits=elf.bits,
        subfolders=interpreter.subfolders(machine),
    )
    closure = Closure(searcher=searcher)
    # The kernel tells the loader the program's real place, whatever link it was started by.
    main = MappedObject(
        number=0,
        path=path,
        file=file,
        elf=elf,
        origin=posixpath.dirname(file.path) or "/",
        by=None,
        how="the program",
    )
    closure.objects.append(main)
    closure.loader = _loader_itself(view, elf)
    if not setting.secure:
        for name in setting.preload:
            if closure.load(name, main) is None:
                closure.ignored.append(name)
    for name in view.preloads():  # more rights do not keep them away
        if closure.load(name, main) is None:
            closure.ignored.append(name)
    closure.unreadable.clear()  # a preload that cannot be loaded is only warned of
    closure.follow(0)
    return closure


def _interpreter(view: FileView, elf: ElfFile) -> Interpreter:
    path = elf.interpreter or usual_interpreter(elf)
    file = view.look(path) if path else None
    if file is None:
        return Interpreter(path=path, glibc="ld-musl" not in path)
    return interpreter_of(path, view.traces(file))


# System V psABI supplements: the loader of each architecture, for libraries, which name none.
_LOADERS = {
    "x86_64": "/lib64/ld-linux-x86-64.so.2",
    "aarch64": "/lib/ld-linux-aarch64.so.1",
    "ppc64": "/lib64/ld64.so.2",
    "s390x": "/lib/ld64.so.1",
    "riscv": "/lib/ld-linux-riscv64-lp64d.so.1",
    "i386": "/lib/ld-linux.so.2",
}


def usual_interpreter(elf: ElfFile) -> str:
    """Return the path of glibc's loader for the machine of an object, empty if unknown."""
    return _LOADERS.get(elf.machine, "")


def _loader_itself(view: FileView, elf: ElfFile) -> Hit | None:
    """Return the loader's own file: it is there before everything and answers to its SONAME."""
    path = elf.interpreter or usual_interpreter(elf)
    file = view.look(path) if path else None
    if file is None:
        return None
    return Hit(path=path, file=file, elf=view.elf(file), how="the loader itself")
