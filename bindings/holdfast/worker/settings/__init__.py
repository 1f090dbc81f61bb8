"""The state of a process that is no variable, carried between the home and its cells (state.py)."""
