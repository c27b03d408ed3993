"""Images that others will mount, to the list of them and the environment with their views.

What the plug-in for Slurm asks at submission passes here: what is slow to import is imported where
it is used.
"""

from __future__ import annotations

import os

from stackproof.core import mountlist
from stackproof.core.mountlist import MountRequest
from stackproof.image import activate
from stackproof.image.effects.image_file import load_described
from stackproof.mount import undo
from stackproof.mount.effects import job_mpi

TYPE_CHECKING = False  # `typing`, msgspec and errors take longer to import than all the rest
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from stackproof.core.errors import Problem, StackproofError
    from stackproof.image.described import Described
    from stackproof.mount.options import ActivateOptions

# The variables that shells themselves read: sections 5.1 and 5.2 of the Bash Reference Manual, and
# zshparam(1). A shell may run what they hold at its next prompt, or write where they say, and
# nothing of the image has been started. PATH, HOME, SHELL and the locale are for all programs.
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
_OF_SHELLS_BEGIN = ("BASH", "READLINE_", "ZLE_", "FISH_", "DEBIAN_CHROOT")
# Programs outside of the image run code for these, or trust whom they name.
_OF_EVERY_PROGRAM = frozenset({
    "DOCKER_CONFIG", "EDITOR", "GCONV_PATH", "GIT_CONFIG_COUNT", "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM", "GIT_EXTERNAL_DIFF", "GIT_PAGER", "GIT_SSH", "GIT_SSH_COMMAND", "HOME",
    "JAVA_TOOL_OPTIONS", "KRB5_CONFIG", "LD_AUDIT", "LD_PRELOAD", "LESSOPEN", "LUA_INIT",
    "MANPAGER", "NODE_OPTIONS", "OPENSSL_CONF", "PAGER", "PERL5LIB", "PERL5OPT", "PYTHONHOME",
    "PYTHONSTARTUP", "REGISTRY_AUTH_FILE", "RUBYOPT", "R_PROFILE", "SHELL", "SLURM_CONF",
    "SSH_ASKPASS", "SSL_CERT_DIR", "SSL_CERT_FILE", "STACKPROOF_REPOSITORY", "STACKPROOF_SHARED",
    "SUDO_ASKPASS", "TERMINFO", "TERMINFO_DIRS", "TMPDIR", "VISUAL", "XDG_CONFIG_HOME",
    "http_proxy", "https_proxy",
})  # fmt: skip


def activated(
    options: ActivateOptions, before: Mapping[str, str], say: Callable[[str], None] = lambda _: None
) -> tuple[str, str, dict[str, str]]:
    """Return the mount list, its labels, and the environment with the views; `say` hears notes.

    The labels are what each image was asked for, with commas between; empty where there is none.
    How to mount is not asked of the options. Raises `StackproofError`: NOT_PERMITTED for a view
    that has a shell run its code, BAD_MOUNT_POINT, and what `admission.require`, reading images
    and choosing views raise.
    """
    mpi = options.mpi
    injected = job_mpi.requested(mpi)
    own_requests = mountlist.parse(options.images)
    if not all(os.path.isfile(item.image) for item in own_requests):
        from stackproof.share.effects import naming  # noqa: PLC0415 - see above

        own_requests = naming.images(own_requests)
    requests = (*own_requests, *((injected,) if injected else ()))
    labels = [request.label for request in requests]
    if any(labels):
        from stackproof.share.effects import admission  # noqa: PLC0415 - see above

        for request in requests:
            admission.require(request.image, request.label)
    optional = options.views is None and not mpi.path and not mpi.inject
    images = _load(requests, say, optional=optional)
    if injected:
        job_mpi.check_places(
            [
                (image, request.mount_point or image.mount)
                for request, image in zip(requests, images, strict=True)
                if image
            ]
        )
    has_views = [options.views is not None and injected is not request for request in requests]
    placed = _placed(requests, images, has_views, say)
    own = images[:-1] if injected else images
    known = tuple(image for image in own if image)
    views = () if options.views is None else activate.choose_views(known, options.views)
    activate.forced_transport(known, views, mpi.path)
    patch = activate.combined(views, environment=before)
    _judge({*patch.set, *patch.prepend, *patch.append, *patch.unset}, say)
    last = (images[-1], placed[-1].mount_point or "") if injected else (None, "")
    part = job_mpi.part_of(mpi, *last)
    if part:
        points = [request.mount_point or "" for request in placed]
        together = list(zip(known, points, strict=False))
        around = patch.apply(before)
        patch = patch.then(job_mpi.injection(mpi, together, part, around).all)
    if mpi.path:
        patch = patch.then(job_mpi.transport(mpi, known, part, say))
    asked = ",".join(labels) if any(labels) else ""
    return mountlist.render(placed), asked, undo.entered(before, patch)


def _load(
    requests: Sequence[MountRequest], say: Callable[[str], None], *, optional: bool
) -> tuple[Described | None, ...]:
    """Return the facts of the images about themselves.

    None for one that is not on this machine, when `optional` (nothing of it is needed here) and its
    mount point is named: the nodes may have it.
    """
    found: list[Described | None] = []
    problems: list[Problem] = []
    for request in requests:
        try:
            found.append(load_described(request.image))
        except _error() as error:
            away = error.reason in {"image-missing", "image-no-meta"}
            if not (away and optional and request.mount_point):
                problems += error.problems
                continue
            if error.reason == "image-missing":
                say(f"`{request.image}` is not on this machine")
            found.append(None)
    _raise(problems)
    return tuple(found)


def _placed(
    requests: Sequence[MountRequest],
    images: Sequence[Described | None],
    has_views: Sequence[bool],
    say: Callable[[str], None],
) -> list[MountRequest]:
    """Return the images with absolute paths and every mount point; raises BAD_MOUNT_POINT."""
    placed: list[MountRequest] = []
    problems: list[Problem] = []
    for request, image, views in zip(requests, images, has_views, strict=True):
        wanted = request.mount_point or (image.mount if image else "")
        if why := mountlist.bad_mount_point(wanted):
            problems.append(_bad_place(wanted, why, request.image))
            continue
        if views and image and wanted != image.mount and image.views:
            say(
                f"`{image.name}` was built for {image.mount}; its views name that path, "
                f"not {wanted}"
            )
        path = os.path.abspath(request.image)
        placed.append(MountRequest(image=path, mount_point=mountlist.normal(wanted)))
    problems += mountlist.clashes(placed)
    _raise(problems)
    return placed


def _bad_place(wanted: str, why: str, image: str) -> Problem:
    from stackproof.core.errors import Location, Problem, Reason  # noqa: PLC0415 - see above

    return Problem(
        reason=Reason.BAD_MOUNT_POINT,
        message=f"`{wanted}` cannot be a mount point: {why}",
        where=Location(file=image),
        hint="name another one: IMAGE:MOUNT",
    )


def _error() -> type[StackproofError]:
    """Return the class of our errors; what stands behind `except` is looked at when one comes."""
    from stackproof.core.errors import StackproofError  # noqa: PLC0415 - see above

    return StackproofError


def _raise(problems: Sequence[Problem]) -> None:
    """Raise all problems together, if there are any."""
    if problems:
        raise _error()(*problems)


def _judge(names: Collection[str], say: Callable[[str], None]) -> None:
    """Refuse what has a shell run code at once; say what changes every program."""
    for name in sorted(names):
        # Some have a twin in small letters (`prompt`, `histchars`).
        if name.upper() in _OF_SHELLS or name.upper().startswith(_OF_SHELLS_BEGIN):
            from stackproof.core.errors import Reason, fail  # noqa: PLC0415 - see above

            raise fail(
                Reason.NOT_PERMITTED,
                f"a view changes `{name}`, which a shell obeys at once, with nothing started",
                hint="`stackproof run` uses the image for one command; --no-view leaves views out",
            )
        if name in _OF_EVERY_PROGRAM:
            say(f"a view changes `{name}`: every program that you start obeys the image")


def check_names(to_set: Mapping[str, str]) -> None:
    """Raise `StackproofError` (IMAGE_NO_META) for what cannot be the name of a variable."""
    bad = [name for name in to_set if not name or "=" in name]
    if bad:
        from stackproof.core.errors import Reason, fail  # noqa: PLC0415 - see above

        raise fail(
            Reason.IMAGE_NO_META,
            f"a view sets what cannot be the name of a variable: `{bad[0]}`",
            hint="build the image again with another name",
        )
