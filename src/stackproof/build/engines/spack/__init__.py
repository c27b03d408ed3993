"""The Spack engine: a stack of packages built from source, with views, modules and metadata.

Everything here is pure: it renders what Spack reads, lists the commands that lock and build, and
reads Spack's lock files. `build/engines/spack/effects/worker.py` runs inside the sandbox for what
only Spack knows.
"""
