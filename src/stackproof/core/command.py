"""Programs and environments as values: what will be run, where, with what.

Nothing here runs anything; `stackproof.core.effects.run` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import field

from stackproof.core import environment as environments
from stackproof.core.value import Value

if TYPE_CHECKING:
    from stackproof.core.environment import AnyChange


class EnvPatch(Value):
    """A change to an environment: scalars set or unset, list variables extended.

    First variables are unset, then set, then the list variables extended. List variables are
    colon-separated. The result has no empty and no repeated entries (the first one stays), as the
    uenv tools do; a list that ends up without entries is unset, since an empty PATH-like variable
    means the current folder to many programs.
    """

    set: Mapping[str, str] = field(default_factory=dict)
    unset: tuple[str, ...] = ()
    prepend: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    append: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def apply(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Return `environment` with this patch applied; the argument stays as it is."""
        return environments.applied(self, environment)

    def then(self, later: EnvPatch) -> EnvPatch:
        """Return one patch that does this one and then `later`.

        For every environment `e`: `a.then(b).apply(e) == b.apply(a.apply(e))`.
        """
        return EnvPatch.of(environments.joined(self, later))

    @classmethod
    def of(cls, change: AnyChange) -> EnvPatch:
        """Return a change as a noun."""
        return cls(set=change.set, unset=change.unset, prepend=change.prepend, append=change.append)


class Bind(Value):
    """A path of the host as seen in a sandbox."""

    source: str
    target: str
    writable: bool = False


class Sandbox(Value):
    """A closed view of the machine: nothing is visible but these binds.

    `scratch` are empty in-memory folders; `network` is off unless a step fetches.
    """

    binds: tuple[Bind, ...] = ()
    scratch: tuple[str, ...] = ("/tmp",)  # noqa: S108 - a private tmpfs inside the sandbox
    links: Mapping[str, str] = field(default_factory=dict)
    network: bool = False


class Command(Value):
    """One program to run: argv only, never a shell line.

    The environment starts empty but for PATH, HOME, LANG and TMPDIR; `env` is applied on top.
    """

    argv: tuple[str, ...]
    cwd: str | None = None
    env: EnvPatch = field(default_factory=EnvPatch)
    timeout_s: float | None = None
    sandbox: Sandbox | None = None
    ok: tuple[int, ...] = (0,)


class Completed(Value):
    """How a command ended; `returncode` is negative for a signal, as in `subprocess`."""

    argv: tuple[str, ...]
    returncode: int
    stdout: bytes
    stderr: bytes
    seconds: float
    timed_out: bool = False
