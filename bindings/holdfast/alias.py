"""``import scorep`` and ``python -m scorep`` where the Score-P Python bindings aren't installed.

Both give :mod:`holdfast.scorep`, under its own name and once, in a program that calls
``install()``: the kernel's workers and what ``python -m holdfast.scorep`` runs do. The variable
HOLDFAST_SCOREP_ALIAS asks for it in other programs, and tells those that such a program starts:
``holdfast-scorep.pth``, which Python reads when it starts, looks for it and for nothing else.
An installed ``scorep`` always comes first.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import os
import sys

_VARIABLE = "HOLDFAST_SCOREP_ALIAS"
_OURS = "holdfast.scorep"


class _Finder:
    """Gives holdfast.scorep for ``import scorep``, where no other finder has one.

    It stands first on sys.meta_path, and asks the others itself: the path finder would
    load our submodules a second time, as ``scorep.user`` and so on. It has no base class:
    importlib.abc alone takes 14 ms to import.
    """

    def _is_ours(self):
        if "scorep" in sys.modules:
            return sys.modules["scorep"] is sys.modules.get(_OURS)
        others = (finder for finder in sys.meta_path if finder is not self)
        return not any(
            getattr(finder, "find_spec", lambda *_: None)("scorep", None, None) for finder in others
        )

    def find_spec(self, fullname, path=None, target=None):
        if fullname != "scorep" and not fullname.startswith("scorep."):
            return None
        if not self._is_ours():
            return None
        ours = _OURS + fullname[len("scorep") :]
        if importlib.util.find_spec(ours) is None:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=ours == _OURS)

    def create_module(self, spec):
        module = importlib.import_module(_OURS + spec.name[len("scorep") :])
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
        spec = importlib.util.find_spec(_OURS + fullname[len("scorep") :])
        return spec.loader.get_code(spec.name) if spec and spec.loader else None


_finder = _Finder()


def install() -> None:
    """Let ``import scorep`` give holdfast.scorep where no other ``scorep`` is installed, here
    and in the Python programs that this one starts."""
    os.environ[_VARIABLE] = "1"
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
