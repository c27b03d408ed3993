"""BUILD: a recipe to a stack, its lock, a plan of steps, and the image that these make.

What is the same for every engine is here; what differs is in `engines`, a folder each.
"""
