"""The builder of a vendor's stacks: the folder of RPMs, the machine, and libraries read again."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from stackproof.build.effects import builders, executor, stacks
from stackproof.build.effects.builders import Reading, Solving
from stackproof.build.effects.loaded import Loaded
from stackproof.build.effects.workspace import BuildSetup, Installing
from stackproof.build.engine import Findings
from stackproof.build.engines.vendor import releases, rpm, selection
from stackproof.build.engines.vendor.effects import folder
from stackproof.build.engines.vendor.effects import folder as folders
from stackproof.build.engines.vendor.engine import ENGINE, ReadRpm, make_lock, parse_vendor_recipe
from stackproof.build.engines.vendor.selection import LibraryChange
from stackproof.build.engines.vendor.stack import VendorLock, VendorStack
from stackproof.build.options import BuildOptions
from stackproof.build.plan import Plan
from stackproof.build.swap import RecipeOverlay, SwapWord
from stackproof.core.command import Bind
from stackproof.core.document import Document
from stackproof.core.effects import files, run
from stackproof.core.effects.sandbox import package_hint
from stackproof.core.errors import Location, Problem, Reason, StackproofError, fail
from stackproof.core.monitor import Event, Monitor
from stackproof.core.value import Value
from stackproof.linking import elf
from stackproof.linking.effects.view import RootView
from stackproof.linking.elf import MAGIC, ElfFile

# --------------------------------------------------------------------------------------------------
# The step that changes libraries, and each of them read again: patchelf does what it was asked.

_SAME = (
    "exports",
    "more_exports",
    "imports",
    "version_definitions",
    "objects",
    "soname",
    "machine",
)


def installer(
    stack: VendorStack, lock: VendorLock, blobs: Mapping[str, Path]
) -> Callable[[Installing, Monitor], None]:
    """Return what runs the command of the step and reads all libraries of a lock afterwards.

    `blobs` are the files as they came, by digest. It raises `StackproofError` (BUILD_FAILED) for a
    library in which more changed, or less, than was asked for.
    """
    digests = {one.target: one.sha256 for package in lock.packages for one in package.files}
    asked = selection.changes(stack, lock)

    def install(job: Installing, monitor: Monitor) -> None:
        run.check(job.command, log=job.log)
        for target, change in asked.items():
            before, after = (
                _reading_back_read(blobs[digests[target]]),
                _reading_back_read(job.space.store / target),
            )
            if not is_as_asked(before, after, change):
                raise fail(
                    Reason.BUILD_FAILED,
                    "patchelf changed more, or less, than names and the search path",
                    where=Location(file=target),
                    hint="use another release of patchelf: some damage libraries",
                )
        text = f"{len(asked)} libraries and programs read again"
        monitor(Event(what="progress", name=job.step.name, text=text))

    return install


def _reading_back_read(path: Path) -> ElfFile:
    with folder.opened(path) as source:
        return elf.read(source)


def is_as_asked(before: ElfFile, after: ElfFile, change: LibraryChange) -> bool:
    """Return whether a library differs from what it was in what was asked for, and no more."""
    needed = [change.replace.get(name, name) for name in before.needed]
    versions = [
        need._replace(library=change.replace.get(need.library, need.library))
        for need in before.version_needs
    ]
    return (
        all(getattr(before, word) == getattr(after, word) for word in _SAME)
        and sorted(after.needed) == sorted((*needed, *change.add))
        and [name for name in after.needed if name not in change.add] == needed
        and list(after.version_needs) == versions
        and (after.rpath, after.runpath) == (change.rpath, None)
    )


_HANDED_ON = "HPE lets nobody hand on what its RPMs hold"
_LIBRARIES = ("lib64", "lib")
_LOADER_CACHE = "/etc/ld.so.cache"
_DEFAULT_FOLDERS = ("/lib64", "/usr/lib64", "/lib", "/usr/lib")


class RpmFolder(Value):
    """The folder that a user named, None for none; `elsewhere` where the stack is for a site."""

    path: Path | None
    elsewhere: bool = False


class VendorBuilder(builders.MirrorlessBuilder):
    """See `Builder`."""

    engine = ENGINE
    lock_kind = VendorLock
    solving = Solving.FILES
    refused: Mapping[str, Problem] = {
        "mirror": Problem(
            reason=Reason.USAGE,
            message="`--mirror` is for sources, and this recipe is of a vendor's RPMs",
            hint="name their folder with --from",
        ),
        "on": builders.NO_NODES,
        "build-dir": builders.build_dir_problem("RPMs", "they are put together"),
        "mirror create": Problem(
            reason=Reason.UNSUPPORTED,
            message=f"a mirror would hand on RPMs, and {_HANDED_ON}",
            hint="name the folder that your site has of them: --from DIR",
        ),
        "containerfile": Problem(
            reason=Reason.UNSUPPORTED,
            message=f"a Containerfile brings all that is in it, and {_HANDED_ON}",
            hint="give the container the MPI of the machine that it runs on: "
            "`stackproof inject check --root IMAGE --with PREFIX`",
        ),
    }

    def swap(self, document: Document, word: SwapWord) -> RecipeOverlay:
        """See `Builder`: a vendor's MPI is what its RPMs hold."""
        del document
        hint = "another release is `mpi: version`; another MPI is put under the image's programs "
        hint += "where they run: `run --inject`"
        raise StackproofError(word.problem("the recipe is of a vendor's RPMs as they are", hint))

    def load(self, reading: Reading) -> Loaded:
        """See `Builder`; a site says where it has the libraries that no RPM brings."""
        composed = reading.require_file()
        site = reading.options.site
        facts = stacks.build_facts(reading.options, composed)
        stack = parse_vendor_recipe(composed.document, facts, _folders_of(site))
        named = reading.options.rpms
        own = composed.document.data.get("from")
        place = Path(named) if named else reading.path.parent / own if own else None
        return Loaded(
            path=reading.path,
            document=composed.document,
            composed=composed,
            stack=stack,
            given_caches=RpmFolder(path=place, elsewhere=site is not None),
            notes=stacks.undecided(composed),
            variant=stacks.variant_of_architecture(composed, stack.architecture),
        )

    def check(self, loaded: Loaded, lock: VendorLock | None, *, whole: bool) -> Findings:
        """See `Builder`: programs, the C library, and every soname that no RPM brings."""
        found = Findings(problems=() if whole else _programs(loaded.stack, lock))
        if lock is None:
            return found if loaded.given_caches.path else found.also(notes=(_no_folder(),))
        lacking = _lacking(loaded, lock)
        if loaded.given_caches.elsewhere:
            return found.also(notes=lacking)
        drivers = tuple(p for p in lacking if p.reason is Reason.UNSUPPORTED)
        return found.also(tuple(p for p in lacking if p not in drivers), drivers)

    def solve(self, loaded: Loaded, options: BuildOptions, monitor: Monitor) -> VendorLock:
        """See `Builder`: headers of all RPMs, and the files of those that are chosen."""
        del options
        stack: VendorStack = loaded.stack
        place = _folder_of(loaded)
        monitor(Event(what="started", name="resolve", text=f"the RPMs in {place}"))
        rpms, damage = folders.read(place)
        try:
            chosen = selection.select(rpms, stack, str(place))
        except StackproofError as error:
            raise StackproofError(*error.problems, *damage) from None
        lock = make_lock(stack, chosen, tuple(_read(place, product) for product in chosen.products))
        missing = selection.missing(stack, lock)
        if missing:
            raise StackproofError(*missing, *damage)
        for problem in damage:
            monitor(Event(what="note", name="passed over", text=str(problem.worded("note"))))
        listed = ", ".join(one.name for one in lock.packages)
        monitor(Event(what="done", name="resolve", text=listed))
        return lock

    def setup(
        self,
        loaded: Loaded,
        lock: VendorLock,
        plan: Plan,
        options: BuildOptions,
        monitor: Monitor,
    ) -> BuildSetup:
        """See `Builder`; the RPMs are asked for again where the cache has lost their files."""
        del options, monitor
        if executor.is_finished(plan):
            return BuildSetup(movable=False)
        blobs: dict[str, Path] = {}
        for package in lock.packages:
            place = folders.in_cache(package.sha256)
            if place is None:
                place = _unpacked_again(_folder_of(loaded), package.filename, package.sha256)
            blobs |= {one.sha256: place / one.sha256 for one in package.files if one.kind != "link"}
        stack: VendorStack = loaded.stack
        return BuildSetup(
            blobs=blobs,
            binds=tuple(
                Bind(source=path, target=path)
                for path in stack.libraries
                if os.path.isdir(path) and not path.startswith("/usr/")
            ),
            movable=False,
            install=installer(stack, lock, blobs),
        )


BUILDER = VendorBuilder()


def _folders_of(site: str | None) -> tuple[str, ...]:
    """Return the folders of libraries that a site names among its `externals`."""
    if site is None:
        return ()
    from stackproof.site.effects.probe import load_site  # noqa: PLC0415 - only with --site

    found = []
    for external in load_site(site).externals.values():
        if external.path:
            roots = (external.path, f"{external.path}/{external.version}")
            found += [f"{root}/{name}" for root in roots[::-1] for name in _LIBRARIES]
    return tuple(path for path in found if not path.startswith(("/usr/lib", "/lib")))


def _folder_of(loaded: Loaded) -> Path:
    place: Path | None = loaded.given_caches.path
    if place is None:
        raise StackproofError(_no_folder())
    return place


def _no_folder() -> Problem:
    return Problem(
        reason=Reason.FILE_MISSING,
        message="it is not said where the RPMs of Cray MPICH are",
        hint="name the folder that the site has of them: --from DIR, or `from` in the recipe",
    )


def _read(folder: Path, product: selection.Product) -> ReadRpm:
    path = folders.find(folder, product.rpm.file)
    sha256 = files.sha256(path)
    place, found = folders.unpacked(path, product, sha256)
    return ReadRpm(
        product=product, sha256=sha256, files=found.files, elfs=dict(_elfs(place, found.files))
    )


def _elfs(place: Path, digests: Mapping[str, str]) -> Mapping[str, ElfFile]:
    found = {}
    for path, sha256 in digests.items():
        if sha256 not in found and not path.endswith(".a"):
            with folders.opened(place / sha256) as source:
                if source.read(0, len(MAGIC)) == MAGIC:
                    found[sha256] = elf.read(source)
    return found


def _unpacked_again(folder: Path, filename: str, sha256: str) -> Path:
    """Return the files of a locked RPM; raises `StackproofError` (DIGEST_MISMATCH) for another."""
    path = folders.find(folder, filename)
    found = files.sha256(path)
    if found != sha256:
        raise fail(
            Reason.DIGEST_MISMATCH,
            f"`{filename}` is not the file that was locked",
            detail=f"locked sha256 {sha256}\nfound  sha256 {found}",
            hint="find out why before you make a new lock with `stackproof build --update`",
        )
    with folders.opened(path) as source:
        product = selection.products(rpm.parse(source))
    if product is None:
        raise TypeError(f"{filename} was locked and holds none of the products")
    return folders.unpacked(path, product, sha256)[0]


def _programs(stack: VendorStack, lock: VendorLock | None) -> tuple[Problem, ...]:
    """Return the programs that a build runs and this machine lacks."""
    wanted = {"patchelf": package_hint("patchelf")}
    if stack.benchmarks:
        compiler = (lock.compiler if lock else stack.compiler).partition("-")[0]
        program = releases.COMPILERS[compiler][0]
        wanted[program] = (
            "the benchmark is compiled with it: load it, or write `benchmarks: []` into the recipe"
        )
    return tuple(
        Problem(
            reason=Reason.TOOL_MISSING,
            message=f"the build needs `{program}`, which is not installed",
            hint=hint,
        )
        for program, hint in wanted.items()
        if shutil.which(program) is None
    )


def _lacking(loaded: Loaded, lock: VendorLock) -> tuple[Problem, ...]:
    """Return what of a lock this machine lacks; a driver, which few have, as UNSUPPORTED."""
    stack: VendorStack = loaded.stack
    view = RootView()
    found = []
    for name, user in selection.outside(stack, lock).items():
        place = _place_of(view, name, stack)
        fault = "is not on this machine"
        if place:
            file = view.look(place)
            known = {one.name for one in view.elf(file).version_definitions} if file else set()
            lost = [one for one in selection.wanted_versions(lock, name) if one not in known]
            if not lost:
                continue
            fault = f"is an older one here: `{place}` has no {lost[-1]}"
        whose = releases.site_package(name)
        driver = releases.is_driver(name)
        found.append(
            Problem(
                reason=Reason.UNSUPPORTED if driver else Reason.TOOL_MISSING,
                message=f"`{name}`, which `{user}` needs and no RPM of Cray MPICH brings, {fault}"
                + (f"; it is of {whose}" if whose else ""),
                hint="jobs need it, on nodes with a GPU"
                if driver
                else "install it, or name the folder that has it: `libraries: [DIR]` in the recipe",
            )
        )
    glibc, user = selection.floor(lock)
    here = os.confstr("CS_GNU_LIBC_VERSION") or ""
    if releases.number(glibc) > releases.number(here):
        found.append(
            Problem(
                reason=Reason.TOOL_MISSING,
                message=f"`{user}` needs glibc {glibc}, and this machine has {here}",
                hint="take RPMs for this system's release (`.sles15sp5.` in their names)",
            )
        )
    return tuple(found)


def _place_of(view: RootView, name: str, stack: VendorStack) -> str:
    """Return where this machine has a library, empty for nowhere: where the loader looks."""
    cached = (entry.path for entry in view.cache(_LOADER_CACHE).get(name, ()))
    places = (
        *(f"{folder}/{name}" for folder in stack.libraries),
        *cached,
        *(f"{folder}/{name}" for folder in _DEFAULT_FOLDERS),
    )
    for place in places:
        file = view.look(place)
        if file is not None and view.elf(file).machine == stack.architecture:
            return place
    return ""
