"""NumPy: errors, printing, buffers, and the generator behind `np.random`.

A generator that a variable holds is a value like others. What `errstate` and `printoptions` set in a `with`
ends with it.
"""

from __future__ import annotations

import typing as t

from holdfast.libraries import MISSING, Imported, Registry, Setting, functions

np = Imported("numpy")
random = Imported("numpy.random")
_polynomial = Imported("numpy.polynomial")

_FIRST_GENERATOR = "MT19937"
_FUNCTIONS = frozenset(("formatter", "override_repr"))  # of the print options: the notebook's own


def _generator() -> t.Any:
    """The state of NumPy's own generator; another one is a value."""
    state = random.get_state(legacy=False)
    if state["bit_generator"] != _FIRST_GENERATOR:
        return None
    inner = state["state"]
    return inner["key"].tobytes(), inner["pos"], state["has_gauss"], state["gauss"]


def _set_generator(new: t.Any) -> None:
    if random.get_state(legacy=False)["bit_generator"] != _FIRST_GENERATOR:
        random.set_bit_generator(random.MT19937())
    keys, position, has_gauss, gauss = new
    state = np.frombuffer(keys, dtype=np.uint32)
    random.set_state((_FIRST_GENERATOR, state, position, has_gauss, gauss))


def _bits() -> t.Any:
    """The generator, if it isn't of the kind that NumPy begins with."""
    bits = random.get_bit_generator()
    return MISSING if type(bits) is random.MT19937 else bits


def _set_bits(new: t.Any) -> None:
    if new is not MISSING:
        random.set_bit_generator(new)
    elif _bits() is not MISSING:
        random.set_bit_generator(random.MT19937())


def _printing() -> dict[str, t.Any]:
    return {name: one for name, one in np.get_printoptions().items() if name not in _FUNCTIONS}


def _set_printing(new: dict[str, t.Any]) -> None:
    current = np.get_printoptions()
    np.set_printoptions(**new, **{name: current[name] for name in _FUNCTIONS & current.keys()})


def _print_functions() -> t.Any:
    options = np.get_printoptions()
    found = {name: options.get(name) for name in _FUNCTIONS}
    return found if any(found.values()) else MISSING


def _set_print_functions(new: t.Any) -> None:
    options = np.get_printoptions()
    found = dict.fromkeys(_FUNCTIONS) if new is MISSING else new
    np.set_printoptions(**options | {name: one for name, one in found.items() if name in options})


def _polynomial_style() -> str:
    return "unicode" if _polynomial._polybase.ABCPolyBase._use_unicode else "ascii"


DECLARATIONS = (
    Setting("state of the generator", _generator, _set_generator, "numpy.random", is_drawn=True),
    Setting("kind of the generator", _bits, _set_bits, "numpy.random", has_values=True),
    Setting("print options", _printing, _set_printing),
    Setting(
        "functions among the print options", _print_functions, _set_print_functions, has_values=True
    ),
    Setting("error handling", lambda: dict(np.geterr()), lambda new: np.seterr(**new)),
    Setting(
        "error callback",
        lambda: np.geterrcall() or MISSING,
        lambda new: np.seterrcall(None if new is MISSING else new),
        has_values=True,
    ),
    functions("buffers", "numpy", "getbufsize", "setbufsize"),
    Setting(
        "style of polynomials",
        _polynomial_style,
        lambda new: _polynomial.set_default_printstyle(new),
        "numpy.polynomial",
    ),
    Registry("text for masked values", "numpy.ma.core", "masked_print_option"),
)
