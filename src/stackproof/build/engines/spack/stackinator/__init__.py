"""Stackinator's recipes, versions 1, 2 and 3, to Spack stacks.

The documents of a recipe's folder and of a cluster's configuration become a `SpackStack`, unchanged
in meaning; what the versions of the language differ in is in `versions.py`. Nothing here touches
the machine: `stackproof.build.engines.spack.effects.stackinator` reads the folders.
"""
