"""The variables that views may set: search paths, compilers, and what MPIs and their parts read.

A name that is in no table may still hold paths of its own image. Any other needs the user's word:
a shell obeys some variables at its next prompt, and programs outside of the image obey others,
with nothing of the image started. `native/spank/variables.c` has the two tables too.
"""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` is slow to import
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from stackproof.image.described import Described, DescribedView
    from stackproof.image.model import Image, View

    AnyView = View | DescribedView

ALLOW = "STACKPROOF_ALLOW_VARIABLES"

# Where programs, compilers, build tools and modules look: what a view is for.
NAMES = frozenset({
    "ACLOCAL_PATH", "CC", "CFLAGS", "CMAKE_PREFIX_PATH", "CPATH", "CPLUS_INCLUDE_PATH", "CPPFLAGS",
    "CXX", "CXXFLAGS", "C_INCLUDE_PATH", "F77", "FC", "FCFLAGS", "FFLAGS", "INFOPATH", "LDFLAGS",
    "LD_LIBRARY_PATH", "LIBRARY_PATH", "MANPATH", "MODULEPATH", "OBJC_INCLUDE_PATH", "PATH",
    "PKG_CONFIG_PATH", "PYTHONPATH", "SLURM_MPI_TYPE",
})  # fmt: skip
# What MPIs, their transports and launchers, threads, and the parts of GPUs read.
FAMILIES = (
    "ACC_", "BLIS_", "CRAY_", "CRAYPE_", "CUDA_", "CXI_", "EBROOT", "EBVERSION", "FI_", "GOMP_",
    "GTL_", "HIP_", "HSA_", "HWLOC_", "HYDRA_", "I_MPI_", "KMP_", "LIBFABRIC_", "MKL_", "MPICH_",
    "MPIEXEC_", "MPIR_", "MPI_", "MPIX_", "MV2_", "NCCL_", "NVSHMEM_", "OFI_", "OMPI_", "OMP_",
    "OPAL_", "OPENBLAS_", "PALS_", "PE_", "PMIX_", "PMI_", "PRTE_", "PSM3_", "RCCL_", "RDMAV_",
    "ROCM_", "ROCR_", "SHMEM_", "UCC_", "UCX_", "UENV_", "UTOFU_", "XPMEM_", "ZES_", "ZE_",
)  # fmt: skip
# Shells: sections 5.1 and 5.2 of the Bash Reference Manual, and zshparam(1). They may run what
# these hold at the next prompt, or write where they say. Paths of the image are no better there.
_OF_SHELLS = frozenset({
    "ARGC", "ARGV0", "CDPATH", "CHILD_MAX", "COLUMNS", "COMPREPLY", "COMP_CWORD", "COMP_KEY",
    "COMP_LINE", "COMP_POINT", "COMP_TYPE", "COMP_WORDBREAKS", "COMP_WORDS", "COPROC",
    "CORRECT_IGNORE", "CORRECT_IGNORE_FILE", "CPUTYPE", "DIRSTACK", "DIRSTACKSIZE", "EGID", "EMACS",
    "ENV", "EPOCHREALTIME", "EPOCHSECONDS", "ERRNO", "EUID", "EXECIGNORE", "FCEDIT", "FIGNORE",
    "FPATH", "FUNCNAME", "FUNCNEST", "GID", "GLOBIGNORE", "GLOBSORT", "GROUPS", "HISTCHARS",
    "HISTCMD", "HISTCONTROL", "HISTFILE", "HISTFILESIZE", "HISTIGNORE", "HISTORY_IGNORE",
    "HISTSIZE", "HISTTIMEFORMAT", "HOST", "HOSTFILE", "HOSTNAME", "HOSTTYPE", "IFS", "IGNOREEOF",
    "INPUTRC", "INSIDE_EMACS", "KEYBOARD_HACK", "KEYTIMEOUT", "LINENO", "LINES", "LISTMAX",
    "LOGCHECK", "LOGNAME", "MACHTYPE", "MAIL", "MAILCHECK", "MAILPATH", "MAPFILE", "MODULE_PATH",
    "NULLCMD", "OLDPWD", "OPTARG", "OPTERR", "OPTIND", "OSTYPE", "PIPESTATUS", "POSIXLY_CORRECT",
    "POSTEDIT", "PPID", "PROMPT", "PROMPT2", "PROMPT3", "PROMPT4", "PROMPT_COMMAND",
    "PROMPT_DIRTRIM", "PROMPT_EOL_MARK", "PSVAR", "PS0", "PS1", "PS2", "PS3", "PS4", "PWD",
    "RANDOM", "READNULLCMD", "REPLY", "REPORTMEMORY", "REPORTTIME", "RPROMPT", "RPROMPT2", "RPS1",
    "RPS2", "SAVEHIST", "SECONDS", "SHELLOPTS", "SHLVL", "SPROMPT", "SRANDOM", "STTY", "TIMEFMT",
    "TIMEFORMAT", "TMOUT", "TMPPREFIX", "TMPSUFFIX", "TRY_BLOCK_ERROR", "TRY_BLOCK_INTERRUPT",
    "TTY", "TTYIDLE", "UID", "USERNAME", "VENDOR", "WATCH", "WATCHFMT", "WORDCHARS", "ZDOTDIR",
    "ZSH_ARGZERO", "ZSH_EVAL_CONTEXT", "ZSH_EXECUTION_STRING", "ZSH_NAME", "ZSH_PATCHLEVEL",
    "ZSH_SCRIPT", "ZSH_SUBSHELL", "ZSH_VERSION", "_",
})  # fmt: skip
# Programs outside of the image run code that lies where these say, or trust whom they name.
_OF_PROGRAMS = frozenset({
    "EDITOR", "GCONV_PATH", "GETCONF_DIR", "HOME", "HOSTALIASES", "JAVA_TOOL_OPTIONS",
    "LOCPATH", "MANPAGER", "NLSPATH", "NODE_OPTIONS", "PAGER", "REGISTRY_AUTH_FILE", "RUBYOPT",
    "SHELL", "TERM", "TERMCAP", "TERMINFO", "TERMINFO_DIRS", "TMPDIR", "TZDIR", "USER", "VISUAL",
})  # fmt: skip
_BEGIN = (
    "BASH", "DBUS_", "DEBIAN_CHROOT", "DOCKER_", "FISH_", "GIT_", "GLIBC_", "KRB5", "LD_", "LESS",
    "LUA_INIT", "MALLOC_", "OPENSSL_", "PERL5OPT", "PYTHONHOME", "PYTHONSTARTUP", "READLINE_",
    "RES_", "R_PROFILE", "SLURM_", "SSH_", "SSL_", "STACKPROOF_", "SUDO_", "XDG_CONFIG", "ZLE_",
)  # fmt: skip


def is_listed(name: str) -> bool:
    """Return true for a variable that any view may change in any way."""
    return name in NAMES or name.startswith(FAMILIES)


def list_foreign(image: Image | Described, view: AnyView) -> list[str]:
    """Return the variables of a view, sorted, that it may change only with the user's word."""
    change = view.env
    values = {name: [text] for name, text in change.set.items()}
    for part in (change.prepend, change.append):
        for name, entries in part.items():
            values.setdefault(name, []).extend(entries)
    place = image.mount.rstrip("/") + "/"
    return sorted(
        name
        for name in {*values, *change.unset}
        if not is_listed(name)
        and not (name in values and _is_own(name, values[name], place) and name not in change.unset)
    )


def _is_own(name: str, values: Sequence[str], place: str) -> bool:
    """Return true for paths below a place, in a variable that only programs of it read."""
    upper = name.upper()  # some of a shell have a twin in small letters: `prompt`, `path`
    if upper in _OF_SHELLS | _OF_PROGRAMS | NAMES or upper.startswith(_BEGIN):
        return False
    paths = [path for text in values for path in text.split(":") if path]
    return bool(paths) and all(
        path.startswith(place) and ".." not in path.split("/") and "${@" not in path
        for path in paths
    )


def read_permitted(environment: Mapping[str, str], names: Sequence[str] = ()) -> frozenset[str]:
    """Return the variables that the user, or the site's profile, lets views change.

    `names` are those of `--allow-variable`, each with commas between several.
    """
    texts = (*names, environment.get(ALLOW, ""))
    return frozenset(name for text in texts for name in text.split(",") if name)


def require_permission(
    images: Sequence[Image | Described], views: Sequence[AnyView], permitted: Collection[str]
) -> None:
    """Raise `StackproofError` (NOT_PERMITTED) for variables that views may not change."""
    foreign = list(dict.fromkeys(_refused(images, views, permitted)))
    if not foreign:
        return
    from stackproof.core.errors import Reason, fail  # noqa: PLC0415 - slow, and for failures alone

    names = sorted({name for name, _ in foreign})
    raise fail(
        Reason.NOT_PERMITTED,
        f"a view of `{foreign[0][1]}` changes what programs outside of the image may obey: "
        f"`{'`, `'.join(names)}`",
        hint=f"if that is right: --allow-variable {','.join(names)}, or {ALLOW} in the "
        "environment; --no-view leaves views out",
    )


def _refused(
    images: Sequence[Image | Described], views: Sequence[AnyView], permitted: Collection[str]
) -> Iterator[tuple[str, str]]:
    for image in images:
        for view in image.views.values():
            if any(view is chosen for chosen in views):
                for name in list_foreign(image, view):
                    if name not in permitted:
                        yield name, image.path
