"""Accessors that the notebook registers with a library: `df.my` is an object of a class of the notebook's."""

from __future__ import annotations

import operator
import typing as t

from ..worker.settings.attributes import is_notebooks
from . import MISSING, Imported, Setting


def accessors(
    package: str, classes: tuple[str, ...], place: str, function: str, attribute: str
) -> Setting:
    """Declare them.

    Parameters
    ----------
    package : str
        The module that has the classes.
    classes : tuple of str
        Their names.
    place : str
        Where the functions are that add an accessor to a class.
    function : str
        The name of such a function; `{}` stands for that of the class.
    attribute : str
        That of the descriptor in the library's class, which has the notebook's class.

    Returns
    -------
    Setting
        The notebook's accessors.
    """
    module = Imported(package)

    def get() -> t.Any:
        found = [
            (name, accessor, getattr(vars(cls)[accessor], attribute))
            for name, cls in _classes()
            for accessor in sorted(cls._accessors)
            if is_notebooks(getattr(vars(cls).get(accessor), attribute, None))
        ]
        return found or MISSING

    def put(new: t.Any) -> None:
        now, kinds = get(), dict(_classes())
        for name, accessor, _ in () if now is MISSING else now:
            delattr(kinds[name], accessor)
            kinds[name]._accessors.discard(accessor)
        for name, accessor, cls in () if new is MISSING else new:
            registers = operator.attrgetter(place)(module)
            getattr(registers, function.format(name.lower()))(accessor)(cls)

    def _classes() -> list[tuple[str, t.Any]]:
        return [(name, getattr(module, name)) for name in classes]

    return Setting("accessors", get, put, has_values=True)
