"""How each component words a complaint: the forms of lines that say that something failed.

These tell who speaks and that it is an end, not why; why is what rules know.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from stackproof.mpi import families

_FAMILIES = families.by_likeness()
_BASES = frozenset(family.made_of for family in _FAMILIES)

COMPONENTS: tuple[tuple[str, str], ...] = (
    *((one.log.component, one.log.speaks) for one in _FAMILIES if one.log and one.made_of),
    ("Cray PMI", r"\[PE_\d+\]|_pmi_|^pmi_|PMI: "),
    ("Hydra", r"\[mpiexec@|\[proxy:|HYD[A-Z]?_|hydra|BAD TERMINATION OF ONE"),
    ("pyxis", r"pyxis"),
    ("enroot", r"enroot|^\[ERROR\]"),
    ("Apptainer", r"apptainer|singularity|^FATAL:  |starter-suid"),
    ("Podman", r"podman|crun|runc|OCI runtime|conmon|docker:"),
    ("Sarus", r"sarus"),
    ("Charliecloud", r"ch-run\["),
    (
        "Slurm",
        (
            r"^(?:srun|sbatch|salloc|slurmstepd|slurmd|slurmctld|scontrol|sattach)\b|mpi/pmi"
            r"|mpi/pmix|slurm_"
        ),
    ),
    ("PMIx", r"PMIX?[ _](?:ERROR|ERR|SUCCESS)|PMIX ERROR|pmix_|PMIx|gds_|psec|ptl_"),
    ("PRRTE", r"PRTE|prterun|prted|prte_"),
    ("UCX", r"UCX +(?:ERROR|FATAL|WARN)|ib_mlx5|ucp_|uct_|libuc[pts]|mm_posix|rc_mlx5|ud_mlx5"),
    ("PSM3", r"PSM3|psm3"),
    ("PSM2", r"PSM2|psm2|hfi_|assert_psm"),
    ("NCCL", r"NCCL (?:WARN|INFO|ERROR)|ncclSystemError|nccl[A-Z]\w+Error|RCCL"),
    ("CUDA", r"CUDA(?:_ERROR| error| driver| failure| out of)|cuda[A-Z]\w+Error|cudaError"),
    ("ROCm", r"hipError|HIP error|HSA_STATUS|Memory access fault by GPU"),
    *(
        (one.log.component, one.log.speaks)
        for one in _FAMILIES
        if one.log and not one.made_of and one.name not in _BASES
    ),
    ("libfabric", r"libfabric:|cxip?_|cxil_|fi_[a-z]+\b|OFI |prov/|PTLTE|Cassini"),
    *((one.log.component, one.log.speaks) for one in _FAMILIES if one.log and one.name in _BASES),
    (
        "the loader",
        (
            r"error while loading shared libraries|cannot open shared object|undefined symbol"
            r"|symbol lookup error|version [`'\"]\S+' not found|=> not found|wrong ELF class|GLIBC"
            r"|relocation"
        ),
    ),
    (
        "Python",
        (
            r"^(?:Traceback|\w*Error:|\w*Exception:|ImportError|ModuleNotFoundError|OSError"
            r"|RuntimeError)|\w+Error: "
        ),
    ),
    ("squashfs-mount", r"squashfs-mount|squashfuse"),
    ("ssh", r"^ssh: |Permission denied \(publickey|Host key verification|^kex_exchange"),
    (
        "the kernel",
        (
            r"Out of memory: |oom-kill|invoked oom-killer|segfault at|Killed process|traps:"
            r"|soft lockup"
        ),
    ),
    ("Fortran run time", r"forrtl: |Fortran runtime error|At line \d+ of file"),
    (
        "the C library",
        (
            r"double free|malloc\(|\bfree\(\)|munmap_chunk|corrupted|stack smashing"
            r"|terminate called|glibc detected"
        ),
    ),
)
"""Who prints what, the more particular first."""

HEIRS: Mapping[str, tuple[str, str]] = {
    heir.name: (base.log.component, heir.log.component)
    for heir in _FAMILIES
    for base in _FAMILIES
    if heir.made_of == base.name and heir.log and base.log
}
"""What is printed in the words of the MPI that a family is made of, and who says it then."""

SPEAKERS: Mapping[str, frozenset[str]] = {
    "fabric": frozenset({
        "libfabric", "UCX", "PSM2", "PSM3", "NCCL", "CUDA", "ROCm", "Cray PMI",
        *(family.log.component for family in _FAMILIES if family.log and not family.ofi_plug_in),
    }),
    "container": frozenset({"pyxis", "enroot", "Apptainer", "Podman", "Sarus", "Charliecloud"}),
    "scheduler": frozenset({"Slurm"}),
}  # fmt: skip
"""Components by what an error number means from them: a queue or a key of a NIC and no file, a
registry and no peer, a daemon and no rank."""

FATAL = re.compile(
    r"Fatal error in |^Abort\(|internal ABORT|Assertion failed|MPICH ERROR|FATAL|[Ff]atal:"
    r"|fatal error"
    r"|^\*\*\* An error occurred in MPI_|was called (?:before|after) MPI_|Attempting to use an MPI"
    r"|(?:OPAL|ORTE|PRTE|OMPI|PMIX|PMIx) ERROR:|\bPMIX_ERR_\w+"
    r"|Process received signal|Signal: \w[\w ]*\(\d+\)|Caught signal \d+|UCX +(?:ERROR|FATAL)"
    r"|^(?:srun|sbatch|salloc|slurmstepd|slurmd): (?:error|fatal): "
    r"|(?:mpiexec|prterun|mpirun|orterun)(?:\.hydra)?(?: has exited| was unable| noticed"
    r"| detected|:.{0,40}error)"
    r"|BAD TERMINATION OF ONE|\[(?:mpiexec|proxy):?[^\]]{0,60}\].{0,160}(?:error|fail"
    r"|unable|assert)"
    r"|error while loading shared libraries|cannot open shared object file"
    r"|undefined symbol|symbol lookup error"
    r"|version [`'\"]\S{1,80}' not found|=> not found|wrong ELF class|Exec format error"
    r"|^Traceback \(most recent|^(?:\w+\.)*\w*(?:Error|Exception): |Segmentation fault"
    r"|Bus error|core dumped"
    r"|Illegal instruction|Floating point exception|Killed\b|Out of memory: |oom[-_]kill"
    r"|Out Of Memory|OUT_OF_MEMORY"
    r"|CANCELLED AT|DUE TO TIME LIMIT|NODE FAIL|Node failure|APPLICATION TIMED OUT|terminate called"
    r"|application called MPI_Abort|MPI_ABORT was invoked|PTLTE_\w+|UNDELIVERABLE"
    r"|Transport retry count exceeded|\(synd 0x"
    r"|local QP operation err|Local QP operation|NCCL WARN|CUDA_ERROR_|cudaError|hipError"
    r"|Memory access fault by GPU"
    r"|double free or corruption|malloc\(\): |munmap_chunk\(\)|forrtl: "
    r"|Fortran runtime error|write_line error"
    r"|OFI (?:call |)\S{1,40}(?: \S{1,20})? failed|OFI poll failed"
    r"|OFI endpoint open failed|\bfi_\w+(?:\(\))? failed"
    r"|[Cc]ommand not found|No such file or directory|Permission denied|Operation not permitted"
    r"|[Nn]o space left on device|Cannot allocate memory|Connection refused|Connection reset"
    r"|Host key verification"
    r"|process \d+ (?:in|died|exited)|died with signal|exited on signal|returned non-zero|\[ERROR\]"
    r"|PSM[23]? (?:can't|could not)|assert(?:ion)? .{0,80}fail|couldn't (?:start|create"
    r"|open)|Couldn't "
    r"|task_init\(\) failed|Failed to \w+|failed to \w+|[Uu]nable to \w+"
    r"|not built with \S+ PMI support|mpispawn_checkin"
)  # fmt: skip
"""Words with which components say that something came to an end."""

DEAD = re.compile(
    r"Fatal error in |Abort\(|ABORT|Process received signal|[Cc]aught signal"
    r"|srun: error: \S+: task|[Nn]ode failure"
    r"|slurmstepd: error: \*\*\*|(?:has|have) exited|exited (?:on|with (?!error))|BAD TERMINATION"
    r"|core dumped|Traceback|MPI_ERRORS_ARE_FATAL"
    r"|^Killed|: Killed|CANCELLED|^FATAL|[Ff]atal: |terminate called|Segmentation fault"
    r"|Bus error|not start|task_init\(\) failed|UNDELIVERABLE|PTLTE_|oom[-_]kill"
    r"|Out Of Memory|out of memory|symbol lookup",
    re.MULTILINE,
)
"""Words after which nobody goes on."""

PROGRESS = re.compile(
    r"^\s*\d+(?:\s+[-+]?\d[\d.eE+-]*){1,8}\s*$|^[#>]? ?[Hh](?:ello|i)\b|\b(?:PASS(?:ED)?"
    r"|[Ss]ucce(?:ss|eded|ssfully)|[Cc]ompleted?|[Ff]inished|HAS ENDED|[Dd]one)\b"
    r"|[Ww]all(?:[ -]?clock)? time|[Ee]xit code:? 0\b|^\s*(?:[Ss]tep|[Ii]ter(?:ation)?"
    r"|[Cc]ycle|[Ee]poch|[Tt]ime ?step)\b.{0,3}\d|\b[Tt]ime: ?[\d.]+ ?(?:ms|s)\b"
    r"|\d (?:ns/day|GFLOPS|Gflops|MB/s|it/s)\b"
    r"|^# ?OSU|^# *benchmarks|^\s*#bytes|^# Size|[Rr]ank \d+ (?:of|out of) \d+"
    r"|[Pp]rocess(?:or)? \d+ (?:of|out of) \d+|I am \d+ of \d+"
)
"""Lines by which a program shows that it runs, or ended well."""

EPILOGUE = re.compile(
    r"^(?:srun|slurmstepd): (?:error: )?(?:\S+: tasks? \S+: (?:Aborted|Killed|Terminated|Exited"
    r"|unknown|running)|\*\*\* (?:STEP|JOB) \S+ ON \S+ CANCELLED AT [^ ]+ \*\*\*|Job step aborted"
    r"|launch/slurm: _step_signal|Force Terminated)"
    r"|^(?:make|gmake|ninja)(?:\[\d+\])?: (?:\*\*\*|build stopped)|\bexited with code \d+\s*$"
    r"|HYD[TU]?_\w*wait_for_|BAD TERMINATION OF ONE|[Ss]ignal:? 15\b"
)
"""Lines that stand at the end of any job that failed, whatever it died of."""
OUTSIDE = re.compile(r"(?:[Ss]ignal:?|SIGNAL:|EXIT CODE:) 15\b|: Terminated$")
"""Those of a signal 15, of which the program may know nothing."""

STAGES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("run", re.compile(r"Fatal error in (?:internal_|P?MPI_)(?!Init)\w")),
    (
        "step",
        re.compile(
            r"(?:Task|Application) launch|[Ll]aunch failed|spank|[Ss]witch|[Pp]rolog|[Pp]lug-?in\b"
            r"|container (?:start|creat)|\bhooks?\b|[Cc]redential|step creation"
        ),
    ),
    (
        "start",
        re.compile(
            r"MPI_Init|MPID_Init|internal_Init|[Ii]nit_thread|init_comm|_[Ii]nit\w*\b|\binit\w*\b"
            r"|fi_(?:getinfo|domain|fabric|endpoint|enable)|find_provider|open_fabric|ep_enable"
            r"|getinfo|KVS|kvs|[Bb]ootstrap|NET/|[Ss]tartup"
        ),
    ),
)
"""When something was said: when a step was started, or when an MPI was; else while it ran."""

COMPLAINT = re.compile(
    r"\b(?:[Ee]rror|ERROR|[Ff]ailed|FAILED|[Ff]ailure|[Cc]annot|[Cc]an't|[Cc]ould not"
    r"|[Ii]nvalid|[Dd]enied|[Tt]imed out|[Tt]imeout"
    r"|[Nn]ot found|[Mm]issing|[Mm]ismatch|[Rr]efused|[Ee]xceeded|[Uu]nknown"
    r"|[Uu]nrecognized|[Uu]nexpected|[Uu]nreachable"
    r"|WARN(?:ING)?|[Ww]arning|[Aa]bort(?:ed|ing)?|not available|not enough|no longer"
    r"|[Hh]ung|suspects a hang|instead of"
    r"|[Uu]nsupported|not supported|different version|[Cc]onflict)\b"
)
"""Words that something is not as it should be."""

HARMLESS = re.compile(
    r"(?<![.\w])0 (?:errors?|failures?|failed)\b|\b(?:no|without) (?:errors?|failures?"
    r"|warnings?)\b|errors?[ =:]+0\b|[Ee]rror (?:norm|bound|estimate|tolerance)"
    r"|\b(?:[Rr]el(?:ative)?|[Aa]bs(?:olute)?|[Mm]ax(?:imum)?|L[12]|RMS|[Rr]esidual|mean"
    r"|standard|std)\.? ?(?:squared )?[Ee]rrors?\b"
    r"|[Ee]rrors?\s*[:=]\s*[-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?\s*$|[Nn]on-fatal|ignor(?:ed"
    r"|ing)|DATA VALIDATION"
    r"|PMIX_ERR_NOT_FOUND.{0,40}continu|failed tests? *[:=] *0"
    r"|more processes have sent help message|_base_help_aggregate|\(ignored\)"
    r"|support is disabled|Deprecat|deprecated"
    r"|select: init (?:of component \w+ )?returned failure"
    r"|Ctrl-C"
)
"""Words that look so, and are not."""

LISTED = re.compile(
    r"^\s{20,}\S|^\s*MCA [\w ]+: |^\s*[A-Z][A-Z0-9]*_\w+=\S*\s*$|^\s*[\w-]+ {2,}- [a-z]"
    r"|^#(?:\s(?!.*\b(?:[Ee]rror|ERROR|FATAL|[Ff]ailed|FAILED)\b ?[:!])|\s*$)"
    r"|\bSCOPE_\w+\s+No-object\b|\bUCX +(?:DIAG|DEBUG|TRACE|REQ|DATA|FUNC|POLL)\b"
    r"|<(?:debug|trace)>"
)
"""Lines of `env`, `ompi_info -a`, `ucx_info -f`, `fi_info -e` and `mpivars` that list settings, and
those of a library to who debugs it."""

NAMES = re.compile(
    r"(?<!\S)(?:#SBATCH +)?--?[A-Za-z][\w-]*|[^\s:=]*/[^\s:]+|\b[\w-]+\.(?:log|err|out|txt)\b"
    r"|\b[Ee]rror (?:handl|check|correct|output|file|stream|report|rate|string)\w*"
    r"|\b[Tt]imeout(?: \(\w+\))?(?: value| set to| is|(?= *[:=]))[ :=]*-?\d[\w.]*"
    r"|^[^:=]{1,60}[:=]\s*(?:enabled|disabled|yes|no|true|false|on|off|none|null|\(null\)|auto"
    r"|default|unset|n/?a|-1|0+(?:\.0*)?|inf\w*|\"[^\"]*\")[,;]?\s*$",
    re.IGNORECASE,
)
"""Names that hold such a word: options, paths, and settings with their state."""


def is_complaint(text: str) -> bool:
    """Return true where a line says that something is not as it should be, beside names."""
    words = COMPLAINT.search(text) and COMPLAINT.search(NAMES.sub(" ", text))
    return words is not None and HARMLESS.search(text) is None


ENDS: tuple[tuple[str, str], ...] = (
    (
        "node-lost",
        (
            r"DUE TO NODE FAIL|[Nn]ode failure on|NODE_FAIL|lost communication with (?:a remote"
            r"|the remote) daemon|node \S+ (?:is )?down|launch failed: Communication"
            r"|slurmstepd: error: Node \S+ not responding"
        ),
    ),
    (
        "hang",
        (
            r"DUE TO TIME LIMIT|APPLICATION TIMED OUT|TIMEOUT\b.{0,40}job|suspects a hang"
            r"|Watchdog caught collective"
        ),
    ),
    (
        "killed",
        (
            r"oom[-_]kill|Out Of Memory|[Ss]lurm.{0,80}OUT_OF_MEMORY|Out of memory: Kill"
            r"|invoked oom-killer|exceeded (?:job )?memory limit"
        ),
    ),
    ("cancelled", r"CANCELLED AT|[Kk]eyboard ?[Ii]nterrupt|SIGINT received"),
)
"""How a job ended, by the words for it; the first that stands there."""

SIGNALS = re.compile(
    r"[Ss]ignal:? (?P<name>[A-Z][\w ]{2,30}?) ?\((?P<number>\d{1,2})\)"
    r"|SIGNAL: (?P<hydra>\d{1,2})|exited on signal (?P<prte>\d{1,2})"
    r"|[Cc]aught signal (?P<ucx>\d{1,2})|died with signal (?P<mv>\d{1,2})"
    r"|: (?P<srun>Segmentation fault|Bus error|Killed|Aborted|Illegal instruction"
    r"|Floating point exception)"
)
EXIT = re.compile(
    r"(?:[Ee]xit(?:ed)?(?: with)?(?: exit)? code:?|EXIT CODE:"
    r"|exit status) +(?P<code>\d{1,3})\b"
)

MPIS: tuple[tuple[str, str], ...] = (*((one.name, one.log.words) for one in _FAMILIES if one.log),)
"""Families of MPI by words that no other one has, the more particular first."""

VERSIONS: tuple[tuple[str, str], ...] = (
    *((one.name, one.log.version) for one in _FAMILIES if one.log),
    ("libfabric", r"libfabric[ /](?:version: ?|[Vv])?(\d+\.\d+\.\d+)"),
)
LAUNCHERS: tuple[tuple[str, str], ...] = (
    ("srun", r"^srun: |direct launched using \"srun\"|mpi/pmi[x2]|slurm\.pmix"),
    (
        "mpirun",
        (
            r"^(?:prterun|mpirun|orterun) (?:noticed|has exited|detected|was unable)"
            r"|OPAL ERROR.{0,80}\borted|PRTE (?:detected|has lost)|ORTE (?:does not know|was unable"
            r"|has lost)|not enough slots"
        ),
    ),
    ("mpiexec", r"^\[mpiexec@|BAD TERMINATION OF ONE OF YOUR|\[proxy:"),
)
NESTED = re.compile(r"\bsrun [^\n|;&]{0,300}[ /](?:mpirun|mpiexec|prterun|orterun) ")
"""A command line with a launcher inside of srun."""
PROVIDERS = re.compile(
    r"libfabric:\d+(?::\d+)?:(?:\w+:)?(?P<one>cxi|verbs|psm[23]|opx|efa|tcp|shm|lnx"
    r"|ofi_rxm)\b|libfabric provider: (?P<impi>[\w;-]+)"
    r"|\bselected provider:? (?P<picked>\w+)"
)

ALONE = re.compile(
    r"\b[Ff]rom 0 (?:of|out of) 1\b"
    r"|\b[Rr]ank:? +0 (?:of|out of|/) 1\b|\b0 ?/ ?1\b(?!\d|, on/off)|\bprocess(?:or)? 0 (?:of"
    r"|out of) 1\b(?! node)|\b0 (?:of|out of) 1 (?:rank|process|task|proc)"
    r"|\b(?:comm(?:unicator)?|world)[ _]?size\)?[ :=]+1\b(?!\d)"
    r"|\b[Ss]ize(?: is)?[:= ]+1\b.{0,40}\b[Rr]ank(?: is)?[:= ]+0\b"
    r"|\b[Rr]ank(?: is)?[:= ]+0\b.{0,40}\b[Ss]ize(?: is)?[:= ]+1\b"
    r"|\b(?:[Rr]unning on|[Uu]sing|with) 1 (?:MPI )?(?:rank|process|task|proc)(?:es"
    r"|s)?\b(?! per)|requires (?:exactly|at least) two processes"
    r"|nprocs[:= ]+1\b|[Nn]umber of (?:MPI )?(?:processes|ranks|tasks)[ :=]+1\b"
    r"|I am 0 (?:of|out of) 1\b|from (?:process|rank|task) 0 (?:of|out of) 1\b",
)  # fmt: skip
"""Words of any program that it is alone, as rank 0 of 1."""


def compile_words(
    named: Sequence[tuple[str, str]], flags: int = 0
) -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Return patterns that match from the begin of a word only.

    `orted` is a word of Open MPI; "aborted" and "imported" are everybody's.
    """
    return tuple(
        (name, re.compile(rf"(?<![A-Za-z])(?:{pattern})", flags)) for name, pattern in named
    )
