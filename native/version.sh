#!/bin/sh
# Prints the version, which the Python package and the native parts share.
sed -n 's/^__version__ = "\(.*\)"$/\1/p' "$(dirname "$0")/../src/stackproof/__init__.py"
