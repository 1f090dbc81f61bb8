"""Matplotlib's parameters, its backend, and the options of the inline backend.

The inline backend tells IPython's formatters to show figures as pictures. Matplotlib imports it only when a process
makes its first figure, so a process that is given a figure would show its text. So the backend is imported before the
cell wherever the notebook has it. Carried are:

* parameters that differ from Matplotlib's own defaults;
* the backend, once it is chosen, and the options of the inline one;
* the printers of figures that IPython has made, which `set_matplotlib_formats` sets without an option.
"""

from __future__ import annotations

import copy
import functools
import importlib
import sys
import typing as t

from IPython import get_ipython
from IPython.core import pylabtools

from holdfast.carry.patches import MISSING, is_plain
from holdfast.libraries import Imported

Settings = dict[str, t.Any]

matplotlib = Imported("matplotlib")

INLINE = "matplotlib_inline.backend_inline"
_INLINE_NAMES = ("inline", "module://" + INLINE)
# These follow the backend.
_NOT_CARRIED = frozenset(("backend", "backend_fallback", "interactive"))
_CYCLE = "axes.prop_cycle"
_OPTIONS = ("close_figures", "figure_format", "print_figure_kwargs", "rc")
_PRINTERS = {one.__name__: one for one in (pylabtools.print_figure, pylabtools.retina_figure)}


# ---- the inline backend


def inline() -> Settings | None:
    """What the inline backend shows, None where it isn't imported."""
    if INLINE not in sys.modules:
        return None
    shell, options = get_ipython(), _options()
    values = {name: copy.deepcopy(getattr(options, name)) for name in _OPTIONS}
    return {
        "backend": _backend(),
        "interactive": matplotlib.is_interactive(),
        "options": {
            **{name: value for name, value in values.items() if is_plain(value)},
            "figure_formats": sorted(options.figure_formats),
        },
        "is_configurable": _is_in(shell.configurables, options),
        "printers": _printers(shell),
    }


def needs_inline(code: str) -> bool:
    """Whether a cell sets the backend's options, so that they have to be there."""
    return "InlineBackend" in code


def set_inline(new: Settings) -> None:
    """Import it, and make it that. Parameters stay, which it sets, too."""
    importlib.import_module("matplotlib")
    shell, backend, parameters = get_ipython(), new["backend"], _parameters()
    known = INLINE in sys.modules
    # If MPLBACKEND says so, this sets up the shell as well.
    backend_inline = importlib.import_module(INLINE)
    if backend is not None and (backend != _backend() or not known):
        if backend != "inline" or known or not _is_set_up(shell, backend_inline):
            pylabtools.activate_matplotlib(backend)
            backend_inline.configure_inline_support(shell, backend)
    matplotlib.interactive(new["interactive"])
    options = _options()
    for name, value in new["options"].items():
        value = set(value) if name == "figure_formats" else value
        if getattr(options, name) != value:
            setattr(options, name, value)
    if new["is_configurable"] and not _is_in(shell.configurables, options):
        options.shell = shell
        shell.configurables.append(options)
    _set_printers(new["printers"], shell)
    _set_parameters(parameters)


def _is_in(parts: list[t.Any], wanted: t.Any) -> bool:
    return any(one is wanted for one in parts)


def _printers(shell: t.Any) -> dict[str, t.Any]:
    """Those that IPython has made for figures: by the formatter, the function's name and its arguments."""
    figure = _figure()
    found = {
        kind: _parts_of(formatter.type_printers[figure])
        for kind, formatter in shell.display_formatter.formatters.items()
        if figure in formatter.type_printers
    }
    return {kind: parts for kind, parts in found.items() if parts is not None}


def _set_printers(new: dict[str, t.Any], shell: t.Any) -> None:
    figure, old = _figure(), _printers(shell)
    for kind, formatter in shell.display_formatter.formatters.items():
        if kind in new and new[kind] != old.get(kind):
            name, keywords = new[kind]
            formatter.type_printers[figure] = functools.partial(_PRINTERS[name], **keywords)
        elif kind in old and kind not in new:
            del formatter.type_printers[figure]


def _parts_of(printer: t.Any) -> t.Any:
    name = getattr(getattr(printer, "func", None), "__name__", "")
    if type(printer) is not functools.partial or _PRINTERS.get(name) is not printer.func:
        return None
    if printer.args or not is_plain(printer.keywords):
        return None
    return name, copy.deepcopy(printer.keywords)


def _figure() -> t.Any:
    return vars(sys.modules.get("matplotlib.figure", sys)).get("Figure")


def _is_set_up(shell: t.Any, backend_inline: t.Any) -> bool:
    return backend_inline.flush_figures in shell.events.callbacks["post_execute"]


def _options() -> t.Any:
    from matplotlib_inline.config import InlineBackend

    return InlineBackend.instance()


def _backend() -> str | None:
    """The backend's name, None while it is not chosen; asking Matplotlib would choose one."""
    name = dict.__getitem__(matplotlib.rcParams, "backend")
    if name in _INLINE_NAMES:
        return "inline"
    return name if isinstance(name, str) else None


# ---- parameters


def parameters() -> Settings:
    """Those that are plain values, and the backend."""
    return {"rc": _parameters(), "backend": _backend()}


def set_parameters(new: Settings) -> None:
    """The backend comes first: before a value makes a figure for another one."""
    if new["backend"] not in (None, "inline", _backend()):
        matplotlib.use(new["backend"])
    _set_parameters(new["rc"])


def _parameters() -> Settings:
    """Those that differ from the defaults and are plain values, but for the cycle of properties."""
    changed = _differing()
    if _CYCLE in changed:
        changed[_CYCLE] = changed[_CYCLE].by_key()
    return {key: value for key, value in changed.items() if is_plain(value)}


def _set_parameters(new: Settings) -> None:
    old = _parameters()
    for key in old.keys() - new.keys():
        matplotlib.rcParams[key] = matplotlib.rcParamsDefault[key]
    for key, value in new.items():
        if key not in old or old[key] != value:
            cycle = matplotlib.rcsetup.cycler(**value) if key == _CYCLE else None
            matplotlib.rcParams[key] = cycle or value


def objects() -> t.Any:
    """Those that hold objects, such as the effects of `plt.xkcd()`."""
    changed = _differing().items()
    found = {key: one for key, one in changed if key != _CYCLE and not is_plain(one)}
    return found or MISSING


def set_objects(new: t.Any) -> None:
    """Make them those; others that hold objects have their defaults again."""
    wanted, now = ({} if one is MISSING else one for one in (new, objects()))
    for key in now.keys() - wanted.keys():
        matplotlib.rcParams[key] = matplotlib.rcParamsDefault[key]
    matplotlib.rcParams.update(wanted)


def held() -> t.Any:
    """What they are read from; None while Matplotlib is being imported."""
    return getattr(matplotlib, "rcParams", None)


def _differing() -> Settings:
    """Those that differ from the defaults.

    They are read as from a dict: Matplotlib's own access warns of old names, and sorts them all each time.
    """
    if held() is None:
        return {}
    default = dict(dict.items(matplotlib.rcParamsDefault))
    changed = {
        key: value
        for key, value in dict.items(matplotlib.rcParams)
        if key in default and value is not (was := default[key]) and not value == was
    }
    return {key: changed[key] for key in sorted(changed.keys() - _NOT_CARRIED)}
