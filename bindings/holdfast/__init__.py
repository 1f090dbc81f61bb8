"""Holdfast keeps a notebook's globals in shared memory.

`holdfast.store` has sessions and names; `dump`, `load`, `dumps`, `loads`, `dump_module` and
`load_module` make the package a marshaller in the manner of pickle, for programs that take
one by its name. `publish` saves a notebook's variables now.
"""

import os as _os

from ._store import __version__
from .errors import *  # noqa: F403

TYPE_CHECKING = False  # a checker believes otherwise; `typing` takes 5 ms
if TYPE_CHECKING:
    from .commands.history import publish
    from .marshal import dump, dump_module, dumps, load, load_module, loads

__all__ = [
    "__version__",
    "dump",
    "dump_module",
    "dumps",
    "get_include",
    "load",
    "load_module",
    "loads",
    "publish",
]


def get_include() -> str:
    """Return the directory of the C headers that came with this package.

    Returns
    -------
    str
        An absolute path, for a compiler's ``-I``: it contains ``holdfast/store.h`` and others.
    """
    return _os.path.join(_os.path.dirname(__file__), "include")


def load_ipython_extension(shell):
    """Add the monitor's commands to a shell: ``%load_ext holdfast``.

    It works in every IPython. In a kernel other than ours a child process samples. A notebook's
    ``%load_ext jumper_extension`` does the same from then on.

    Parameters
    ----------
    shell : IPython.core.interactiveshell.InteractiveShell
        The shell that gets the ``%perfmonitor`` commands.
    """
    from . import alias
    from .monitor import extension

    alias.install_extension()
    extension.load_ipython_extension(shell)


def unload_ipython_extension(shell):
    """Stop watching the shell's cells: ``%unload_ext holdfast``.

    Parameters
    ----------
    shell : IPython.core.interactiveshell.InteractiveShell
        The shell that loaded the extension.
    """
    from .monitor import extension

    extension.unload_ipython_extension(shell)


def __dir__():
    """All names, for completion."""
    return sorted({*globals(), *__all__})


def __getattr__(name):
    """Import the marshaller when it is first used: a recorded script starts 40 ms earlier without."""
    if name == "publish":
        from .commands.history import publish

        return publish
    if name in __all__:
        from . import marshal

        return getattr(marshal, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
