"""Git repositories: a branch or tag to its commit, and a commit to a read-only tree in the cache.

Addresses are mapped to local clones by `STACKPROOF_SPACK_MIRROR`, for machines without internet.
It holds entries with commas between them; an entry is one of

    URL=PATH    this address is at that local repository
    FOLDER      a folder of clones named `<owner>+<name>`, `<owner>+<name>.git`, `<owner>/<name>`,
                `<name>` or `<name>.git` after the address; a clone may be bare, have a work tree,
                or be a folder that holds the bare clone as `repo`

A commit is fetched alone (depth 1) into `git/objects/<repository>.git` and unpacked once into
`git/trees/<repository>-<commit>`, where every build sees the same files. Their times are those of
the commit, so that what Spack derives from them stays valid.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from stackproof.build.effects import gitview
from stackproof.build.effects.workspace import locked
from stackproof.core.command import Command, Completed, EnvPatch
from stackproof.core.effects import cache_kinds, files
from stackproof.core.effects.run import Runner, run
from stackproof.core.errors import Reason, StackproofError, fail
from stackproof.core.ids import short
from stackproof.core.monitor import Event, Monitor
from stackproof.core.value import Value

MIRROR_VARIABLE = "STACKPROOF_SPACK_MIRROR"
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_ABBREVIATED = re.compile(r"[0-9a-f]{7,63}")
_TIMEOUT_S = 1800.0
_LISTED = 8
_PROTOCOLS = "file:git:http:https:ssh"
# Which settings of the user's reach git: how to get through to the network, nothing else.
_VARIABLES = (
    *(f"{name}_proxy" for name in ("http", "https", "all", "no")),
    *(f"{name}_PROXY" for name in ("HTTP", "HTTPS", "ALL", "NO")),
    "SSL_CERT_FILE", "SSL_CERT_DIR", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "SSH_AUTH_SOCK",
)  # fmt: skip


# No way to another repository may start a program of somebody else's choice.
_CLOSED = {
    "GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": _PROTOCOLS,
}  # fmt: skip
_HARMLESS = ("-c", f"core.hooksPath={os.devnull}", "-c", "core.fsmonitor=false")


class Repository(Value):
    """A repository as a recipe names it (`url`) and where it is really read (`address`)."""

    url: str
    address: str

    @property
    def local(self) -> bool:
        """Return whether it is on this machine."""
        return self.address.startswith(("/", "file://"))

    @property
    def path(self) -> Path:
        """Return where it is on this machine."""
        return Path(self.address.removeprefix("file://"))


def find(url: str) -> Repository:
    """Return where a repository is read; raises `StackproofError` for a mirror that is not there.

    A path of this machine stays what it is, made absolute.
    """
    mapped = _mapped(url)
    if mapped is not None:
        return Repository(url=url, address=mapped)
    if "://" in url or re.match(r"[\w.-]+@[\w.-]+:", url):
        return Repository(url=url, address=url)
    path = Path(url).expanduser()
    if not _git_folder(path):
        raise fail(
            Reason.FILE_MISSING,
            f"`{url}` is no git repository",
            hint="name an address (https://…) or the folder of a clone",
        )
    return Repository(url=url, address=str(path.resolve()))


def resolve(url: str, ref: str | None, *, runner: Runner = run) -> str:
    """Return the full commit id that a branch, tag or commit has now; None is the default branch.

    Raises `StackproofError`: UNKNOWN_VERSION for a ref that the repository lacks, naming what
    there is, NO_NETWORK when it does not answer.
    """
    source = find(url)
    if ref is not None and _COMMIT.fullmatch(ref):
        return ref
    found = _advertised(source, runner)
    for name in _candidates(ref):
        if name in found:
            return found[name]
    if ref is not None and _ABBREVIATED.fullmatch(ref):
        full = _expand(source, ref, found, runner)
        if full:
            return full
    raise _no_such_ref(source, ref or "HEAD", found)


def tree(
    url: str,
    commit: str,
    monitor: Monitor,
    *,
    prepare: Callable[[Path], object] | None = None,
    runner: Runner = run,
) -> Path:
    """Return the folder with the files of a commit; fetched and unpacked at most once.

    `prepare` does what is wanted with the folder before anybody else sees it.

    Raises `StackproofError`: UNKNOWN_VERSION when the repository lacks the commit, NO_NETWORK,
    DISK_FULL. Two at once: the second waits. What is in the cache needs no repository.
    """
    cache_kinds.in_use()
    objects = _objects(Repository(url=url, address=url))
    name = objects.stem
    target = cache_kinds.home("checkouts") / f"{name}-{short(commit)}"
    if target.is_dir():
        with suppress(OSError):
            os.utime(target)
        return target
    with locked(cache_kinds.locks_of("git") / name, monitor, f"another build fetches {url}"):
        if target.is_dir():
            return target
        source = find(url)
        monitor(Event(what="note", name="clone", text=f"{url} at {short(commit)}"))
        _fetch(source, commit, objects, runner)
        _unpack(objects, commit, target, prepare, runner)
    return target


def archive(url: str, commit: str, prefix: str, target: Path, monitor: Monitor) -> None:
    """Write the files of a commit below `prefix/` as a tar file: the same bytes everywhere.

    They are those of `git archive --format=tar --prefix=PREFIX/ COMMIT`, whatever the user's
    settings say. Raises `StackproofError` like `tree`.
    """
    cache_kinds.in_use()
    source = find(url)
    objects = _objects(source)
    busy = f"another build fetches {url}"
    with locked(cache_kinds.locks_of("git") / objects.stem, monitor, busy):
        _fetch(source, commit, objects, run)
        here = ("--git-dir", str(objects), "-c", "tar.umask=0002")
        options = ("--format=tar", f"--prefix={prefix}/", f"--output={target}")
        _checked((*here, "archive", *options, commit), run)


def export(url: str, commit: str, ref: str, folder: Path, monitor: Monitor) -> Path | None:
    """Put one commit of a repository into a folder of clones, found there by its address and ref.

    Returns the bare clone (`<owner>+<name>.git`); None for a path of this machine, which has no
    place in such a folder. Raises `StackproofError` like `tree`.
    """
    if "://" not in url:
        return None
    cache_kinds.in_use()
    source = find(url)
    objects = _objects(source)
    words = url.removesuffix("/").removesuffix(".git").split("/")
    target = folder / ("+".join(words[-2:] if len(words) > 4 else words[-1:]) + ".git")
    branch = "default" if ref == "HEAD" else ref
    name = f"refs/heads/{f'at-{short(commit)}' if _ABBREVIATED.fullmatch(ref) else branch}"
    busy = f"another build fetches {url}"
    with locked(cache_kinds.locks_of("git") / objects.stem, monitor, busy):
        _fetch(source, commit, objects, run)
        here = ("--git-dir", str(target))
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            _checked(("init", "--quiet", "--template=", "--bare", str(target)), run)
        given = ("--no-tags", "--depth=1", f"file://{objects}", f"+refs/kept/{commit}:{name}")
        _checked((*here, "fetch", "--quiet", *given), run)
        _checked((*here, "symbolic-ref", "HEAD", name), run)
    return target


def listed(url: str, ref: str | None, folder: str, *, runner: Runner = run) -> tuple[str, ...]:
    """Return the names in a folder of a repository, as far as this machine has it; sorted.

    Nothing is fetched: empty where neither a local clone nor the cache has the ref. `ref` is a
    branch, tag or commit, for the cache a full commit. Raises `StackproofError` as `find` does.
    """
    source = find(url)
    if not source.local and not _objects(source).is_dir():
        return ()
    with gitview.opened(source.path if source.local else _objects(source)) as view:
        for name in _candidates(ref):
            asked = ("ls-tree", "-z", "--name-only", f"{name}:{folder}", "--")
            done = _git(("--git-dir", str(view), *asked), runner)
            if done.returncode == 0:
                names = done.stdout.decode(errors="replace").split("\0")
                return tuple(sorted(name for name in names if name))
    return ()


def _objects(source: Repository) -> Path:
    """Return where the commits of a repository are kept."""
    name = f"{_slug(source.url)}-{hashlib.sha256(source.url.encode()).hexdigest()[:8]}"
    return cache_kinds.home("clones") / f"{name}.git"


def _mapped(url: str) -> str | None:
    """Return the local repository that `STACKPROOF_SPACK_MIRROR` names for an address."""
    entries = [e.strip() for e in os.environ.get(MIRROR_VARIABLE, "").split(",") if e.strip()]
    folders = []
    for entry in entries:
        address, equals, path = entry.rpartition("=")
        if not equals:
            folders.append(Path(entry))
        elif _same_address(address, url):
            found = _git_folder(Path(path))
            if found is None:
                raise fail(
                    Reason.FILE_MISSING,
                    f"`{path}` is no git repository ({MIRROR_VARIABLE} names it for `{url}`)",
                    hint="clone it there, or correct the variable",
                )
            return str(found)
    return _in_folders(url, folders) if "://" in url else None


def _in_folders(url: str, folders: list[Path]) -> str | None:
    """Return the clone of an address in folders of clones, by its name."""
    parts = url.removesuffix("/").removesuffix(".git").split("/")
    owner, name = (parts[-2], parts[-1]) if len(parts) > 3 else ("", parts[-1])
    names = [f"{stem}{end}" for stem in (f"{owner}+{name}", f"{owner}/{name}", name)
             for end in ("", ".git")]  # fmt: skip
    for folder in folders:
        if not folder.is_dir():
            raise fail(
                Reason.FILE_MISSING,
                f"`{folder}` is no folder ({MIRROR_VARIABLE} names it)",
                hint="it is a list of FOLDER or URL=PATH with commas",
            )
        found = next(filter(None, (_git_folder(folder / entry) for entry in names)), None)
        if found is not None:
            return str(found)
    return None


def _same_address(one: str, other: str) -> bool:
    def plain(text: str) -> str:
        return text.removesuffix("/").removesuffix(".git")

    return plain(one) == plain(other)


def _git_folder(path: Path) -> Path | None:
    """Return the repository at a path: a work tree, a bare one, or a folder with `repo` in it."""
    for candidate in (path, path / "repo"):
        if (candidate / ".git").exists() or (
            (candidate / "HEAD").is_file() and (candidate / "objects").is_dir()
        ):
            return candidate.resolve()
    return None


def _slug(url: str) -> str:
    words = re.sub(r"[^A-Za-z0-9]+", "-", url.removesuffix(".git")).strip("-").split("-")
    return "-".join(words[-2:])


def _refs(text: str) -> dict[str, str]:
    """Return ref -> commit of git-ls-remote(1); an annotated tag counts as the commit it names."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        commit, _, name = line.partition("\t")
        if name.endswith("^{}"):
            found[name.removesuffix("^{}")] = commit
        elif name:
            found.setdefault(name, commit)
    return found


def _advertised(source: Repository, runner: Runner) -> dict[str, str]:
    """Return the refs of a repository; raises `StackproofError` (NO_NETWORK)."""
    with _readable(source) as address:
        done = _git(("ls-remote", "--", address), runner, remote=not source.local)
    if done.returncode != 0:
        raise _unreachable(source, done)
    return _refs(done.stdout.decode(errors="replace"))


@contextmanager
def _readable(source: Repository) -> Iterator[str]:
    """Give the address at which git may read a repository."""
    if not source.local:
        yield source.address
        return
    with gitview.opened(source.path) as view:
        yield f"file://{view}"


def _candidates(ref: str | None) -> tuple[str, ...]:
    if ref is None:
        return ("HEAD",)
    return (ref, f"refs/tags/{ref}", f"refs/heads/{ref}", f"refs/remotes/origin/{ref}")


def _expand(source: Repository, ref: str, found: dict[str, str], runner: Runner) -> str | None:
    """Return the full id of an abbreviated commit: of a ref's, or of any in a local clone."""
    matches = {commit for commit in found.values() if commit.startswith(ref)}
    if len(matches) == 1:
        return matches.pop()
    if source.local:
        with gitview.opened(source.path) as view:
            asked = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
            done = _git(("--git-dir", str(view), *asked), runner)
        if done.returncode == 0:
            return done.stdout.decode().split()[-1]
    return None


def _fetch(source: Repository, commit: str, objects: Path, runner: Runner) -> None:
    """Bring one commit into the cache."""
    here = ("--git-dir", str(objects))
    if not objects.exists():
        objects.parent.mkdir(parents=True, exist_ok=True)
        _checked(("init", "--quiet", "--template=", "--bare", str(objects)), runner)
    kept = ("rev-parse", "--verify", "--quiet", f"refs/kept/{commit}")  # a fetch that was whole
    if _git((*here, *kept), runner).returncode == 0:
        return
    options = ("--quiet", "--no-tags", "--no-recurse-submodules", "--depth=1", "--")
    keep = f"+{commit}:refs/kept/{commit}"
    with _readable(source) as address:
        done = _git((*here, "fetch", *options, address, keep), runner, remote=not source.local)
    if done.returncode == 0:
        return
    text = done.stderr.decode(errors="replace")
    lacks = ("not our ref", "couldn't find remote ref", "bad object", "unadvertised object",
             "no such remote ref", "upload-pack: not our")  # fmt: skip
    if any(words in text.lower() for words in lacks):
        raise _no_such_ref(source, commit, _advertised(source, runner))
    raise _unreachable(source, done)


def _unpack(
    objects: Path,
    commit: str,
    target: Path,
    prepare: Callable[[Path], object] | None,
    runner: Runner,
) -> None:
    """Write the files of a commit, all at once or not at all."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(
            dir=target.parent, prefix=".new-", ignore_cleanup_errors=True
        ) as folder:
            work = Path(folder) / "tree"
            work.mkdir()
            index = EnvPatch(set={"GIT_INDEX_FILE": str(Path(folder) / "index")})
            where = ("--git-dir", str(objects), "--work-tree", str(work))
            _checked((*where, "checkout", "--quiet", "--force", commit, "--", "."), runner, index)
            stamp = _checked((*where, "show", "-s", "--format=%ct", commit), runner)
            _set_times(work, int(stamp.stdout.decode().split()[0]))
            if prepare is not None:
                prepare(work)
            os.replace(work, target)
    except OSError as error:
        raise files.translate(error, target) from error


def _set_times(folder: Path, seconds: int) -> None:
    for inner, _, names in os.walk(folder):
        for name in names:
            os.utime(os.path.join(inner, name), (seconds, seconds), follow_symlinks=False)


def _git(
    words: tuple[str, ...], runner: Runner, more: EnvPatch | None = None, *, remote: bool = False
) -> Completed:
    """Run git; with `remote` it has the user's settings, which say how to get through to it."""
    given = {name: os.environ[name] for name in _VARIABLES if name in os.environ} if remote else {}
    own = {} if remote else {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    return runner(
        Command(
            argv=("git", *_HARMLESS, *words),
            env=EnvPatch(set={**given, **own, **_CLOSED}).then(more or EnvPatch()),
            timeout_s=_TIMEOUT_S,
        )
    )


def _checked(words: tuple[str, ...], runner: Runner, more: EnvPatch | None = None) -> Completed:
    done = _git(words, runner, more)
    if done.returncode != 0 or done.timed_out:
        text = done.stderr.decode(errors="replace").strip()
        full = "No space left on device" in text
        raise fail(
            Reason.DISK_FULL if full else Reason.BUILD_FAILED,
            f"`git {words[-1]}` failed" if not full else "no space left for a git repository",
            detail=text or None,
            hint="free space, or set STACKPROOF_CACHE to a larger folder" if full else None,
        )
    return done


def _unreachable(source: Repository, done: Completed) -> StackproofError:
    text = done.stderr.decode(errors="replace").strip().splitlines()
    return fail(
        Reason.NO_NETWORK,
        f"the repository `{source.url}` cannot be read"
        + (f" (at `{source.address}`)" if source.address != source.url else ""),
        detail="\n".join(text[-3:]) or None,
        hint=f"connect to a network, or name a local clone in {MIRROR_VARIABLE}={source.url}=PATH",
    )


def _no_such_ref(source: Repository, ref: str, found: dict[str, str]) -> StackproofError:
    names = [
        name.removeprefix("refs/tags/").removeprefix("refs/heads/")
        for name in found
        if name.startswith(("refs/tags/", "refs/heads/"))
    ]
    import difflib  # noqa: PLC0415 - only for this message

    close = difflib.get_close_matches(ref, names, n=_LISTED) or sorted(names)[-_LISTED:]
    kind = "commit" if _COMMIT.fullmatch(ref) else "branch, tag or commit"
    return fail(
        Reason.UNKNOWN_VERSION,
        f"`{source.url}` has no {kind} `{ref}`"
        + (f" (read at `{source.address}`)" if source.address != source.url else ""),
        detail=f"it has, among others: {', '.join(close)}" if close else None,
        hint="update the clone with `git fetch --tags`, or name another commit"
        if source.local
        else "name another commit in the recipe",
    )
