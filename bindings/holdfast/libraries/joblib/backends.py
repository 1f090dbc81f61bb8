"""joblib's backends, such as the one that `joblib.parallel_config(backend="threading")` keeps.

A backend refers to the run that it served last, which has a lock. It crosses without that, and the next run
sets it again. A backend that has workers is unserializable.
"""

from __future__ import annotations

import copyreg
import typing as t

from holdfast.codecs import Codec, register


class _Backends(Codec):
    types = ("joblib._parallel_backends.ParallelBackendBase",)

    def reduce(self, value: t.Any, pickler: t.Any) -> t.Any:
        cls = type(value)
        if cls.__reduce__ is not object.__reduce__ or getattr(value, "parallel", None) is None:
            return NotImplemented
        state = {name: one for name, one in vars(value).items() if name != "parallel"}
        return copyreg.__newobj__, (cls,), state  # type: ignore[attr-defined]


register(_Backends())
