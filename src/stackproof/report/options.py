"""Options of `compare`, `report` and `image attach`."""

from __future__ import annotations

from stackproof.core import choices
from stackproof.core.options import REQUIRE_PASS, Options, argument, flag, option, part

_RESULTS = argument("RESULTS", "results folder that `bench` wrote")


class JudgingOptions(Options):
    """How results are judged."""

    margin: tuple[str, ...] = option(
        "KIND=FRACTION", "how much worse a challenger may be, such as `bandwidth=0.05` or "
        f"`latency=10%%`; kinds: {', '.join(choices.MARGINS)}; may be given several times",
    )  # fmt: skip
    minimum_launches: int | None = option(
        "N", "judge from N launches per arm on (default 10; below 5 nothing is ever judged)"
    )


class CompareRequest(Options, run="report.cli.compare:run"):
    """Results that are judged."""

    results: str = _RESULTS
    beside: str | None = option(
        "RESULTS", "print the ratios beside those of other results of the same arms, such as of "
        "another place; the exit code is that of both",
    )  # fmt: skip
    all: bool = flag(
        "print everything: the tables of the null arm (the baseline once more) and of too few "
        "launches, every undecided place, notes"
    )
    judging: JudgingOptions = part(JudgingOptions)
    require_pass: bool = REQUIRE_PASS
    json: bool = flag("print the comparison as JSON")


class ReportOptions(Options):
    """Where a report goes, and which published curves (`overlay`) it shows from the start.

    Without names of their own the data lie beside the page; Markdown is made only under a name.
    """

    output: str | None = option(
        "FILE", "the HTML file (default: report.html in the results folder)",
        words="-o --output", output="report",
    )  # fmt: skip
    overlay: tuple[str, ...] = option(
        "CURVE_ID", "show this published curve from the start; any can be chosen in the page"
    )
    json_file: str | None = option(
        "FILE", "where the comparison goes as JSON (default: beside the HTML)", output="comparison"
    )
    csv: str | None = option(
        "FILE", "where the CSV goes (default: beside the HTML)", output="points"
    )
    transports_csv: str | None = option(
        "FILE", "where every point by path goes as CSV, where arms took different paths (default: "
        "beside the HTML)", output="points",
    )  # fmt: skip
    markdown: str | None = option(
        "FILE", "write the verdict tables as Markdown; left out: no such file", output="verdicts"
    )


class ReportRequest(Options, run="report.cli.report:run"):
    """Results that are reported on."""

    results: str = _RESULTS
    report: ReportOptions = part(ReportOptions)
    json: bool = flag("print the verdict and what was written as JSON")
    judging: JudgingOptions = part(JudgingOptions)


class AttachOptions(
    Options,
    run="report.cli.attach:run",
    text="put the verdict of results beside an image, with which it goes to registries",
):
    """Results whose verdicts are put beside an image."""

    image: str = argument("IMAGE", "a label, or an image file")
    results: tuple[str, ...] = argument(
        "RESULTS", "results folder that `bench` wrote, with this image as a challenger"
    )
    force: bool = flag("replace verdicts of the same results")
    json: bool = flag("print what was attached as JSON")


ACTIONS = {"attach": AttachOptions}
