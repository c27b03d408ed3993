"""Variables by which an MPI that was moved finds its own files; jobs wait while this is read."""

OPEN_MPI = ("OPAL_PREFIX", "PMIX_PREFIX", "PRTE_PREFIX")
"""Of Open MPI 5, its PMIx and its PRRTE, whose programs and plug-ins lie in one folder."""
