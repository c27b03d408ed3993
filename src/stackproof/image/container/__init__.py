"""Container images as file trees: archives, layers and descriptions to what a container would see.

Pure: bytes come from whoever opens files. What a file says of itself (sizes, names, links, counts)
is bounded before it is believed, so that a damaged or hostile image costs an error, never a path
outside of its root, a long loop or much memory.
"""
