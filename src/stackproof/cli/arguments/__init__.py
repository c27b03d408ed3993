"""The arguments of every verb: what each takes, and which function of which module it calls.

Help and completion need these and nothing else, so they import no code of the verbs: `run` is text,
`MODULE:FUNCTION` below `stackproof.cli`, and what an option can be is in `choices.py`.
"""
