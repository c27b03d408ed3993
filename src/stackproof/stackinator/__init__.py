"""Stackinator's recipes, versions 1, 2 and 3, to Spack stacks.

The documents of a recipe's folder and of a cluster's configuration become a `SpackStack`, unchanged
in meaning; what the versions of the language differ in is in `versions.py`. Nothing here touches
the machine: `stackproof.host.stackinator` reads the folders.
"""

from stackproof.stackinator.cluster import ClusterConfig
from stackproof.stackinator.findings import Findings
from stackproof.stackinator.folder import Folder
from stackproof.stackinator.reader import read_recipe
from stackproof.stackinator.repositories import package_names, shadowed

__all__ = ["ClusterConfig", "Findings", "Folder", "package_names", "read_recipe", "shadowed"]
