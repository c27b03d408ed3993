"""Arguments that `check`, `plan`, `build` and others on recipes share."""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that every verb on recipes has."""
    parser.add_argument(
        "recipe",
        metavar="RECIPE",
        help="recipe file (YAML), folder of a Stackinator recipe, or name of a shipped recipe "
        "(`stackproof recipe list`)",
    )
    parser.set_defaults(root=None)  # where nothing is compiled nobody may name one
    add_site_arguments(parser)
    add_swap_arguments(parser)
    parser.add_argument(
        "--mirror",
        metavar="FILE|DIR",
        help="mirrors.yaml or cache.yaml of Spack stacks, or a folder: one of `mirror create`, or "
        "for EasyBuild any that has the source files",
    )
    parser.add_argument(
        "--from",
        dest="rpms",
        metavar="DIR",
        help="folder with the RPMs of a vendor's MPI, for recipes with `engine: vendor`",
    )
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--choose",
        metavar="AXIS=CHOICE",
        action="append",
        default=[],
        help="one combination of the recipe's matrix; once for each axis",
    )
    group.add_argument(
        "--matrix", action="store_true", help="every combination of the recipe's matrix"
    )


def add_root(parser: argparse.ArgumentParser) -> None:
    """Add the argument that names the root of an older system."""
    parser.add_argument(
        "--root",
        metavar="DIR",
        help="root folder of another system, such as an older one, to build in: its compiler, its "
        "libraries (wheels, EasyBuild); default: this machine's",
    )


def add_swap_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the words that change a package of a recipe."""
    parser.add_argument(
        "--with",
        dest="swap",
        metavar="PACKAGE=NAME[@VERSION]",
        action="append",
        default=[],
        help="another package, or version, in the place of the recipe's, such as mpi=mpich@5.0.2; "
        "`plan` says how deep that goes: inject, splice or rebuild",
    )
    parser.add_argument(
        "--with-source",
        metavar="PACKAGE=URL|FILE",
        action="append",
        default=[],
        help="build a package from this source file (EasyBuild, Spack)",
    )
    parser.add_argument(
        "--with-patch",
        metavar="PACKAGE=FILE",
        action="append",
        default=[],
        help="change a package's source by this patch (EasyBuild, Spack)",
    )


def add_site_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that say where a stack is to be built."""
    parser.add_argument(
        "--site",
        metavar="SITE",
        help="site file, name of a shipped site, or folder of a cluster configuration as "
        "Stackinator has it; default: this machine",
    )
    parser.add_argument(
        "--profile",
        metavar="FILE",
        help="a profile that `bench` wrote: its views come into the image; default: none",
    )
    parser.add_argument(
        "--fact",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="a fact that conditions of the recipe ask for, in the place of what the site says "
        "(architecture=aarch64, gpu=cuda)",
    )
