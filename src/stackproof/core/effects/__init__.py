"""The only room, with `executor.py` and `cli/`, that touches the machine."""
