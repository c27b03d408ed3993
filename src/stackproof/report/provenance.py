"""The part of the report from which the whole comparison can be repeated."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from markupsafe import Markup

from stackproof.compare.model import NULL_FAMILY_ERROR, TAIL_ERROR, ArmLaunch, Comparison
from stackproof.core.numbers import percent_text
from stackproof.report.evidence import plain_value
from stackproof.report.markup import DASH, details, element, joined, table
from stackproof.site.sysfs import cpu_text


def provenance_part(comparison: Comparison) -> Markup:
    """Return machine, versions, images, recipes, locks, command lines and placement."""
    spec = comparison.spec
    facts = {
        **{f"machine: {key}": plain_value(value) for key, value in spec.host.items()},
        **{f"version: {key}": plain_value(value) for key, value in spec.versions.items()},
        "version: stackproof": spec.stackproof,
        "measured": spec.created,
    }
    return element(
        "section",
        element("h2", "Provenance"),
        table("Machine and versions", ("fact", "value"), _pairs(facts), class_="settings"),
        joined(_arm(comparison, arm) for arm in comparison.arms),
        _ranks(comparison),
        id="provenance",
    )


def _pairs(facts: Mapping[str, str]) -> list[list[str]]:
    return [[key, value] for key, value in facts.items() if value]


def _arm(comparison: Comparison, name: str) -> Markup:
    arm = comparison.spec.arms.get(name)
    facts: dict[str, str] = {}
    parts: list[Markup | None] = []
    if arm is not None:
        facts = {
            **({} if arm.kind == "image" else {"asked for": f"{arm.kind}: {arm.asked}"}),
            ("image" if arm.kind == "image" else "folder"): arm.image,
            ("image SHA-256" if arm.kind == "image" else "digest"): arm.image_sha256,
            **arm.found,
            "lock digest": arm.lock_digest,
            "MPI": " ".join(plain_value(value) for value in arm.mpi.values()),
            "view": arm.view or "",
        }
        if arm.recipe:
            parts += [element("h4", "Recipe"), element("pre", arm.recipe, tabindex=0)]
        if arm.lock:
            parts.append(details("Lock", element("pre", arm.lock, tabindex=0)))
    launches = [launch for launch in comparison.launches if launch.arm == name]
    return details(
        f"Arm {name}",
        table(f"Identity of {name}", ("fact", "value"), _pairs(facts), class_="settings"),
        *parts,
        element("h4", "Command lines") if launches else None,
        *(_command(launch) for launch in launches),
    )


def _command(launch: ArmLaunch) -> Markup:
    env = "".join(f"{key}={shlex.quote(value)} \\\n" for key, value in sorted(launch.env.items()))
    facts = ", ".join(f"{key} {value:g}" for key, value in sorted(launch.clock.items()))
    return element(
        "div",
        element("p", f"{launch.placement}, {launch.program}, {launch.count} launches; the first:"),
        element("pre", f"{env}{shlex.join(launch.argv)}", tabindex=0),
        element("p", f"Clock: {facts}", class_="small") if facts else None,
    )


def _ranks(comparison: Comparison) -> Markup | None:
    rows = [
        [
            launch.placement,
            launch.arm,
            launch.program,
            str(rank.rank),
            rank.host,
            _number(rank.cpu),
            cpu_text(rank.cpus) or DASH,
            _number(rank.numa),
            rank.nic or DASH,
            _number(rank.gpu),
            "; ".join(rank.wrong) or ", ".join(rank.verified) or DASH,
        ]
        for launch in comparison.launches
        for rank in launch.ranks
    ]
    if not rows:
        return None
    head = (
        "placement", "arm", "program", "rank", "host", "ran on core", "allowed cores", "NUMA",
        "NIC", "GPU", "as asked, the rank says",
    )  # fmt: skip
    return details("Placement of every rank", table("Where each rank said that it was", head, rows))


def _number(number: int | None) -> str:
    return DASH if number is None else str(number)


def repeat_part(comparison: Comparison) -> Markup:
    """Return how to measure, compare and report again."""
    spec = comparison.spec
    command = shlex.join(spec.command) if spec.command else "stackproof bench SPEC"
    lines = (
        "# measure again\n"
        f"{command}\n"
        "# judge again, from the same launches\n"
        "stackproof compare RESULTS\n"
        "# write this report again\n"
        "stackproof report RESULTS"
    )
    return element(
        "section",
        element("h2", "How to repeat it"),
        element("pre", lines, tabindex=0),
        element(
            "p",
            "The images are identified by the SHA-256 above, and `stackproof build` makes the same "
            "bytes from the same recipe and lock. RESULTS is the folder that the first command "
            "wrote.",
        ),
        id="repeat",
    )


def method_part(comparison: Comparison) -> Markup:
    """Return how the verdicts were made, with every parameter that was used."""
    spec = comparison.spec
    facts = {
        "observation": "the median of one launch's samples",
        "design": f"randomised blocks, {spec.launches} launches per arm planned, block 0 left out",
        "launches needed for a verdict": str(comparison.minimum_launches),
        "ratio": "typical ratio of the two launches of a block (Huber's location of its "
        "logarithm), turned so that more than 1 is better",
        "interval": f"{comparison.confidence:.0%}, exact: what swapping the arms within blocks "
        "does not reject",
        "PASS": "the interval's lower end is not below 1 - margin",
        "FAIL": "the interval's upper end is below 1 - max(margin, noise floor), and the adjusted "
        f"p-value is at most {comparison.family_error:g} over the sizes of the curve",
        "tail": "mean and 95th percentile of samples (p99 where it is named) beside the median, by "
        "the same swaps; a FAIL of the tails of a curve is wrong with a chance of at most "
        f"{TAIL_ERROR:g} at their margin, and one that is undecided takes no PASS away unless a "
        "margin is stated for it",
        "adjusted p-value": "randomisation test, arms swapped within blocks, step-down maximum "
        "over the sizes of a curve (Westfall and Young)",
        "null arm": "must be neither slower nor faster than the baseline; judged as one family "
        f"over all curves, at {NULL_FAMILY_ERROR:g}",
        "noise floor": "largest difference of the null arm at a size and its two neighbours",
        "margins": ", ".join(
            f"{kind} {percent_text(value)}" for kind, value in comparison.margins.items()
        ),
    }
    return element(
        "section",
        element("h2", "Method"),
        table("How the verdicts were made", ("step", "rule"), _pairs(facts), class_="settings"),
        id="method",
    )
