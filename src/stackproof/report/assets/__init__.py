"""Style and script of the report, as files."""
