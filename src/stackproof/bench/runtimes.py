"""Runtimes of containers: how a rank's program is started inside of one.

A row says which words stand before the program, on each rank's command line, or which options srun
gets where the runtime is a part of Slurm. The launcher is outside, and every rank has a container
of its own that shares the node's network, processes and memory with the others: messages go as they
do without containers.

Sarus, Enroot, Pyxis and the Container Engine were never run by the tests here: their words are
those of the documentation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum

from msgspec import field

from stackproof.core import registry
from stackproof.core.value import Value
from stackproof.image.container import edf
from stackproof.inject.container import option_words

_WITHOUT_RIGHTS = "`options`, such as [--userns] where root lacks a capability"
"""How both heirs of Singularity start where root may not do everything, as in a container."""

_PASSED = (
    "PMI_*", "PMI2_*", "PMIX_*", "HYDI_*", "HYDRA_*", "MPIR_*", "MPICH_*", "MPI_*", "I_MPI_*",
    "OMPI_*", "PRTE_*", "OPAL_*", "FI_*", "UCX_*", "SLURM_*",
)  # fmt: skip
"""Variables of launchers, MPIs and networks that a container gets (podman-run(1), `--env`)."""


class ImageSource(StrEnum):
    """What an image is named by; the value says it in words."""

    NAME = "a name that the runtime knows"
    OCI = "an OCI layout or archive"
    SIF = "a SIF file"
    SQUASHFS = "a SquashFS file"
    FOLDER = "a folder with a root"


class ContainerStart(Value):
    """What is started: an image, folders by the place they are seen at (read-only), variables.

    `options` are more words for the runtime, as a site or a user gives them. `annotations` are what
    hooks are chosen by; `hooks` is a folder with definitions of hooks, empty for those of the site.
    """

    image: str
    binds: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    hooks: str = ""


class ContainerRuntime(Value):
    """A runtime: its program, the images it starts, and how a user asks it for a GPU.

    `words` returns the words before a rank's program, or with `in_steps`, where it is a part of
    srun, the options of srun; `file` the text of the file that `{file}` in them means. `hooks` says
    whether containers can be annotated for a hook; `settings` how an arm says the runtime's own
    settings. `archive` is the command that writes the image named behind it into `{file}`, empty
    where the image is such a file by itself, or the runtime writes none.
    """

    name: str
    program: str
    sources: frozenset[ImageSource]
    gpu: str
    words: Callable[[ContainerStart], tuple[str, ...]]
    file: Callable[[ContainerStart], str] = lambda _: ""
    hooks: bool = False
    in_steps: bool = False
    settings: str = "`options`"
    archive: tuple[str, ...] = ()


def _mounts(start: ContainerStart) -> tuple[str, ...]:
    """Return the folders as most runtimes write them, `SOURCE:PLACE:ro`."""
    return tuple(f"{source}:{place}:ro" for place, source in sorted(start.binds.items()))


def _variables(start: ContainerStart) -> tuple[str, ...]:
    return tuple(f"--env={name}={value}" for name, value in sorted(start.environment.items()))


def _heir(*begin: str) -> Callable[[ContainerStart], tuple[str, ...]]:
    """Return what an heir of Singularity takes behind its first words."""
    return lambda start: (
        *begin, *(f"--bind={mount}" for mount in _mounts(start)), *_variables(start),
        *start.options, start.image,
    )  # fmt: skip


def _podman(start: ContainerStart) -> tuple[str, ...]:
    """Return the words of podman-run(1).

    Ranks of a node must see each other's processes to copy between them, which the filter of
    system calls of old releases forbids. What podman does by itself is the site's matter:
    containers.conf and storage.conf.
    """
    return (
        "podman", "run", "--rm", "--network=host", "--pid=host", "--ipc=host",
        "--security-opt=seccomp=unconfined", "--pull=never", "--workdir=/",
        *(f"--env={name}" for name in _PASSED), *_variables(start),
        *(f"--volume={mount}" for mount in _mounts(start)),
        *((f"--hooks-dir={start.hooks}",) if start.hooks else ()),
        *(f"--annotation={name}={value}" for name, value in sorted(start.annotations.items())),
        *start.options, "--entrypoint=", start.image,
    )  # fmt: skip


def _sarus(start: ContainerStart) -> tuple[str, ...]:
    """Return the words of sarus.readthedocs.io, "User guide"; all variables go in by themselves."""
    mounts = (
        f"--mount=type=bind,source={source},destination={place},readonly"
        for place, source in sorted(start.binds.items())
    )
    return ("sarus", "run", *mounts, *_variables(start), *start.options, start.image)


def _enroot(start: ContainerStart) -> tuple[str, ...]:
    """Return the words of github.com/NVIDIA/enroot, doc/cmd/start.md.

    Its hooks for Slurm and PMIx bring in the variables of launchers and MPIs.
    """
    own = option_words("enroot", start.binds, start.environment)
    return ("enroot", "start", *own, *start.options, start.image)


def _pyxis(start: ContainerStart) -> tuple[str, ...]:
    """Return the options of github.com/NVIDIA/pyxis, README, "Usage".

    The tasks of a node share one container; variables are set before the program.
    """
    binds = ",".join(_mounts(start))
    return (
        f"--container-image={start.image}",
        *((f"--container-mounts={binds}",) if binds else ()),
        "--no-container-mount-home", "--no-container-entrypoint", *start.options,
    )  # fmt: skip


def _edf_file(start: ContainerStart) -> str:
    """Return an Environment Definition File (docs.cscs.ch, "Container Engine", its reference).

    Its entrypoint would stand between srun and the program.
    """
    return edf.render(
        edf.JobContainer(
            image=edf.literal(start.image),
            mounts=tuple(edf.mount(one, place) for place, one in sorted(start.binds.items())),
            workdir="/",
            entrypoint=False,
            writable=False,
            env={name: edf.literal(value) for name, value in start.environment.items()},
            annotations={key: edf.literal(text) for key, text in start.annotations.items()},
        )
    )


_FILES = frozenset({ImageSource.SIF, ImageSource.SQUASHFS, ImageSource.FOLDER})
_NAMES = frozenset({ImageSource.NAME, ImageSource.SQUASHFS})
_ROWS = (
    ContainerRuntime(
        name="podman",
        program="podman",
        sources=frozenset({ImageSource.NAME, ImageSource.OCI}),
        gpu="--device=nvidia.com/gpu=all, or --device=/dev/kfd and --device=/dev/dri",
        words=_podman,
        hooks=True,
        settings="`options`, or `env` with CONTAINERS_CONF",
        archive=("podman", "save", "--quiet", "--format=oci-archive", "--output={file}"),
    ),
    # apptainer-exec(1): the ranks of a node join one namespace with `--sharens`, without which
    # MPICH's copies between processes are refused.
    ContainerRuntime(
        name="apptainer",
        program="apptainer",
        sources=_FILES,
        gpu="--nv, or --rocm",
        words=_heir("apptainer", "exec", "--sharens"),
        settings=_WITHOUT_RIGHTS,
    ),
    # singularity-exec(1) of SingularityCE 4.1, which has no `--sharens`. Without a setuid starter
    # each rank is in a user namespace of its own, and MPICH aborts there (seen with 4.1.5) unless
    # MPIR_CVAR_CH4_CMA_ENABLE is 0.
    ContainerRuntime(
        name="singularity",
        program="singularity",
        sources=_FILES,
        gpu="--nv, or --rocm",
        words=_heir("singularity", "exec"),
        settings=_WITHOUT_RIGHTS,
    ),
    ContainerRuntime(
        name="sarus",
        program="sarus",
        sources=frozenset({ImageSource.NAME}),
        gpu="by the site's hook",
        words=_sarus,
    ),
    ContainerRuntime(
        name="enroot",
        program="enroot",
        sources=_NAMES,
        gpu="--env=NVIDIA_VISIBLE_DEVICES=all, by its hook 98-nvidia.sh",
        words=_enroot,
    ),
    ContainerRuntime(
        name="pyxis",
        program="srun",
        sources=_NAMES,
        gpu="env: {NVIDIA_VISIBLE_DEVICES: all}, by Enroot's hook 98-nvidia.sh",
        words=_pyxis,
        in_steps=True,
    ),
    ContainerRuntime(
        name="edf",
        program="srun",
        sources=_NAMES,
        gpu="env: {NVIDIA_VISIBLE_DEVICES: all}, by the site's hook",
        words=lambda start: ("--environment={file}", *start.options),
        file=_edf_file,
        hooks=True,
        in_steps=True,
    ),
)

REGISTRY: Mapping[str, ContainerRuntime] = {row.name: row for row in _ROWS}


def get(name: str) -> ContainerRuntime:
    """Return a runtime by name; raises `StackproofError` (UNSUPPORTED) for an unknown one."""
    return registry.find(REGISTRY, name, kind="runtime of containers", kinds="runtimes")


def starting(source: ImageSource) -> tuple[str, ...]:
    """Return the runtimes that start images of a kind."""
    return tuple(name for name, row in REGISTRY.items() if source in row.sources)
