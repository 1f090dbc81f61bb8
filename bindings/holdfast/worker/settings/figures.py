"""Carries Matplotlib's settings: what a figure looks like, and whether it is shown as a picture.

The inline backend tells IPython's formatters to show figures as pictures. Matplotlib imports it only when a
process makes its first figure, so a process that is given a figure would show its text. So the backend is
imported before the cell wherever the notebook has it. Carried are:

* rcParams that differ from Matplotlib's own defaults;
* the backend, once it is chosen, and the options of the inline one;
* the printers of figures that IPython has made, which `set_matplotlib_formats` sets without an option.

Matplotlib is not imported for them: in a process without it they wait for its import, and are carried on as
they came. Its current figures (`plt.gcf()`) aren't carried: the inline backend closes them at the end of each
cell.
"""

from __future__ import annotations

import copy
import functools
import importlib
import sys
import typing as t

from IPython.core import pylabtools

from holdfast.base.after_import import call_after_import

from .watched import Memo, holders_in, objects_in

Settings = dict[str, t.Any]

_INLINE = "matplotlib_inline.backend_inline"
_INLINE_NAMES = ("inline", "module://" + _INLINE)
# These follow the backend.
_NOT_CARRIED = frozenset(("backend", "backend_fallback", "interactive"))
_CYCLE = "axes.prop_cycle"
_OPTIONS = ("close_figures", "figure_format", "print_figure_kwargs", "rc")
_PRINTERS = {one.__name__: one for one in (pylabtools.print_figure, pylabtools.retina_figure)}
_PLAIN = (str, int, float, bool, type(None))

_waiting: Settings | None = None


def capture(shell: t.Any) -> Settings | None:
    """The settings of this process, None if nobody has asked for any."""
    matplotlib = sys.modules.get("matplotlib")
    if matplotlib is None:
        return _waiting
    settings: Settings = {"rc": _changed(matplotlib), "backend": _backend(matplotlib)}
    if _INLINE in sys.modules:
        options = _options()
        settings["interactive"] = matplotlib.is_interactive()
        values = {name: copy.deepcopy(getattr(options, name)) for name in _OPTIONS}
        settings["inline"] = {
            **{name: value for name, value in values.items() if _is_plain(value)},
            "figure_formats": sorted(options.figure_formats),
        }
        settings["is_configurable"] = _is_in(shell.configurables, options)
        settings["printers"] = _printers(shell)
    return settings


def apply(new: Settings, shell: t.Any) -> None:
    """Make this process's settings those, now or once Matplotlib is imported."""
    global _waiting
    if "matplotlib" in sys.modules:
        _waiting = None
        if "inline" in new:
            _apply_backend(new, shell)
        _apply_rc(new)
        return
    if _waiting is None:
        call_after_import("matplotlib", _apply_waiting)
    _waiting = new


def settle(shell: t.Any, code: str = "") -> None:
    """Apply the rest, if a value that was bound since has imported Matplotlib, or if the
    cell is about to set the backend's options."""
    if _waiting is None:
        return
    if "inline" in _waiting and "InlineBackend" in code:
        importlib.import_module("matplotlib")
    if "matplotlib" in sys.modules:
        apply(_waiting, shell)


def _apply_waiting() -> None:
    # The backend can't be imported here: it needs Matplotlib, which is on its way.
    _apply_rc(_waiting or {})


def _apply_backend(new: Settings, shell: t.Any) -> None:
    import matplotlib

    known = _INLINE in sys.modules
    # If MPLBACKEND says so, this sets up the shell as well.
    backend_inline = importlib.import_module(_INLINE)
    backend = new["backend"]
    if backend is not None and (backend != _backend(matplotlib) or not known):
        if backend != "inline" or known or not _is_set_up(shell, backend_inline):
            pylabtools.activate_matplotlib(backend)
            backend_inline.configure_inline_support(shell, backend)
    matplotlib.interactive(new["interactive"])
    options = _options()
    for name, value in new["inline"].items():
        value = set(value) if name == "figure_formats" else value
        if getattr(options, name) != value:
            setattr(options, name, value)
    if new["is_configurable"] and not _is_in(shell.configurables, options):
        options.shell = shell
        shell.configurables.append(options)
    _set_printers(new["printers"], shell)


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
    is_plain = not printer.args and _is_plain(printer.keywords)
    return (name, copy.deepcopy(printer.keywords)) if is_plain else None


def _figure() -> t.Any:
    return vars(sys.modules.get("matplotlib.figure", sys)).get("Figure")


def _is_set_up(shell: t.Any, backend_inline: t.Any) -> bool:
    return backend_inline.flush_figures in shell.events.callbacks["post_execute"]


def _options() -> t.Any:
    from matplotlib_inline.config import InlineBackend

    return InlineBackend.instance()


def _backend(matplotlib: t.Any) -> str | None:
    """The backend's name, None while it is not chosen; asking Matplotlib would choose one."""
    name = dict.__getitem__(matplotlib.rcParams, "backend")
    if name in _INLINE_NAMES:
        return "inline"
    return name if isinstance(name, str) else None


def _apply_rc(settings: Settings) -> None:
    matplotlib = sys.modules["matplotlib"]
    backend = settings.get("backend")
    if backend not in (None, "inline", _backend(matplotlib)):
        matplotlib.use(backend)  # before a value makes a figure for another one
    new = settings.get("rc", {})
    old = _changed(matplotlib)
    for key in old.keys() - new.keys():
        matplotlib.rcParams[key] = matplotlib.rcParamsDefault[key]
    for key, value in new.items():
        if key not in old or old[key] != value:
            cycle = matplotlib.rcsetup.cycler(**value) if key == _CYCLE else None
            matplotlib.rcParams[key] = cycle or value


def _changed(matplotlib: t.Any) -> Settings:
    """The rcParams that differ from the defaults and are plain values, but for the cycle of properties."""
    changed = _differing(matplotlib)
    if _CYCLE in changed:
        changed[_CYCLE] = changed[_CYCLE].by_key()
    return {key: value for key, value in changed.items() if _is_plain(value)}


def objects() -> dict[str, t.Any]:
    """The rcParams that hold objects, such as the effects of `plt.xkcd()`."""
    changed = _differing(sys.modules["matplotlib"])
    return {key: one for key, one in changed.items() if key != _CYCLE and not _is_plain(one)}


def set_objects(new: dict[str, t.Any]) -> None:
    """Make them those; others that hold objects have their defaults again."""
    matplotlib = sys.modules["matplotlib"]
    for key in objects().keys() - new.keys():
        matplotlib.rcParams[key] = matplotlib.rcParamsDefault[key]
    matplotlib.rcParams.update(new)


def _differing(matplotlib: t.Any) -> Settings:
    """The rcParams that differ from the defaults.

    They are read as from a dict: Matplotlib's own access warns of old names, and sorts them all each time.
    """
    if not hasattr(matplotlib, "rcParams"):  # it is being imported
        return {}
    return dict(_read_differing())


def _read_params() -> Settings:
    matplotlib = sys.modules["matplotlib"]
    default = dict(dict.items(matplotlib.rcParamsDefault))
    changed = {
        key: value
        for key, value in dict.items(matplotlib.rcParams)
        if key in default and value is not (was := default[key]) and not value == was
    }
    return {key: changed[key] for key in sorted(changed.keys() - _NOT_CARRIED)}


def _params() -> list[t.Any] | None:
    """What they are read from."""
    matplotlib = sys.modules["matplotlib"]
    found: list[t.Any] = []
    for params in (matplotlib.rcParams, matplotlib.rcParamsDefault):
        found += holders_in(params)
        for value in dict.values(params):
            inner = [] if _is_plain(value) else objects_in(value)
            if inner is None:
                return None
            found += inner
    return found


_read_differing = Memo(_read_params, lambda: sys.modules["matplotlib"].rcParams, _params)


def _is_plain(value: object) -> bool:
    if isinstance(value, dict):
        return all(_is_plain(key) and _is_plain(part) for key, part in value.items())
    if isinstance(value, (list, tuple, set)):
        return all(_is_plain(part) for part in value)
    return type(value) in _PLAIN
