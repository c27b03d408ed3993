"""What an arm can be: an image, or an MPI that is on the machine by other ways.

Members are pure: they say how a specification and a command line write an arm of their kind. How it
is made ready is in `bench/effects/`, by the same names.
"""
