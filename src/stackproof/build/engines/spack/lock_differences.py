"""In what a lock of Spack's solution and the stack that it should answer differ, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stackproof.build.engines.spack import lock_files
from stackproof.build.engines.spack.stack import SpackEnvironment, SpackLock, SpackStack
from stackproof.core.versions import PackageSpec, parse_spec

_MOST = 5


def lock_differences(stack: SpackStack, lock: SpackLock) -> tuple[str, ...]:
    """Return what differs, each in a few words; never empty for a lock that was refused."""
    found = [*_clones(stack, lock), *_folders(stack, lock)]
    for environment in stack.environments:
        found += _roots(environment, lock)
    found += _targets(stack, lock)
    return tuple(found) or ("settings of packages, compilers or the recipe's own packages",)


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
    wanted = [path.removesuffix("/spack.lock") for path in lock_files(stack)]
    for folder in wanted:
        if folder not in lock.environments:
            yield f"`{folder}` is not in the lock"
    for folder in lock.environments.keys() - set(wanted):
        yield f"the lock has `{folder}` more"


def _roots(environment: SpackEnvironment, lock: SpackLock) -> Iterator[str]:
    content = lock.environments.get(f"environments/{environment.name}")
    if content is None:
        return
    solved = [str(root.get("spec", "")) for root in content.get("roots", ())]
    missing = _others(environment.specs, solved)
    more = _others(solved, environment.specs)
    if missing:
        yield f"`{environment.name}` wants {', '.join(missing[:_MOST])}"
    if more:
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
    nodes = [
        node
        for content in lock.environments.values()
        for node in content["concrete_specs"].values()
    ]
    targets = {
        target if isinstance(target, str) else str(target.get("name"))
        for node in nodes
        if not node.get("external")
        for target in [node["arch"]["target"]]
    }
    if targets and stack.target not in targets:
        yield f"it is for {stack.target}, the lock for {', '.join(sorted(targets))}"
