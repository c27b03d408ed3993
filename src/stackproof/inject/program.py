"""What a program asks of MPI: for which ABI it was compiled, and by which names it asks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from stackproof.core.errors import StackproofError
from stackproof.core.value import Value
from stackproof.linking.elf import ElfFile
from stackproof.linking.elf.constants import Traces
from stackproof.linking.loader import Closure, FileView, MappedObject
from stackproof.linking.loader.search import Hit
from stackproof.mpi import abi
from stackproof.mpi.abi import LibraryRole

_STARTS = ("MPI_", "PMPI_", "mpi_")
_CALL = re.compile(r"P?MPI_[A-Z]\w+")
# Further libraries of Open MPI, MPICH and Intel MPI that call their own MPI; a user's library may
# be called `libmpi` and anything.
_OF_MPI = re.compile(
    r"lib(?:mpi(?:ch)?(?:cxx|fort(?:_abi)?|f90|java|g[fi])?|mpi_(?:abi|cxx|java|mpifh|usempi\w*|"
    r"ilp64|mt|dbg|shm_heap_proxy|gtl_\w+)(?:-\w+)?|oshmem|ompitrace|ompi_\w+|mca_\w+)\.so[.\d]*"
)


class Demand(Value):
    """The ABI of a program.

    `shown` is what shows it, by file; `promised` is what the names of the libraries promise, which
    counts only where nothing shows. `users` are the objects that call MPI and are none of its own;
    `names` the names of MPI libraries that they ask for. `is_module` says that a program opens it,
    which may ask for any of `host_names` where the module asks for none: MPIs of the system.
    `opens` are names and paths of MPIs that a program opens itself, where nothing of it calls MPI.
    """

    abis: tuple[str, ...]
    shown: tuple[tuple[str, str], ...]
    promised: str | None
    users: tuple[MappedObject, ...]
    names: tuple[str, ...]
    is_module: bool = False
    host_names: tuple[str, ...] = ()
    opens: tuple[str, ...] = ()

    @property
    def abi(self) -> str | None:
        """Return the ABI, by what shows or else by what names promise."""
        return self.abis[0] if self.abis else self.promised


def demand_of(view: FileView, closure: Closure, opens: tuple[str, ...] = ()) -> Demand:
    """Return the demands of a program and its own libraries on MPI.

    `opens` are libraries that the text of a script names, for the program that runs it.
    """
    users = [loaded for loaded in closure.objects if _calls(loaded.elf) and not _is_mpi(loaded)]
    found: dict[str, None] = {}
    shown = []
    # A tool in front of the MPI says nothing of the program: `findings.tools` judges it.
    own = [user for user in users if user is closure.program or not abi.calls_below(user.elf)]
    for loaded in own or users:
        for name, words in shown_abis(view, loaded).items():
            if name not in found:
                found[name] = None
                shown.append((loaded.path, words))
    names = _names(closure)
    asked = [edge.name.rpartition("/")[2] for edge in closure.edges]
    by_itself = (
        () if users or not closure.program.elf.is_program else _opened(view, closure.program, opens)
    )
    promised = next((entry[0].value for name in asked if (entry := abi.abi_of_name(name))), None)
    promised = promised or _promised_by(closure, by_itself)
    if not found and any(map(abi.is_plain, names)) and takes_no_handle(closure, users):
        promised = abi.Abi.MPICH  # one of the standard ABI asks for `libmpi_abi.so`
    if len(found) > 1 and "standard" in found and promised == "standard":
        found = {"standard": None}
    is_module = not closure.program.elf.is_program
    return Demand(
        abis=tuple(found),
        shown=tuple(shown),
        promised=promised,
        users=tuple(users),
        names=names,
        is_module=is_module,
        host_names=_of_the_system(view, closure) if is_module and users and not names else (),
        opens=by_itself,
    )


_TAKE_HANDLES = {
    f"MPI_{name}" for name in (
        "Allgather", "Allreduce", "Alltoall", "Barrier", "Bcast", "Cart_create", "Comm_dup",
        "Comm_rank", "Comm_size", "Comm_split", "Comm_split_type", "Gather", "Irecv", "Isend",
        "Recv", "Reduce", "Scatter", "Send", "Sendrecv",
    )
}  # fmt: skip
"""Functions that cannot be called without a communicator."""


def takes_no_handle(closure: Closure, users: Sequence[MappedObject]) -> bool:
    """Return True where all code is there, hands handles to MPI, and takes none of Open MPI.

    A module gets them from whoever opens it, and Fortran's numbers may become handles of C.
    """
    lost = (*(edge.name for edge in closure.missing), *(one.name for one in closure.unreadable))
    known = all(abi.abi_of_name(name) or abi.is_plain(name) for name in lost)
    if not closure.program.elf.is_program or not known:
        return False
    calls = {entry.name.removeprefix("P") for user in users for entry in user.elf.imports}
    return bool(calls & _TAKE_HANDLES) and not any(name.endswith("_f2c") for name in calls)


def _promised_by(closure: Closure, names: tuple[str, ...]) -> str | None:
    """Return the ABI of what a program opens, by the names or else by where a plain one leads."""
    for name in names:
        if promise := abi.abi_of_name(name.rpartition("/")[2]):
            return promise[0].value
    for name in names:
        hit = closure.searcher.find(name, [closure.program], closure.program)
        known = abi.family_of(hit.elf) if isinstance(hit, Hit) else None
        if known is not None:
            return known[0].abi
    return None


def _opened(view: FileView, program: MappedObject, told: tuple[str, ...]) -> tuple[str, ...]:
    """Return the MPIs that a program opens by a name or path which stands in it."""
    if not told and {"dlopen", "dlsym"} <= {entry.name for entry in program.elf.imports}:
        told = traces_of(view, program).opened
    named = ((path, path.rpartition("/")[2]) for path in told)
    return tuple(path for path, name in named if abi.is_plain(name) or _is_main(name))


def _is_main(name: str) -> bool:
    promise = abi.abi_of_name(name)
    return promise is not None and promise[1] is LibraryRole.MAIN


def _of_the_system(view: FileView, closure: Closure) -> tuple[str, ...]:
    """Return the names of MPIs that every program of a system gets without a path of its own."""
    searcher = closure.searcher
    found = {*view.cache(searcher.interpreter.cache)}
    folders = () if found else searcher.interpreter.folders
    for folder in (*searcher.setting.library_path, *folders):
        found.update(view.listing(folder))
    return tuple(name for name in sorted(found) if _is_main(name))


def shown_abis(view: FileView, loaded: MappedObject) -> dict[str, str]:
    """Return the ABIs that an object was compiled for, and what shows each."""
    traces = traces_of(view, loaded)
    families = abi.FAMILIES.values()
    shown = ((family.abi, family.used_by(loaded.elf, traces)) for family in families)
    return {name: words for name, words in shown if words}


def traces_of(view: FileView, loaded: MappedObject) -> Traces:
    """Return what code and constants of an object tell, nothing where they cannot be read."""
    try:
        return view.traces(loaded.file)
    except StackproofError:
        return Traces()


def configured_for(view: FileView, objects: Iterable[MappedObject]) -> str:
    """Return the folder that an Open MPI among objects was configured for, empty for none."""
    inner = ("libopen-pal.", "libopen_mpi.")
    own = (one for one in objects if one.soname.startswith(inner))
    return next((prefix for one in own if (prefix := traces_of(view, one).prefix)), "")


def calls_mpi(elf: ElfFile, name: str = "") -> bool:
    """Return whether an object calls MPI and is no part of an MPI itself.

    `name` is the file's, which counts where it has no SONAME.
    """
    return _calls(elf) and not is_mpi(elf, name)


def _calls(elf: ElfFile) -> bool:
    return any(
        entry.name.startswith(_STARTS)  # most names are none, and this is the quickest to tell
        and (_CALL.fullmatch(entry.name) or abi.is_fortran_call(entry.name))
        for entry in elf.imports
    )


def is_mpi(elf: ElfFile, name: str = "") -> bool:
    """Return whether an object belongs to an MPI: by what it exports, or by its SONAME."""
    soname = elf.soname or name
    named = _OF_MPI.fullmatch(soname) is not None or abi.abi_of_name(soname) is not None
    return (named and not elf.is_program) or abi.family_of(elf) is not None


def _is_mpi(loaded: MappedObject) -> bool:
    return is_mpi(loaded.elf, loaded.path.rpartition("/")[2])


def _names(closure: Closure) -> tuple[str, ...]:
    """Return the names of MPI libraries that are asked for, of those that are no release's own.

    What only another part of an MPI asks for counts too: a Fortran library may stay and its main
    library be replaced. A name may lead to a text for the linker, where the loader ends.
    """
    names = []
    for name in (*(e.name for e in closure.edges), *(b.name for b in closure.unreadable)):
        promise = abi.abi_of_name(name)
        if abi.is_plain(name) or (promise is not None and promise[1] is not LibraryRole.INNER):
            names.append(name)
    return tuple(dict.fromkeys(names))
