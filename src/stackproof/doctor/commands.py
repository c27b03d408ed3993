"""The remedy of a known problem, in the words of a job: its MPI, launcher, program and nodes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence

from stackproof.doctor.log.story import story_of
from stackproof.knowledge.evidence import Evidence
from stackproof.knowledge.model import Rule
from stackproof.mpi import families

_MARKS = {
    name: re.compile(
        rf"#.*(?<!Cray )\b{re.escape(family.title)}\b|\b{family.variable_prefix or '(?!)'}"
    )
    for name, family in families.REGISTRY.items()
}
"""An MPI by its name in the comment of a command, or by a variable that it alone reads."""

_WITHOUT_PMIX = "mpirun …   # inside the allocation: Slurm here has no library of PMIx"


def fitting_commands(rule: Rule, evidence: Evidence) -> tuple[str, ...]:
    """Return a rule's commands without those of other MPIs, and of what the job has not.

    That is Slurm, a PMIx that Slurm loads, and variables to unset. Where none is of the MPI, all
    are of it.
    """
    mpi = evidence.facts.get("mpi")
    family = families.REGISTRY.get(mpi) if isinstance(mpi, str) else None
    kin = {family.name, family.made_of} if family is not None else set()
    fitting = [
        command
        for command in rule.commands
        if not kin or not (of := _families_of(command)) or of & kin
    ]
    if evidence.facts.get("pmix-loads") is False:
        fitting = [_WITHOUT_PMIX if "--mpi=pmix" in text else text for text in fitting]
    if evidence.facts.get("launcher") == "srun":  # which mounts an image once per node
        srun = "srun --image=IMAGE PROGRAM"
        fitting = [text.replace("stackproof run IMAGE -- PROGRAM", srun) for text in fitting]
    fitting = _narrow(fitting or rule.commands, evidence.variables or ())
    if not has_slurm(evidence):
        known = str(evidence.facts.get("launcher"))  # results have several
        own = "mpirun" if family is not None and family.launcher == "prte" else "mpiexec"
        launcher = next((word for word in ("mpirun", "mpiexec") if word in known), own)
        fitting = list(filter(None, (_without_slurm(text, launcher) for text in fitting)))
        if not fitting and _SLURM.search(rule.title):
            return rule.commands
    return tuple(dict.fromkeys(fitting))


def _families_of(command: str) -> set[str]:
    return {name for name, mark in _MARKS.items() if mark.search(command)}


def _narrow(commands: Sequence[str], variables: Collection[str]) -> list[str]:
    """Return commands that unset the variables that are set, and no others; all where none is."""
    narrowed = {}
    for text in commands:
        if names := _UNSET.match(text):
            there = " ".join(name for name in names[1].split() if name in variables)
            narrowed[text] = f"unset {there}{text[names.end() :]}" if there else ""
    if not any(narrowed.values()):
        return [*commands]
    return [each for text in commands if (each := narrowed.get(text, text))]


_UNSET = re.compile(r"unset ((?:\w+ ?)+)(?<! )(?=;|$|   #)")

# --- jobs without Slurm ---------------------------------------------------------------------


def has_slurm(evidence: Evidence) -> bool:
    """Return true where a fact, a variable or a line of a log is of Slurm."""
    facts = evidence.facts
    texts = (*evidence.versions, *map(str, facts.values()), *evidence.logs.values())
    return not {"pmi", "pmix-loads", "slurm-pmix"}.isdisjoint(facts) or any(
        map(_SLURM.search, (*texts, *(evidence.variables or ())))
    )


_SLURM = re.compile(r"\b(?:srun|sbatch|salloc|[Ss]lurm\w*|SLURM\w*)\b")
_OF_SLURM = re.compile(
    r"(?:sacct|scontrol|sinfo|sbatch|salloc)\b|.*(?i:bootstrap)[= ]slurm|(?:export|unset) SLURM"
    r"|export I_MPI_PMI_|.*\$.{0,9}SLURM_|.*\bsrun (?!.*--ntasks).*--"
)
"""Commands that need Slurm, and those with an option that no other launcher has."""
_SRUN = re.compile(r"\bsrun(?: -N ?\d+)?(?: --ntasks-per-node=1)?(?: -n ?(\d+))?")
_SSH = re.compile(r"\bsrun(?: -n ?1)? -w NODE(?: -n ?1)?")
_PARTS = re.compile(r"; (?=(?:[^'\"]|'[^']*'|\"[^\"]*\")*$)")


def _without_slurm(command: str, launcher: str) -> str:
    """Return a command for a launcher of an MPI, or ssh; empty where nothing is left of it."""
    body, mark, comment = command.partition("   #")
    parts = [part for part in _PARTS.split(body) if not _OF_SLURM.match(part)]
    text = _SSH.sub("ssh NODE", "; ".join(parts))
    text = _SRUN.sub(lambda match: f"{launcher} -n {match[1] or 1}", text)
    return f"{text}{mark}{comment}" if text and not _SLURM.search(comment) else text


# --- names of the job -----------------------------------------------------------------------

_OF_LOG: Mapping[str, re.Pattern[str]] = {
    "PROGRAM": re.compile(
        r"^(?P<name>[\w./+][\w./+-]*): "
        r"(?:error while loading shared|symbol lookup error|/\S+: version)"
        r"|execve\(\): (?P<of>[\w./+][\w./+-]*): ",
        re.MULTILINE,
    ),
    "JOB": re.compile(r"\b(?:StepId=|JOB |STEP |[Jj]ob )(?P<name>\d{1,9})\b(?P<of>)"),
}


def fill_names(text: str, evidence: Evidence, named: Mapping[str, str]) -> str:
    """Return a remedy with the names that were given or that a log tells: PROGRAM, NODE, JOB.

    A name that needs quotes is not put between others. None is looked at for words again.
    """
    names = {**dict(_told(evidence)), **{word: name for word, name in named.items() if name}}
    if not text.startswith(("stackproof ", "srun --image=")):
        names.pop("IMAGE", None)

    def fill(match: re.Match[str]) -> str:
        name = names.get("PROGRAM" if match[0] == "./program" else match[0], "")
        name = f"./{name}" if name.startswith("-") else name
        quoted = shlex.quote(name) if name else match[0]
        before = _QUOTED.sub("", text[: match.start()])
        is_inner = "'" in before or '"' in before
        return match[0] if is_inner and quoted != name else quoted

    return _WORD.sub(fill, text)


_WORD = re.compile(r"\b(?:PROGRAM|NODE|JOB|IMAGE|RESULTS)\b|\./program\b")
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")


def _told(evidence: Evidence) -> Iterator[tuple[str, str]]:
    failed = story_of(evidence).first_failed
    node = failed.node if failed is not None else ""
    yield "NODE", "" if node.startswith("-") else node
    for word, pattern in _OF_LOG.items():
        match = next(filter(None, map(pattern.search, evidence.logs.values())), None)
        yield word, (match["name"] or match["of"]) if match else ""
