"""What an MPI family is: one record with all that other rooms ask about it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from stackproof.core.command import EnvPatch
from stackproof.core.errors import Reason, fail
from stackproof.core.value import Value
from stackproof.mpi.requirement import Requirement

# ------------------------------------ Versions as users write them, turned into PEP 440 specifiers

# A release with three numbers is exact for every family here: 5.0.11, 4.3.1, 2021.18.1.
_EXACT_NUMBERS = 3
_VERSION = re.compile(r"(\d+(?:\.\d+)*)((?:a|b|rc)\d+)?(\.post\d+)?")


def specifier_of(version: str | None) -> str:
    """Return the specifier of a version: `==5.0.11`, `==5.0.*` for a prefix, empty for None.

    Raises `StackproofError` (INVALID_VALUE) when the text is not a version.
    """
    if version is None:
        return ""
    match = _VERSION.fullmatch(version)
    if match is None:
        raise fail(
            Reason.INVALID_VALUE,
            f"`{version}` is not a version",
            hint="write numbers separated by dots, such as `5.0.11`, or the first of them, `5.0`",
        )
    numbers, suffixes = match[1], (match[2] or "") + (match[3] or "")
    exact = bool(suffixes) or numbers.count(".") + 1 >= _EXACT_NUMBERS
    return f"=={version}" if exact else f"=={version}.*"


class Forced(Value):
    """How a family is made to take one transport: the first release that obeys, and variables.

    `{provider}` stands for libfabric's, where that depends on more than the transport. With `lo`
    false the family does not reach ranks by the loopback interface.
    """

    since: tuple[int, ...]
    set: Mapping[str, str] = {}
    lo: bool = True


class GpuSwitch(Value):
    """A variable that has a family take buffers in the memory of some GPUs, and since when."""

    name: str
    value: str = "1"
    since: tuple[int, ...]
    memory: frozenset[str] = frozenset({"cuda", "rocm"})


class LogForms(Value):
    """How a family is recognised in what jobs print; patterns of regular expressions.

    `speaks` finds lines by which it complains itself, under the name `component`; `words` are those
    that no other family has but the one it was made of, and `version` has the release as its group.
    """

    component: str
    speaks: str
    words: str
    version: str


class InfoProgram(Value):
    """A program of a family that says what it is: its words, and how the answer is read.

    `version` has the release as its group; an answer with `foreign` in it is another family's, in
    capitals, and `ofi` is what one has that was built for libfabric, empty where it does not say.
    """

    argv: tuple[str, ...]
    version: re.Pattern[str]
    foreign: str = ""
    ofi: str = ""


class LibraryMarks(Value):
    """What tells the main library of a family among those of its ABI, each empty for nothing.

    `beside` begins the name of a library that is loaded with it, `path` finds where it lies, `word`
    is one of its constants. `maker` is a word in the constants of one that all others lack, and
    `release` the beginning of its releases, where those of others begin otherwise.
    """

    beside: str = ""
    path: re.Pattern[str] | None = None
    word: bytes = b""
    maker: str = ""
    release: str = ""


class MpiFamily(Value):
    """One MPI implementation, whatever its version.

    `abi` is the binary interface (`mpich` or `openmpi`): a program runs on every family of the ABI
    it was compiled for; from the release `new_abi_from` on the library has another soname. `banner`
    is the beginning of what `MPI_Get_library_version` gives, with the version as its group.
    `launcher` is a name in `stackproof.launch.launchers`, `compiler` the C wrapper in `bin/`.

    `distributions` are those of a package index that hold the family, empty where there are none,
    of the release `default_version` where no other is asked for. `variables` are what a tree needs
    besides its search paths, `{prefix}` standing for where it is.

    `pmi` is by which interface its ranks find each other, by launcher; `pmi_variables` are what
    keeps an exchange by PMI short enough for a launcher. `nic_variables` have it use one NIC,
    `{map}` standing for which ranks of a node use which (`0:0,1;1:2,3`); empty where libfabric
    itself is told the NIC. `variable_prefix` begins the names of variables that it alone reads.
    `interface_variables` pin its own way to TCP to a network interface, `provider_variables` are
    its own lists of libfabric's providers, and `libfabric_variable` names the file of another
    libfabric than the one that it brings along.

    `paths` are how each transport in `stackproof.mpi.transports` is forced on it, `gpu_switches`
    what buffers of GPUs need, and `wheels_lack` the GPUs that its distributions were built without.
    `made_of` is the family whose sources it goes on from, `marks` tell its library from that one's;
    `log` and `info` are how it is recognised by what jobs and its own program print. `ofi_plug_in`
    begins the name of the file by which it reaches libfabric, where that is a file of its own.
    `spack` are its packages in Spack, its own first, with the first release that has the ABI of
    today, empty where all have; `easybuild` is its name there. `programs` are benchmarks that come
    with it, and `parts` names of its libraries for other languages than C in containers. With
    `vendor` nobody but the machine's vendor has it; EasyBuild builds those with `chain` from source
    (`build/engines/easybuild`). `evidence` is the module whose `PROBE` reads its words about paths,
    empty where it has none.
    """

    name: str
    title: str
    abi: str
    launcher: str
    banner: re.Pattern[str]
    compiler: str = "mpicc"
    new_abi_from: int | None = None
    distributions: tuple[str, ...] = ()
    default_version: str | None = None
    variables: Mapping[str, str] = {}
    pmi: Mapping[str, str] = {}
    pmi_variables: Mapping[str, Mapping[str, str]] = {}
    nic_variables: Mapping[str, str] = {}
    interface_variables: tuple[str, ...] = ()
    variable_prefix: str = ""
    provider_variables: tuple[str, ...] = ()
    libfabric_variable: str = ""
    paths: Mapping[str, Forced] = {}
    gpu_switches: tuple[GpuSwitch, ...] = ()
    wheels_lack: Mapping[str, tuple[str, ...]] = {}
    made_of: str = ""
    marks: LibraryMarks = LibraryMarks()
    log: LogForms | None = None
    info: InfoProgram | None = None
    ofi_plug_in: str = ""
    spack: Mapping[str, str] = {}
    easybuild: str = ""
    programs: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    vendor: bool = False
    chain: bool = False
    evidence: str = ""

    def wheels(self, version: str | None) -> tuple[Requirement, ...]:
        """Return the distributions to obtain; empty when there is no wheel of this family.

        `version` is exact (`5.0.11`) or a prefix (`5.0`), None for the family's default. Raises
        `StackproofError` (INVALID_VALUE) when it is not a version.
        """
        specifier = specifier_of(version or self.default_version)
        return tuple(Requirement(name=name, specifier=specifier) for name in self.distributions)

    def environment(self, prefix: str) -> EnvPatch:
        """Return the variables that a tree installed at `prefix` needs to compile and to run.

        `LD_LIBRARY_PATH` beats the run path of a program, so that programs compiled for another
        family of the same ABI get this library.
        """
        return EnvPatch(
            set={name: text.replace("{prefix}", prefix) for name, text in self.variables.items()},
            prepend={"PATH": (f"{prefix}/bin",), "LD_LIBRARY_PATH": (f"{prefix}/lib",)},
        )

    def identify(self, library_version: str) -> str | None:
        """Return the version when this family printed the text, else None.

        The text is what `MPI_Get_library_version` gives.
        """
        match = self.banner.match(library_version.lstrip())
        return match[1] if match else None

    def abi_of(self, version: str | None) -> str:
        """Return the ABI of a release; where none is said, that of releases before a change."""
        first = (version or "").partition(".")[0]
        since = self.new_abi_from
        new = since is not None and first.isdecimal() and int(first[:9]) >= since
        return f"{self.abi}-{since}" if new else self.abi
