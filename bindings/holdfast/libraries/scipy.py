"""SciPy: errors of special functions, the backend of Fourier transforms, colours of dendrograms."""

from . import Imported, Replay, Setting

_hierarchy = Imported("scipy.cluster.hierarchy")
_special = Imported("scipy.special")

DECLARATIONS = (
    Setting(
        "errors of special functions",
        lambda: _special.geterr(),
        lambda new: _special.seterr(**new),
        "scipy.special",
    ),
    Setting(
        "colours of dendrograms",
        # The module of the function is another one from SciPy 1.18 on.
        lambda: _hierarchy.set_link_color_palette.__globals__["_link_line_colors"],
        lambda new: _hierarchy.set_link_color_palette(new),
        "scipy.cluster.hierarchy",
    ),
    Replay("backend of Fourier transforms", (("scipy.fft", "set_global_backend"),)),
)
