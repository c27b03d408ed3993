"""Stacks built from source by EasyBuild."""
