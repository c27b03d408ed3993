"""A question about an injection, and one attempt at it: the subject of findings."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import field

from stackproof.core.value import Value, replace
from stackproof.inject.model import Way
from stackproof.inject.program import Demand
from stackproof.inject.releases import Releases, nothing_known
from stackproof.inject.replacement import Main, Replacement
from stackproof.inject.startup import Startup
from stackproof.linking.loader import (
    Closure,
    FileView,
    LoaderSettings,
    Machine,
    MappedObject,
    Scope,
)
from stackproof.mpi import requirement


class Question(Value):
    """What is asked beside program and replacement.

    `setting` is how the program is started now; `beside` says that links may be made beside the
    libraries of the replacement; `launcher` is a name in `starting.OFFERS`, or empty,
    and `launcher_file` its path, where that was named;
    `namespaces` is `per-rank`, `per-node` or `none`; `with_plugins` looks at plug-ins too.
    `releases` is asked only when a version is missing. With `before`, a view without the
    injection, what is in place in the other one is judged, and no way is tried. `startup` is what a
    script does before the program runs, `opens` the libraries that its text opens; `compiled` the
    family and the release of the MPI that programs were compiled with.
    """

    machine: Machine
    setting: LoaderSettings = field(default_factory=LoaderSettings)
    beside: bool = False
    launcher: str = ""
    launcher_file: str = ""
    namespaces: str = "none"
    with_plugins: bool = True
    releases: Callable[[], Releases] = nothing_known
    before: FileView | None = None
    startup: Startup | None = None
    opens: tuple[str, ...] = ()
    compiled: tuple[str, str] | None = None

    def changed(
        self, folders: tuple[str, ...] = (), preload: tuple[str, ...] = ()
    ) -> LoaderSettings:
        """Return the loader's settings where variables have these words, after earlier steps."""
        startup, setting = self.startup or Startup(), self.setting
        kept = () if startup.dropped else (*folders, *setting.library_path)
        loaded = () if startup.preload_anew else (*setting.preload, *preload)
        return replace(
            setting,
            library_path=(*startup.first, *kept, *startup.last),
            preload=(*startup.preloads, *loaded),
        )


class InjectionAttempt(Value):
    """One attempt: the closures without and with the injection, and what they are about.

    `scope` has the definitions of the closure with it. `question` has the setting that counts for
    the program, and `way` the links that are asked for, of all `links` that were made.
    """

    view: FileView
    before: Closure
    after: Closure
    scope: Scope
    replacement: Replacement
    main: Main | None
    demand: Demand
    question: Question
    way: Way
    links: Mapping[str, str]

    def owns(self, path: str) -> bool:
        """Return whether a path is of the replacement, or a link of ours to it."""
        return path in self.links or self.replacement.owns(path)

    def is_injected(self, loaded: MappedObject) -> bool:
        """Return whether an object is of the replacement, under whatever name."""
        own = self.main is not None and loaded.file.identity == self.main.file.identity
        return own or self.owns(loaded.path) or self.replacement.owns(loaded.file.path)

    def environment(self, *, relocated: bool) -> dict[str, str]:
        """Return the variables of its way, with what the program is started with behind them."""
        way, setting = self.way, self.question.setting
        environment = {}
        if way.library_path or setting.library_path:
            environment["LD_LIBRARY_PATH"] = ":".join((*way.library_path, *setting.library_path))
        if way.preload:
            # A tool that stands before the MPI stays before it.
            environment["LD_PRELOAD"] = ":".join((*setting.preload, *way.preload))
        homes = requirement.OPEN_MPI if relocated else ()
        return environment | dict.fromkeys(homes, self.replacement.home)
