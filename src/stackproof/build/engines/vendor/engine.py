"""The vendor engine: Cray MPICH of HPE's RPMs as an image, for the site that has them."""

from __future__ import annotations

from stackproof.build.engine import OCI, OWN, Container, Findings, Rows, Sources, Where, licences
from stackproof.build.engines.vendor import closure, plan, releases
from stackproof.build.engines.vendor.stack import VendorLock, VendorStack, wants
from stackproof.build.plan import Plan
from stackproof.core.errors import Problem, Reason
from stackproof.mpi import families


class VendorEngine:
    """A vendor's MPI, repackaged: nothing is compiled but the benchmark."""

    def stale(self, stack: VendorStack, lock: VendorLock) -> str:
        """See `Engine`."""
        same = lock.wants == wants(stack)
        return "" if same else "the MPI, its compiler or its parts have changed"

    def problems(self, stack: VendorStack, lock: VendorLock | None, where: Where) -> Findings:
        """See `Engine`."""
        if lock is None:
            return Findings()
        views = plan.transports_of(stack, lock).placed(where("transports"))
        notes = [Problem(reason=Reason.UNSUPPORTED, message=text) for text in lock.notes]
        scripts = [
            f"{one.filename} ({', '.join(one.scripts)})" for one in lock.packages if one.scripts
        ]
        if scripts:
            message = f"scripts of RPMs are not run: {'; '.join(scripts)}"
            notes.append(Problem(reason=Reason.UNSUPPORTED, message=message))
        return Findings(problems=views.problems, notes=(*notes, *views.notes))

    def plan(self, stack: VendorStack, lock: VendorLock | None, sources: Sources) -> Plan:
        """See `Engine`; what makes a lock is no step but a look into the RPMs."""
        if lock is None:
            raise TypeError("the plan of a vendor's MPI needs a lock")
        return plan.build_plan(stack, lock, sources)

    def rows(self, stack: VendorStack, lock: VendorLock | None) -> Rows:
        """See `Engine`."""
        rows = [
            ("stack", f"{stack.name} {stack.version}  {stack.description}".rstrip()),
            ("engine", stack.engine),
            ("machine", f"{stack.architecture}, {stack.site_facts.get('compiler', '')}"),
            ("mount", stack.mount),
            ("redistribute", "no: the image is for the site that has the RPMs"),
        ]
        if lock is None:
            return tuple(rows)
        glibc, user = closure.floor(lock)
        title = families.REGISTRY[stack.mpi_family].title
        rows += [
            ("mpi", f"{title} {lock.mpi.product_version} for {lock.compiler}"),
            ("views", ", ".join(plan.describe_image(stack, lock).views)),
            *(("rpm", f"{one.nevra}  sha256 {one.sha256}") for one in lock.packages),
            *(
                ("of the site", f"{name}  for {who}  {releases.site_package(name)}".rstrip())
                for name, who in closure.outside(stack, lock).items()
            ),
        ]
        if glibc:
            rows.append(("glibc", f"{glibc} or newer, for {user}"))
        return tuple(rows)

    def container(self, stack: VendorStack, lock: VendorLock) -> Container:
        """See `Engine`; its builder refuses Containerfiles, which would hand the files on."""
        facts = plan.mpi_facts(stack, lock)
        views = plan.describe_image(stack, lock).views
        return Container(
            views=tuple(views),
            environments={
                "": plan.environment(stack, lock),
                **{k: v.env for k, v in views.items()},
            },
            labels={
                f"{OCI}.licenses": licences(one.licence for one in lock.packages),
                f"{OWN}.mpi": f"{facts.family} {facts.version}",
                f"{OWN}.mpi.abi": families.REGISTRY[facts.family].abi,
                f"{OWN}.mpi.prefix": facts.prefix,
            },
            programs=("vendor_worker.py",),
            builder_programs=("patchelf",),
        )


ENGINE = VendorEngine()
