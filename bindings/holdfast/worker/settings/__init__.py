"""The state of a process that is no variable, carried between the main worker and its cells (state.py)."""
