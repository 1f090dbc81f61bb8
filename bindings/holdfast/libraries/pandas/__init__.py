"""pandas: options, types of data, and how dates are plotted."""

from __future__ import annotations

import typing as t

from holdfast.libraries import MISSING, Imported, Registry, Replay, Setting, set_each

pd = Imported("pandas")
_config = Imported("pandas._config.config")

_PLAIN = frozenset((bool, int, float, complex, str, bytes, type(None)))


def _all_options() -> t.Iterator[tuple[str, t.Any]]:
    """Read all options by their full names: twenty times faster than pandas returns them."""
    work = [("", pd.options.d)]
    while work:
        prefix, group = work.pop()
        for name, value in group.items():
            if isinstance(value, dict):
                work.append((f"{prefix}{name}.", value))
            else:
                yield prefix + name, value


def _options() -> dict[str, t.Any]:
    return {name: value for name, value in _all_options() if type(value) in _PLAIN}


def _function_options() -> dict[str, tuple[t.Any, t.Any]]:
    """Those that may be functions: what they are, and what they were at first."""
    registered = _config._registered_options
    return {
        name: (value, registered[name].defval)
        for name, value in _all_options()
        if callable(value) or (value is None and name in registered)
    }


def _functions() -> t.Any:
    options = _function_options().items()
    return {name: now for name, (now, was) in options if callable(now) and now != was} or MISSING


def _set_functions(new: t.Any) -> None:
    wanted = {} if new is MISSING else new
    for name, (now, was) in _function_options().items():
        value = wanted.get(name, was if callable(now) else now)
        if value is not now:
            pd.set_option(name, value)


DECLARATIONS = (
    Setting(
        "options",
        _options,
        lambda new: set_each(new, _options(), lambda name, value: pd.set_option(name, value)),
        held=lambda: pd.options.d,
    ),
    Setting(
        "functions among the options",
        _functions,
        _set_functions,
        has_values=True,
        held=lambda: pd.options.d,
    ),
    Registry("types of data", "pandas.core.dtypes.base", "_registry", ("dtypes",)),
    Registry("parameters of plots", "pandas.plotting._misc", "", ("plot_params",)),
    Replay(
        "converters for plots",
        (
            ("pandas.plotting", "register_matplotlib_converters"),
            ("pandas.plotting", "deregister_matplotlib_converters"),
        ),
        through=True,
    ),
)
