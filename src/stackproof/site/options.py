"""Options of `site`."""

from __future__ import annotations

from stackproof.core.options import Options, argument, flag, option


class SiteProbeOptions(
    Options, run="site.cli.site:run_probe", text="look at this machine and say what it offers"
):
    """What is looked at, and what becomes of it."""

    json: bool = flag("print the site as JSON")
    yaml: bool = flag("print a site file to start from", excludes="json")
    capture: bool = flag("print what was read, to be read elsewhere", excludes="json")
    capture_file: str | None = option(
        "FILE", "read a capture of another machine instead of this machine", words="--from"
    )
    missing: str | None = option(
        "SITE.yaml", "print what the machine says and a site file does not state, as lines to "
        "paste into it; the name of a shipped site does as well (default: print all)",
        excludes="yaml",
    )  # fmt: skip
    part: str | None = option(
        ("login", "node", "both"), "what this is, with --missing: a login node, a node in a job, "
        "or a machine without a scheduler; default: found out",
    )  # fmt: skip
    partition: str | None = option(
        "NAME", "which of the site file's `partitions` this node is of, with --missing; default: "
        "the only one, or that of the job's queue",
    )  # fmt: skip


class SiteListOptions(
    Options, run="site.cli.site:run_list", text="list the sites that come with stackproof"
):
    """How the sites are listed."""

    json: bool = flag("print the list as JSON")


class SiteShowOptions(
    Options, run="site.cli.site:run_show", text="show the facts of a site and where each is from"
):
    """Which site is shown."""

    site: str = argument("NAME|FILE", "a shipped site's name or a site file")
    json: bool = flag("print the site as JSON")
    yaml: bool = flag("print its file, to start from", excludes="json")


class SiteCheckOptions(
    Options,
    run="site.cli.site:run_check",
    text="say whether a site file is valid, with every problem at once",
):
    """Which site is checked."""

    site: str = argument("FILE", "a site file")


class SpackConfigOptions(
    Options,
    run="build.cli.site_spack_config:run",
    text="write a cluster configuration for Spack stacks: compilers, external packages, MPIs",
):
    """Of which site the configuration is, and where it goes."""

    output: str | None = option(
        "DIR", "folder to write; default: print the documents", words="-o --output"
    )
    site: str | None = option("NAME|FILE", "a shipped site's name or a site file; default: here")


ACTIONS = {
    "probe": SiteProbeOptions,
    "ls": SiteListOptions,
    "show": SiteShowOptions,
    "check": SiteCheckOptions,
    "spack-config": SpackConfigOptions,
}
