"""Recording a program, with the interface of the Score-P Python bindings.

``python -m holdfast.scorep script.py`` records a whole script. In a program,
:mod:`holdfast.scorep.user` names regions and parameters, and
:mod:`holdfast.scorep.instrumenter` switches the events of Python functions on and off.
Everything is a no-op while no recording is open, so programs keep their calls.

``open`` and ``close`` frame one recording; the kernel's workers use them.
"""

from __future__ import annotations

import atexit
import importlib.machinery
import importlib.util
import os
import sys

from holdfast import __version__, _recorder

from . import ending, instrumenter, user
from .telling import warn

__all__ = [
    "__version__",
    "close",
    "install_alias",
    "instrumenter",
    "open",
    "register",
    "unregister",
    "user",
    "user_disable_recording",
    "user_enable_recording",
    "user_parameter_int",
    "user_parameter_string",
    "user_parameter_uint",
    "user_region_begin",
    "user_region_end",
]

# Neither our own functions nor the import system's are the program's. But what runs
# inside a decorator or an import is: those are left out by themselves.
_HERE = os.path.dirname(os.path.abspath(__file__))
_recorder.exclude(os.path.dirname(_HERE) + os.sep, callees=True)
_recorder.exclude(os.path.join(_HERE, "wrapping.py"))
_recorder.exclude(os.path.join(os.path.dirname(_HERE), "worker", "after_import.py"))
_recorder.exclude("<frozen importlib")


def open(directory=None, *, c_calls=False) -> str:
    """Open a recording and return its experiment directory.

    Events stay off until ``register()``; user regions are recorded from now on. The
    SCOREP_... variables say the rest; see :mod:`holdfast.scorep.settings`.

    Parameters
    ----------
    directory : str, optional
        The experiment directory; in the place of SCOREP_EXPERIMENT_DIRECTORY.
    c_calls : bool
        Record functions of extension modules as well.

    Raises
    ------
    RuntimeError
        A recording is open already, or the filter file can't be understood.
    OSError
        The directory can't be made, or the filter file not be read.
    """
    _recorder.open(directory, c_calls=c_calls)
    return _recorder.directory()


def close() -> dict | None:
    """Switch events off and write the results; see ``_recorder.close``."""
    instrumenter.unregister()
    result = _recorder.close()
    return None if result is None else dict(result)


def close_at_end() -> dict | None:
    """Close, and say on stderr what is wrong; for the end of a process. Never raises."""
    ending.unguard()
    try:
        result = close()
    except (OSError, RuntimeError, MemoryError) as error:
        warn(f"the recording could not be written: {error}")
        return None
    if result and result["collapsed"]:
        warn(f"{result['collapsed']} calls have no path of their own in {result['profile']}")
    if result and result["lost"]:
        warn(f"{result['lost']} events could not be written to {result['directory']}")
    return result


def register() -> None:
    """Record all functions from here on; opens a recording where none is."""
    if not _recorder.is_open():
        try:
            open()
        except (OSError, RuntimeError) as error:
            warn(f"nothing is recorded: {error}")
            return
        atexit.register(close_at_end)
        ending.guard(close_at_end)
    instrumenter.register()


unregister = instrumenter.unregister


# The interface of the bindings before version 2.


def user_region_begin(name: str) -> None:
    """Enter the user region `name`."""
    user.region_begin(name)


def user_region_end(name: str) -> None:
    """Leave the user region `name`."""
    user.region_end(name)


user_enable_recording = user.enable_recording
user_disable_recording = user.disable_recording
user_parameter_int = user.parameter_int
user_parameter_uint = user.parameter_uint
user_parameter_string = user.parameter_string


class _AliasFinder:
    """Gives holdfast.scorep for ``import scorep``, where no other finder has one.

    It stands first on sys.meta_path, and asks the others itself: the path finder would
    load our submodules a second time, as ``scorep.user`` and so on. It has no base class:
    importlib.abc alone takes 14 ms to import.
    """

    def _is_ours(self):
        if "scorep" in sys.modules:
            return sys.modules["scorep"] is sys.modules[__name__]
        others = (finder for finder in sys.meta_path if finder is not self)
        return not any(
            getattr(finder, "find_spec", lambda *_: None)("scorep", None, None) for finder in others
        )

    def find_spec(self, fullname, path=None, target=None):
        if fullname != "scorep" and not fullname.startswith("scorep."):
            return None
        if not self._is_ours():
            return None
        ours = __name__ + fullname[len("scorep") :]
        if importlib.util.find_spec(ours) is None:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=ours == __name__)

    def create_module(self, spec):
        module = importlib.import_module(__name__ + spec.name[len("scorep") :])
        # The import system writes its own spec into the module; keep ours to undo that.
        spec.loader_state = {
            name: getattr(module, name)
            for name in ("__name__", "__spec__", "__loader__", "__package__")
            if hasattr(module, name)
        }
        return module

    def exec_module(self, module):
        for name, value in module.__spec__.loader_state.items():
            setattr(module, name, value)

    def get_code(self, fullname):
        """The code behind ``python -m scorep``, for runpy."""
        spec = importlib.util.find_spec(__name__ + fullname[len("scorep") :])
        return spec.loader.get_code(spec.name) if spec and spec.loader else None


_alias = _AliasFinder()


def install_alias() -> None:
    """Let ``import scorep`` give this package where no other ``scorep`` is installed."""
    if _alias not in sys.meta_path:
        sys.meta_path.insert(0, _alias)
