"""Debugging: the seat of the debugger, in the assistant, and what it debugs, in every worker."""
