"""mpmath: precision and printing of its contexts."""

from . import Registry

DECLARATIONS = (
    Registry("numbers", "mpmath", "mp", ("prec", "pretty", "trap_complex")),
    Registry("intervals", "mpmath", "iv", ("prec", "pretty")),
    Registry("floats", "mpmath", "fp", ("pretty",)),
)
