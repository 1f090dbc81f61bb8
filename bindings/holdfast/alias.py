"""Makes ``import scorep`` and ``python -m scorep`` work without the Score-P Python bindings.

Both find :mod:`holdfast.scorep`, under its own name and once, in a program that calls ``install()``: the
kernel's workers do, and so does ``python -m holdfast.scorep``. The variable HOLDFAST_SCOREP_ALIAS asks for it
in other programs, and in those that such a program starts. There ``holdfast.pth``, which Python reads
when it starts, has a finder put behind all others, which knows only that name (``_holdfast_start.py``). Nothing of
Holdfast is imported before a program asks for it. A subinterpreter can't import its extensions at all. Without a
variable the file does nothing, so that a Python which doesn't use Holdfast is as it was.

``%load_ext jumper_extension`` finds :mod:`holdfast.monitor.extension` in the same way: in workers, after
``%load_ext holdfast``, and where the variable HOLDFAST_JUMPER_ALIAS asks for it. A package that is installed
under either name always comes first.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import os
import sys

_VARIABLE = "HOLDFAST_SCOREP_ALIAS"
_OURS = {"scorep": "holdfast.scorep", "jumper_extension": "holdfast.monitor.extension"}


class _Finder:
    """Finds our module for a name, such as ``scorep``, if no other finder has one.

    It stands first on sys.meta_path, and asks the others itself: the path finder would
    load our submodules a second time, as ``scorep.user`` and so on. It has no base class:
    importlib.abc alone takes 14 ms to import.
    """

    def __init__(self):
        self.names = set()

    def _is_ours(self, name):
        if name in sys.modules:
            return sys.modules[name] is sys.modules.get(_OURS[name])
        others = (finder for finder in sys.meta_path if finder is not self)
        specs = (
            getattr(finder, "find_spec", lambda *_: None)(name, None, None) for finder in others
        )
        return all(spec is None or spec.loader is self for spec in specs)

    def find_spec(self, fullname, path=None, target=None):
        name = fullname.partition(".")[0]
        if name not in self.names or not self._is_ours(name):
            return None
        ours = importlib.util.find_spec(_our_name(fullname))
        if ours is None:
            return None
        is_package = fullname == name and ours.submodule_search_locations is not None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=is_package)

    def create_module(self, spec):
        module = importlib.import_module(_our_name(spec.name))
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
        spec = importlib.util.find_spec(_our_name(fullname))
        return spec.loader.get_code(spec.name) if spec and spec.loader else None


def _our_name(fullname):
    name = fullname.partition(".")[0]
    return _OURS[name] + fullname[len(name) :]


_finder = _Finder()


def install() -> None:
    """Make ``import scorep`` import holdfast.scorep if no other ``scorep`` is installed.

    This applies to this program and to the Python programs that it starts.
    """
    os.environ[_VARIABLE] = "1"
    _answer("scorep")


def install_extension() -> None:
    """Make ``%load_ext jumper_extension`` load our commands if JUmPER isn't installed."""
    _answer("jumper_extension")


def late(name: str) -> importlib.machinery.ModuleSpec:
    """Return the module spec of one of our modules, for the finder in ``_holdfast_start.py``.

    It asks only if nobody else has the module.

    Parameters
    ----------
    name : str
        The other name: ``scorep`` or ``jumper_extension``.

    Returns
    -------
    importlib.machinery.ModuleSpec
        Its spec.
    """
    _answer(name)  # for its submodules
    is_package = importlib.util.find_spec(_OURS[name]).submodule_search_locations is not None
    return importlib.machinery.ModuleSpec(name, _finder, is_package=is_package)  # type: ignore[arg-type]


def _answer(name: str) -> None:
    _finder.names.add(name)
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
