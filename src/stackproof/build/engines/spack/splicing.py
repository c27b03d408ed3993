"""`splice:` of a recipe for Spack: the MPI that is put under an environment once it is built."""

from __future__ import annotations

from stackproof.build.engines.spack import mpis
from stackproof.build.engines.spack.stack import SpackEnvironment, SpackStack, Splice
from stackproof.build.engines.spack.stackinator.cluster import ClusterConfig
from stackproof.build.engines.spack.stackinator.externals import missing_external
from stackproof.build.engines.spack.stackinator.findings import FindingsList, mapping
from stackproof.build.engines.spack.stackinator.network import is_there, package_of
from stackproof.core.document import Document
from stackproof.core.errors import Reason
from stackproof.core.value import replace


def splice(
    environment: SpackEnvironment,
    stack: SpackStack,
    document: Document,
    cluster: ClusterConfig,
    findings: FindingsList,
) -> SpackEnvironment:
    """Return an environment with the MPI that `splice:` names in the place of its own.

    What its own network gets beside the MPI, the other MPI gets too, so that both have one.
    """
    where = document.where("splice", environment.name)
    spec = str(document.data["splice"][environment.name]).strip()
    own = mapping(document.data["environments"][environment.name]).get("specs") or ()
    network = environment.specs[len(own) :]
    if environment.mpi is None or not network:
        message = f"environment `{environment.name}` has no MPI to be spliced"
        findings.problem(Reason.INVALID_VALUE, message, where=where)
        return environment
    if stack.generation > 1 and not is_there(spec, cluster, findings, where):
        return environment
    if fault := missing_external(spec, stack.packages, cluster.name):
        findings.problem(Reason.INVALID_VALUE, fault[0], where=where, hint=fault[1])
    name, others = package_of(spec), environment.mpi
    reason = mpis.no_splice(
        stack.generation, stack.spack.commit, mpis.release(network[0]), mpis.release(spec)
    )
    if reason:
        hint = "write it as the MPI of the environment: then everything is built with it"
        findings.problem(Reason.UNSUPPORTED, reason, where=where, hint=hint)
    about = [one for one in environment.specs[: len(own)] if package_of(one) == others]
    if about and name != others:
        message = f"`{about[0]}` is about the MPI that `{spec}` takes the place of"
        findings.problem(Reason.INVALID_VALUE, message, where=where)
    return replace(
        environment,
        specs=tuple(one for one in environment.specs if one not in (*about, network[0])),
        mpi=name,
        mpi_requirement=None,
        splice=Splice(
            mpi=others,
            built_with=(network[0], *about),
            specs=(spec, *about, *network[1:]),
        ),
    )
