"""SciPy: errors of special functions, the backend of Fourier transforms, colours of dendrograms."""

from . import Imported, Registry, Replay, Setting

_special = Imported("scipy.special")

DECLARATIONS = (
    Setting(
        "errors of special functions",
        lambda: _special.geterr(),
        lambda new: _special.seterr(**new),
        "scipy.special",
    ),
    Registry("colours of dendrograms", "scipy.cluster.hierarchy", "", ("_link_line_colors",)),
    Replay("backend of Fourier transforms", (("scipy.fft", "set_global_backend"),)),
)
