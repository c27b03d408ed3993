"""Why a Spack stack cannot be built that could be read: what it lacks on this site."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from stackproof.build.engines.spack import compilers
from stackproof.build.engines.spack.stack import SpackStack
from stackproof.build.engines.spack.stackinator.cluster import ClusterConfig
from stackproof.build.engines.spack.stackinator.network import VENDOR_MPIS, not_stated
from stackproof.core.errors import Problem, Reason

_UPSTREAM = "builtin"


def problems(stack: SpackStack) -> Iterator[Problem]:
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
    for _, name in unstated_vendors(stack):
        message, hint = not_stated(name, cluster)
        yield Problem(reason=Reason.SITE_INCOMPLETE, message=message, hint=hint)


def unstated_vendors(stack: SpackStack) -> Iterator[tuple[str, str]]:
    """Yield environments and what a site would have to have: Spack's packages cannot build it."""
    own = {
        path.split("/")[1].replace("_", "-")
        for repository in stack.local_repositories
        for path in repository.files
        if "/" in path
    }
    # Other repositories of packages, as sites have them, may repackage it.
    if own & VENDOR_MPIS or any(one.name != _UPSTREAM for one in stack.package_repositories):
        return
    for environment in stack.environments:
        named = {spec.split("@")[0].split()[0] for spec in environment.specs if spec.split()}
        for name in sorted(VENDOR_MPIS & named):
            body = stack.packages.get(name)
            if not (isinstance(body, Mapping) and body.get("externals")):
                yield environment.name, name
