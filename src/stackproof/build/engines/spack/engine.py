"""The Spack engine as every engine is asked: what is wrong, which steps, what there is to say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stackproof.build.engine import OWN, Container, Findings, Rows, Sources, Where
from stackproof.build.engines.spack import compilers, locks
from stackproof.build.engines.spack.stack import (
    Caches,
    GitSource,
    LockedClone,
    SpackEnvironment,
    SpackLock,
    SpackStack,
)
from stackproof.build.engines.spack.stackinator.cluster import ClusterConfig
from stackproof.build.engines.spack.stackinator.findings import mapping
from stackproof.build.engines.spack.stackinator.network import not_stated, unstated_vendors
from stackproof.build.plan import Plan
from stackproof.core.errors import Problem, Reason
from stackproof.core.ids import short
from stackproof.core.versions import PackageSpec, parse_spec

# What Spack asks for (https://spack.readthedocs.io/en/latest/getting_started.html, System
# Prerequisites).
_PACKAGES = (
    "bzip2", "ca-certificates", "file", "g++", "gcc", "gfortran", "git", "gzip", "libc6-dev",
    "make", "patch", "python3", "tar", "unzip", "xz-utils", "zstd",
)  # fmt: skip


class SpackEngine:
    """Packages built from source, with views, modules and metadata."""

    def stale(self, stack: SpackStack, lock: SpackLock) -> str:
        """See `Engine`."""
        from stackproof.build.engines.spack.lockplan import wants  # noqa: PLC0415 - where there is a lock

        return "" if lock.wants == wants(stack) else "; ".join(lock_differences(stack, lock))

    def problems(self, stack: SpackStack, lock: SpackLock | None, where: Where) -> Findings:
        """See `Engine`."""
        found = tuple(_problems(stack))
        if lock is None or not stack.transports:
            return Findings(problems=found)
        from stackproof.build.engines.spack import metadata  # noqa: PLC0415 - for transports alone

        views = metadata.transports_of(stack, lock).placed(where("transports"))
        return Findings(problems=(*found, *views.problems), notes=views.notes)

    def plan(self, stack: SpackStack, lock: SpackLock | None, sources: Sources) -> Plan:
        """See `Engine`; the steps that make a lock take branches and tags as they are named."""
        if lock is None:
            from stackproof.build.engines.spack import lockplan  # noqa: PLC0415 - of its only use

            return lockplan.lock_plan(stack, tuple(clones_as_named(stack)))
        from stackproof.build.engines.spack import buildplan  # noqa: PLC0415 - where there is a lock

        return buildplan.build_plan(stack, lock, sources.caches or Caches(), csrc=sources.csrc)

    def rows(self, stack: SpackStack, lock: SpackLock | None) -> Rows:
        """See `Engine`."""
        return tuple(_rows(stack, lock))

    def container(self, stack: SpackStack, lock: SpackLock) -> Container:
        """See `Engine`; what a view changes is known once it is built, and in its script."""
        names = tuple(view.name for one in stack.environments for view in one.views)
        return Container(
            views=names,
            scripts={name: f"{stack.mount}/env/{name}/activate.sh" for name in names},
            labels={f"{OWN}.system": " ".join(locks.systems(lock))},
            notes=_from_the_system(stack, lock),
            programs=("spack_worker.py",),
            builder_packages=_PACKAGES,
        )


ENGINE = SpackEngine()


def clones_as_named(stack: SpackStack) -> Iterator[LockedClone]:
    """Yield the repositories as the recipe names them: what a branch or tag is now is not asked."""
    for name, source, folder in repositories(stack):
        ref = source.commit or "HEAD"
        yield LockedClone(name=name, url=source.url, ref=ref, commit=ref, folder=folder)


def repositories(stack: SpackStack) -> Iterator[tuple[str, GitSource, str]]:
    """Yield Spack and its package repositories: name, source, and folder below the build."""
    yield "spack", stack.spack, "spack"
    for one in stack.package_repositories:
        yield one.name, one.source, f"repos/{one.name}"


def _problems(stack: SpackStack) -> Iterator[Problem]:
    """Yield why the stack cannot be built."""
    for compiler in stack.compilers:
        if compiler.external and not compilers.outside(stack, compiler.name):
            yield Problem(
                reason=Reason.INVALID_VALUE,
                message=f"the site has no `{compiler.name}` of its own that could be used",
                hint="its `packages.yaml` needs an external with `extra_attributes: compilers:`",
            )
    if not stack.environments:
        message, hint = "the stack has no environment", "add one with specs"
        yield Problem(reason=Reason.MISSING_KEY, message=message, hint=hint)
    for environment in stack.environments:
        if not environment.specs:
            message = f"environment `{environment.name}` has nothing to install"
            yield Problem(reason=Reason.INVALID_VALUE, message=message, hint="")
    cluster = ClusterConfig(name=stack.site_facts.get("cluster", "the site"))
    for _, spec in unstated_vendors(stack):
        message, hint = not_stated(spec, cluster)
        yield Problem(reason=Reason.SITE_INCOMPLETE, message=message, hint=hint)


def _from_the_system(stack: SpackStack, lock: SpackLock) -> tuple[Problem, ...]:
    outside = {
        f"{node.name} {node.version}"
        for node in locks.everything(lock, stack.mount).values()
        if node.external and node.name not in {"gcc", "glibc"}
    }
    if not outside:
        return ()
    note = Problem(
        reason=Reason.TOOL_MISSING,
        message=f"the lock takes from the system: {', '.join(sorted(outside))}",
        hint="both bases must have them; --package and --builder-package install packages",
    )
    return (note,)


def _rows(stack: SpackStack, lock: SpackLock | None) -> Iterator[tuple[str, str]]:
    """Yield what is known of a Spack stack, a word and a line for each."""
    yield "stack", f"{stack.name} {stack.version}  {stack.description}".rstrip()
    yield "engine", f"spack, generation {stack.generation}"
    target = f", {stack.target}" if stack.target else ""
    yield "machine", f"{stack.architecture}{target}"
    yield "mount", stack.mount
    commits = {clone.name: clone.commit for clone in lock.clones} if lock else {}
    yield "spack", _source(stack.spack, commits.get("spack"))
    for repository in stack.package_repositories:
        where = _source(repository.source, commits.get(repository.name))
        yield "packages", f"{repository.name}  {where}"
    for local in stack.local_repositories:
        names = dict.fromkeys(path.split("/")[1] for path in local.files)
        yield "packages", f"{local.namespace}  {', '.join(names)}"
    for compiler in stack.compilers:
        specs = "  ".join(compiler.specs)
        yield "compiler", f"{compiler.name}  {specs or 'of the machine'}"
    outside = sorted(
        name for name, body in stack.packages.items() if mapping(body).get("externals")
    )
    if outside:
        yield "external", ", ".join(outside)
    for environment in stack.environments:
        yield "environment", f"{environment.name}  {', '.join(environment.compilers)}"
        yield from (("spec", spec) for spec in environment.specs)
        if splice := environment.splice:
            yield "splice", f"{splice.built_with[0]} -> {splice.specs[0]}"
        yield from (("variant", text) for text in environment.variants)
        yield from (("view", view.name) for view in environment.views)
    hooks = (("pre-install", stack.pre_install), ("post-install", stack.post_install))
    yield from (("hook", name) for name, text in hooks if text is not None)


def _source(source: GitSource, commit: str | None) -> str:
    at = source.commit or "the default branch"
    return f"{source.url} at {at}" + (f", {short(commit)}" if commit and commit != at else "")


_MOST = 5


def lock_differences(stack: SpackStack, lock: SpackLock) -> tuple[str, ...]:
    """Return what differs, each in a few words; never empty for a lock that was refused."""
    found = (
        *_clones(stack, lock),
        *_folders(stack, lock),
        *(words for one in stack.environments for words in _roots(one, lock)),
        *_targets(stack, lock),
    )
    return found or ("settings of packages, compilers or the recipe's own packages",)


def _clones(stack: SpackStack, lock: SpackLock) -> Iterator[str]:
    wanted = {"spack": stack.spack, **{r.name: r.source for r in stack.package_repositories}}
    there = {clone.name: clone for clone in lock.clones}
    for name, source in wanted.items():
        clone, ref = there.get(name), source.commit or "HEAD"
        if clone is None:
            yield f"the repository `{name}` is not in the lock"
        elif clone.url != source.url:
            yield f"`{name}` is from {source.url}, in the lock from {clone.url}"
        elif clone.ref != ref:
            yield f"`{name}` is at {ref}, in the lock at {clone.ref}"
    for name in there.keys() - wanted.keys():
        yield f"the lock has a repository `{name}` more"


def _folders(stack: SpackStack, lock: SpackLock) -> Iterator[str]:
    wanted = locks.folders(stack)
    there = lock.environments.keys()
    yield from (f"`{folder}` is not in the lock" for folder in wanted if folder not in there)
    yield from (f"the lock has `{folder}` more" for folder in there - set(wanted))


def _roots(environment: SpackEnvironment, lock: SpackLock) -> Iterator[str]:
    content = lock.environments.get(f"environments/{environment.name}")
    if content is None:
        return
    solved = [str(root.get("spec", "")) for root in content.get("roots", ())]
    if missing := _others(environment.specs, solved):
        yield f"`{environment.name}` wants {', '.join(missing[:_MOST])}"
    if more := _others(solved, environment.specs):
        yield f"the lock has {', '.join(more[:_MOST])} in `{environment.name}`"


def _others(specs: Sequence[str], known: Sequence[str]) -> list[str]:
    """Return the specs that are not among others, whose spelling is Spack's own."""
    meant = [_meant(spec) for spec in known]
    return [spec for spec in specs if _meant(spec) not in meant]


def _meant(spec: str) -> tuple[PackageSpec, ...]:
    return tuple(sorted(parse_spec(spec), key=lambda package: package.name))


def _targets(stack: SpackStack, lock: SpackLock) -> Iterator[str]:
    if stack.target is None:
        return
    nodes = locks.everything(lock, stack.mount).values()
    targets = {node.target for node in nodes if not node.external}
    if targets and stack.target not in targets:
        yield f"it is for {stack.target}, the lock for {', '.join(sorted(targets))}"
