"""Variables of a job, held against what its MPI, its release and its fabric make of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from stackproof.core.versions import Versions, versions
from stackproof.knowledge.evidence import Evidence, Pieces, relevant
from stackproof.knowledge.model import Knowledge
from stackproof.mpi import families
from stackproof.mpi.families.cray_mpich import CRAY_MPICH
from stackproof.site.model import VendorMpi

# ----------------------------------- Names and values of variables to those that somebody mistyped
# A name is mistyped where nothing is known of it and one slip of the hand makes it a known one;
# then nobody reads it, and nobody says so.

_INTERFACES = (
    "OMPI_MCA_btl_tcp_if_include", "OMPI_MCA_oob_tcp_if_include", "PRTE_MCA_prte_if_include",
    "FI_TCP_IFACE", "UCX_NET_DEVICES", "HYDRA_IFACE", "I_MPI_HYDRA_IFACE", "GLOO_SOCKET_IFNAME",
    "NCCL_SOCKET_IFNAME",
)  # fmt: skip
"""Variables that name interfaces, with commas between them; NCCL takes beginnings of names."""
_INTERFACE = re.compile(r"[a-z][a-z0-9_.-]*")
_NO_INTERFACES = re.compile(r"all$|mlx|any$|lo$")
_READ = re.compile(r"^(?:FI_|(?:OMPI|PRTE|PMIX)_MCA_|MPIR_CVAR_|MPICH_|I_MPI_|UCX_|CXI_|MV2_|MVP_)")
_FRAMEWORK = re.compile(r"^(OMPI_MCA_[a-z]+)(?:_.*)?$")
_SHORTEST = 5
"""Characters of a name below which one slip makes it anything."""


def of_spelling(variables: Mapping[str, str], knowledge: Knowledge) -> Evidence:
    """Return whether variables have names, or values, that are almost known ones."""
    pieces = Pieces("every variable that is known")
    for fact, found in (
        ("names-misspelt", _names(variables, knowledge)),
        ("values-unknown", _values(variables, knowledge)),
        ("values-quoted", _quoted(variables)),
    ):
        text = "; ".join(found)
        pieces.fact(fact, bool(text), text)
    return pieces.evidence()


def _names(variables: Mapping[str, str], knowledge: Knowledge) -> Iterator[str]:
    known = {name for setting in knowledge.settings for name in setting.names}
    for name in sorted(variables):
        match = _FRAMEWORK.match(name)
        if match and match[1] in known:
            continue  # a parameter of a framework or of one of its components
        beginning = match[1] if match else name
        if name in known or not _READ.match(name):
            continue
        near = [one for one in known if one_slip(beginning, one)]
        if near:
            rest = name.removeprefix(beginning)
            yield f"{name} is read by nobody: {' or '.join(one + rest for one in sorted(near))}?"


def _values(variables: Mapping[str, str], knowledge: Knowledge) -> Iterator[str]:
    for setting in knowledge.settings:
        for name in setting.names if setting.allowed else ():
            value = variables.get(name)
            if value is not None and value.lower() not in setting.allowed:
                yield f"{name}={value} is none of {', '.join(setting.allowed)}"


def _quoted(variables: Mapping[str, str]) -> Iterator[str]:
    for name, value in sorted(variables.items()):
        if _IN_QUOTES.search(value):
            yield f"{name}={value} has quotes in its value"


_IN_QUOTES = re.compile(r"""^\s*["'].*["']\s*$|^[^"']*"[^"]*$|"'|'\"""")


def one_slip(one: str, other: str) -> bool:
    """Return whether a letter too many, too few, another or two exchanged tell two names apart.

    Another digit is another thing (`PSM2`, `PSM3`), not a slip.
    """
    if one == other or min(len(one), len(other)) < _SHORTEST or abs(len(one) - len(other)) > 1:
        return False
    start = 0
    while start < min(len(one), len(other)) and one[start] == other[start]:
        start += 1
    left, right = one[start:], other[start:]
    if len(left) == len(right):
        another = left[1:] == right[1:] and not (left[0].isdigit() or right[0].isdigit())
        return another or (left[:2] == right[1::-1] and left[2:] == right[2:])
    longer, shorter = (left, right) if len(left) > len(right) else (right, left)
    return longer[1:] == shorter and not longer[0].isdigit()


_LISTS = {
    variable: family.name
    for family in families.REGISTRY.values()
    for variable in family.provider_variables
}
"""Lists of providers that an MPI reads itself."""

_CRAY = CRAY_MPICH.name
_FITTING = {
    "slingshot-11": re.compile(r"(?:cxi|lnx|shm|shm\+cxi|self)"),
    "infiniband": re.compile(r"(?:verbs|mlx|ucx|shm|ofi_rxm|ofi_rxd|lnx|psm3|self)"),
    "ethernet": re.compile(
        r"(?:tcp|sockets|udp|net|shm|ofi_rxm|ofi_rxd|usnic|lnx|psm3|verbs|self)"
    ),
}
"""Providers that a fabric has, by the beginning of their names."""

_SUFFIXED = re.compile(r"\s*[0-9]+\s*(?P<suffix>[bkmgt](?:i?b)?)\s*", re.IGNORECASE)
_READERS = tuple(
    (re.compile(name), re.compile(suffix, re.IGNORECASE), otherwise)
    for name, suffix, otherwise in (
        ("FI_", "", "libfabric reads the digits alone"),
        ("MPIR_CVAR_", "", "MPICH takes digits alone, and does not start"),
        ("UCX_", "[bkmgt]b?", "UCX knows B, K, M, G and T, and refuses others"),
        ("(?:OMPI|PRTE|PMIX)_MCA_", "[kmg].*", "Open MPI knows K, M and G, and reads the digits"),
    )
)
"""Whose variables these are, the suffixes that it reads, and what it makes of others.

libfabric, src/var.c: strtol. MPICH, src/mpl/src/str/mpl_env.c. UCX, src/ucs/sys/string.c. Open MPI,
opal/mca/base/mca_base_var.c; a letter is enough for it. At `knowledge/sources.yaml`.
"""

_RELEASE = re.compile(r"\d+(?:\.\d+)*")
_DISPLAYED = ("CRAY_MPICH_VERSION", "PE_MPICH_VERSION")


def names_in(text: str) -> tuple[bool, tuple[str, ...]]:
    """Return true where a list leaves names out (`^` before it), and its names."""
    words = text.strip().removeprefix("^")
    names = (word.strip().lower() for word in re.split(r"[,;]", words))
    return text.strip().startswith("^"), tuple(name for name in names if name)


def mpi_on_path(variables: Mapping[str, str]) -> Evidence:
    """Return the MPI, and its release, whose folder comes first among a job's search paths.

    A folder is known by a part of its path such as `openmpi-5.0.8` or `mpich/4.3`. Those below
    /opt/cray are left out: Cray's programs lie in folders of MPICH's name.
    """
    for variable in ("PATH", "LD_LIBRARY_PATH"):
        for folder in variables.get(variable, "").split(":"):
            match = None if folder.startswith("/opt/cray/") else _ON_PATH.search(folder.lower())
            if match:
                family, release = match["family"], match["release"].rstrip(".")
                pieces = Pieces(f"{variable} has {folder}")
                pieces.version(family, release)
                pieces.fact("mpi", family)
                return pieces.evidence()
    return Evidence()


_ON_PATH = re.compile(
    rf"/(?P<family>{'|'.join(map(re.escape, families.REGISTRY))})[/_-]v?(?P<release>\d[.\d]*)"
    r"(?=[/_+-]|$)"
)


def fits_settings(
    vendor: VendorMpi | None, variables: Mapping[str, str], knowledge: Knowledge
) -> bool:
    """Return false where a job sets variables for MPIs of other ABIs than the site's own MPI."""
    family = families.REGISTRY.get(vendor.family) if vendor is not None else None
    if family is None:
        return True
    components = {
        s.component for s in knowledge.settings if not variables.keys().isdisjoint(s.names)
    }
    abis = {families.REGISTRY[name].abi for name in components & families.REGISTRY.keys()}
    return not abis or family.abi in abis


def of_another_host(variables: Mapping[str, str], host: str) -> bool:
    """Return true for the environment of a job that ran on other nodes than this host."""
    short = host.partition(".")[0]
    names = [variables.get(name, "") for name in ("SLURMD_NODENAME", "HOSTNAME")]
    hosts = [name for name in names if name]
    if hosts:
        return all(name.partition(".")[0] != short for name in hosts)
    nodes = variables.get("SLURM_JOB_NODELIST", "")
    return bool(nodes) and re.search(rf"(?:^|,){re.escape(short)}(?:,|$)", nodes) is None


def of_variables(evidence: Evidence, knowledge: Knowledge) -> Evidence:
    """Return the faults of variables' values, as far as releases and fabric are known."""
    if evidence.variables is None:
        return Evidence()
    pieces = Pieces("every variable that is known")
    for fact, found, is_known in (
        ("names-no-longer-read", _not_read(evidence, knowledge), _known_release(evidence)),
        ("own-provider-list", _of_another_fabric(evidence), False),
        ("suffix-not-read", _not_read_suffixes(evidence), True),
        ("cpe-libraries-match", _of_another_release(evidence), False),
    ):
        text = "; ".join(found)
        if text or is_known:
            pieces.fact(fact, bool(text) and fact != "cpe-libraries-match", text)
    return pieces.evidence()


def _known_release(evidence: Evidence) -> bool:
    mpi = evidence.facts.get("mpi")
    return isinstance(mpi, str) and bool(_RELEASE.fullmatch(evidence.versions.get(mpi, "")))


def _not_read(evidence: Evidence, knowledge: Knowledge) -> Iterator[str]:
    """Yield the variables that the release of the MPI does not read."""
    mpi = evidence.facts.get("mpi")
    if not isinstance(mpi, str) or not _known_release(evidence):
        return
    release = versions(f"={evidence.versions[mpi]}")
    asked = {
        name: [one for one in knowledge.settings if name in one.names and one.component == mpi]
        for name in evidence.variables or {}
    }
    for name, settings in asked.items():
        if settings and not any(_reads(one.versions, release) for one in settings):
            ranges = ", ".join(one.versions for one in settings)
            yield (
                f"{name} is read by {mpi} {ranges}, and this is {evidence.versions[mpi]}: "
                f"{settings[0].effect}"
            )


def _not_read_suffixes(evidence: Evidence) -> Iterator[str]:
    """Yield the sizes with a suffix that their reader does not know."""
    for name, value in (evidence.variables or {}).items():
        match = _SUFFIXED.fullmatch(value)
        for reader, suffix, otherwise in _READERS if match else ():
            if match and reader.match(name) and not suffix.fullmatch(match["suffix"]):
                yield f"{name}={value}: {otherwise}"


def _reads(asked: str, release: Versions) -> bool:
    return asked == ":" or release.within(versions(asked))


def _of_another_fabric(evidence: Evidence) -> Iterator[str]:
    """Yield the MPI's own lists of providers of which none is one of this fabric."""
    fitting = _FITTING.get(str(evidence.facts.get("fabric")))
    variables = evidence.variables or {}
    mpi = evidence.facts.get("mpi")
    for variable, reader in _LISTS.items() if fitting else ():
        left_out, names = names_in(variables.get(variable, ""))
        if left_out or not names or mpi not in {reader, None} or fitting is None:
            continue
        if not any(fitting.match(name) for name in names):
            yield f"{variable}={variables[variable]}"


def _of_another_release(evidence: Evidence) -> Iterator[str]:
    """Yield a Cray MPICH that says another release than the module that is loaded."""
    said = evidence.versions.get(_CRAY, "")
    if evidence.origin("version", _CRAY) not in evidence.logs:
        return
    for name in _DISPLAYED:
        module = (evidence.variables or {}).get(name)
        if module and said and module.split(".")[:3] != said.split(".")[:3]:
            yield f"{name}={module}, and the library says {said}"
            return


def of_environment(variables: Mapping[str, str], origin: str) -> Evidence:
    """Return the variables of a whole environment that have to do with MPI."""
    return Pieces().evidence(relevant(variables), origin)


def parse_environment(text: str) -> dict[str, str]:
    """Return the variables in what `env` prints; lines that are none belong to the one before."""
    found: dict[str, str] = {}
    last = ""
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if equals and name.replace("_", "a").isalnum():
            found[name] = value
            last = name
        elif last:
            found[last] += f"\n{line}"
    return found


def of_interfaces(variables: Mapping[str, str], there: Sequence[str], origin: str) -> Evidence:
    """Return whether variables name an interface that a machine lacks; `there` are its own.

    Addresses, and devices that are no interface, are passed over. Nothing is told when no variable
    names any.
    """
    named = {
        (variable, word)
        for variable in _INTERFACES
        for word in variables.get(variable, "").split(",")
        if _INTERFACE.fullmatch(word) and not _NO_INTERFACES.match(word)
    }
    if not named or not there:
        return Evidence()
    missing = sorted(
        f"{variable}={word}"
        for variable, word in named
        if not any(name.startswith(word) for name in there)
    )
    pieces = Pieces(origin)
    text = f"{', '.join(missing)}; {origin} has {', '.join(sorted(there))}" if missing else ""
    pieces.fact("interface-missing", bool(missing), text)
    return pieces.evidence()
