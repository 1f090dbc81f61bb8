"""What a Python does at its start if a variable asks for it; ``holdfast.pth`` looks.

It lies beside the package, whose import takes milliseconds: with a variable alone nothing of the package is
imported before it is asked for. Without one this module isn't imported either.
"""

import os
import sys

_ASKED = {"scorep": "HOLDFAST_SCOREP_ALIAS", "jumper_extension": "HOLDFAST_JUMPER_ALIAS"}


class _Finder:
    """Stands behind all other finders, and knows the names that were asked for. See holdfast.alias."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name not in _ASKED or not os.environ.get(_ASKED[name]):
            return None
        from holdfast import alias

        return alias.late(name)


if any(map(os.environ.get, _ASKED.values())):
    sys.meta_path.append(_Finder)
if os.environ.get("HOLDFAST_RECORDING"):
    try:
        from holdfast import started_programs
    except ImportError:  # in a subinterpreter
        pass
    else:
        started_programs.join()
