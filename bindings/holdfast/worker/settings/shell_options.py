"""Options of IPython's parts that a notebook sets as attributes: which formats a result is shown in,
how long a list may be, whether a magic needs its percent sign.

Those of the shell itself are attributes like others (rows.py); what a formatter does for a type
is a slot (registries.py).
"""

from __future__ import annotations

import typing as t

Options = dict[str, dict[str, t.Any]]  # by the part, by the option

# `active_types` comes first: to set it switches formatters on and off.
_OF_DISPLAY = ("active_types",)
_OF_TEXT = ("pprint", "max_width", "max_seq_length", "newline", "verbose", "print_method")
_OF_FORMATTERS = ("enabled", "print_method")
_OF_MAGICS = ("auto_magic",)
_OF_COMPLETER = ("greedy", "use_jedi", "omit__names", "evaluation", "merge_completions")


def capture(shell: t.Any) -> Options:
    """Those of this process."""
    return {
        key: {name: _as_it_is(getattr(part, name)) for name in names if hasattr(part, name)}
        for key, part, names in _parts(shell)
    }


def apply(new: Options, old: Options | None, shell: t.Any) -> None:
    """Set those that differ."""
    for key, part, names in _parts(shell):
        options = new.get(key, {})
        for name in names:
            if name in options and options[name] != getattr(part, name):
                setattr(part, name, options[name])


def _as_it_is(value: t.Any) -> t.Any:
    return list(value) if isinstance(value, list) else value


def _parts(shell: t.Any) -> t.Iterator[tuple[str, t.Any, tuple[str, ...]]]:
    display = shell.display_formatter
    yield "display", display, _OF_DISPLAY
    for kind, formatter in display.formatters.items():
        yield kind, formatter, _OF_TEXT if kind == "text/plain" else _OF_FORMATTERS
    yield "ipython_display", display.ipython_display_formatter, _OF_FORMATTERS
    yield "mimebundle", display.mimebundle_formatter, _OF_FORMATTERS
    yield "magics", shell.magics_manager, _OF_MAGICS
    yield "completer", shell.Completer, _OF_COMPLETER
