"""Debugging: the debugger, which runs in the assistant, and the side of the processes that it debugs."""
