"""Pillow: how its objects are encoded. None of its state is carried."""

DECLARATIONS = ()
