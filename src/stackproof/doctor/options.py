"""Options of `doctor` and `explain`."""

from __future__ import annotations

from stackproof.core.options import Options, argument, flag, option, part


class DoctorOptions(Options):
    """What a diagnosis looks at: this machine and this shell, and what is named beside them."""

    image: str | None = argument("IMAGE", "image of the stack in question", default=None)
    view: str | None = option("VIEW", "view of the image (default: its own)")
    program: str | None = option("FILE", "program of the job: what it loads is looked at, unrun")
    site: str | None = option("SITE", "site to look at (default: this machine, by looking)")
    results: str | None = option("FOLDER", "results of `bench` or `import`")
    arm: str | None = option(
        "ARM", "arm of the results (default: the first that failed, else the first challenger)"
    )
    logs: tuple[str, ...] = option(
        "FILE", "what a job printed, standard error too; may be given several times", words="--log"
    )
    env: str | None = option(
        "FILE", "environment of the job, as `env` prints it in a rank (default: that of this "
        "shell; with --results or --site what they show)",
    )  # fmt: skip
    probe: bool = flag(
        "also ask programs: fi_info, ompi_info, mpichversion, mpiname (of the image, if there "
        "is one), scontrol, srun --mpi=list, pkg-config; takes seconds"
    )
    have: tuple[str, ...] = option(
        "COMPONENT=VERSION", "a version, such as libfabric=2.3.1; may be given several times"
    )
    facts: tuple[str, ...] = option(
        "NAME=VALUE", "a fact, such as transport=lnx or memory=device; may be given several times",
        words="--fact",
    )  # fmt: skip


class DoctorRequest(Options, run="doctor.cli.doctor:run"):
    """A diagnosis, and how it is shown."""

    sources: DoctorOptions = part(DoctorOptions)
    all: bool = flag("show also what cannot be told, by rule")
    json: bool = flag("print as JSON")


class ExplainOptions(Options, run="doctor.cli.explain:run"):
    """What is explained; all that is known without a name."""

    name: str | None = argument(
        "NAME", "a variable (FI_PROVIDER), a known problem or conflict (K01) by id or name, or the "
        "reason of an error; left out: list all", default=None,
    )  # fmt: skip
    json: bool = flag("print as JSON")
