"""Objects in which libraries keep what the notebook has set: slots of the namespace (kept.py).

Plotly's renderers and templates, Bokeh's current document, Altair's themes: one object of a library for a
process, which functions and properties of the library change. Of each, what differs from how the process began
(or imported the library) is one value: attributes, and entries of its dicts. It is carried as any by the
codecs, with what it shares with variables, and set in the object that the other process has, which the library
may have by several names.

An object is added to the table here: the module, and its name in that.
"""

from __future__ import annotations

import collections
import operator
import sys
import typing as t

from holdfast import _owned
from holdfast._patches import MISSING, Slot

from ..bound import look


class Keeper(t.NamedTuple):
    """One such object: its module, its name there, and which of its attributes are looked at; none are named: all.

    Without a name it is the module, some of whose attributes are looked at. An attribute may be a property.
    `is_lazy` gets what an entry was when the process began, and says whether the library itself replaces that at
    its first use. Where entries are `fixed`, they are only ever replaced: the same object is the same value.
    `then` is called when something of the notebook's was set, or taken back: the library has more that follows
    from it. With a `package` it is looked at once that is imported, whose import adds to it, too.
    """

    module: str
    name: str
    attributes: tuple[str, ...] = ()
    is_lazy: t.Callable[[t.Any], bool] = lambda begun: False
    fixed: bool = False
    then: t.Callable[[], object] | None = None
    package: str = ""

    @property
    def awaited(self) -> str:
        """The module whose import has to end before."""
        return self.package or self.module


def _set_whitespace() -> None:
    """The expressions that pyparsing itself has made, too."""
    element = sys.modules["pyparsing.core"].ParserElement  # type: ignore[attr-defined]
    element.set_default_whitespace_chars(element.DEFAULT_WHITE_CHARS)


def _forget_strategies() -> None:
    """Those of types that hypothesis was asked for before."""
    core = sys.modules.get("hypothesis.strategies._internal.core")
    if core is not None:
        core.from_type.__clear_cache()


def _forget_colours() -> None:
    """What Matplotlib has made of their names."""
    sys.modules["matplotlib.colors"]._colors_full_map.cache.clear()  # type: ignore[attr-defined]


def _forget_divergences() -> None:
    """Which function PyTorch has found for two distributions."""
    sys.modules["torch.distributions.kl"]._KL_MEMOIZE.clear()  # type: ignore[attr-defined]


_GLOBAL_HOOKS = (
    "buffer_registration_hooks module_registration_hooks parameter_registration_hooks"
    " backward_pre_hooks backward_hooks is_full_backward_hook forward_pre_hooks forward_hooks"
    " forward_hooks_always_called forward_hooks_with_kwargs"
).split()
_OF_UNITS = "_quantity_dimension_map", "_quantity_scale_factors"

KEEPERS = {
    "Plotly's renderers": Keeper("plotly.io._renderers", "renderers"),
    "Plotly's templates": Keeper(
        "plotly.io._templates",
        "templates",
        ("_default", "_templates"),
        lambda begun: type(begun) is object,
    ),
    "Plotly's defaults": Keeper("plotly.io._defaults", "defaults"),
    "Plotly Express's defaults": Keeper("plotly.express._core", "defaults"),
    "Bokeh's current document": Keeper("bokeh.io.state", "", ("_STATE",)),
    "Altair's themes": Keeper("altair.vegalite.v6.theme", "themes"),
    "Altair's renderers": Keeper("altair.vegalite.v6.display", "renderers"),
    "Altair's transformers of data": Keeper("altair.vegalite.v6.data", "data_transformers"),
    "rich's console": Keeper("rich", "", ("_console",)),
    "NumPy's text for masked values": Keeper("numpy.ma.core", "masked_print_option"),
    "pandas' types of data": Keeper("pandas.core.dtypes.base", "_registry", ("dtypes",)),
    "Matplotlib's scales": Keeper(
        "matplotlib.scale", "", ("_scale_mapping", "_scale_has_axis_parameter")
    ),
    "Matplotlib's first day": Keeper("matplotlib.dates", "", ("_epoch",)),
    "Matplotlib's projections": Keeper("matplotlib.projections", "projection_registry"),
    "Keras's defaults": Keeper(
        "keras.src.backend.config", "", ("_FLOATX", "_EPSILON", "_IMAGE_DATA_FORMAT")
    ),
    "Keras's names": Keeper(
        "keras.src.backend.common.global_state",
        "GLOBAL_STATE_TRACKER",
        ("object_name_uids", "dtype_policy"),
    ),
    "Bokeh's notebook": Keeper("bokeh.io.notebook", "", ("_NOTEBOOK_LOADED",)),
    "PyTorch's hooks for all modules": Keeper(
        "torch.nn.modules.module", "", tuple(f"_global_{name}" for name in _GLOBAL_HOOKS)
    ),
    "SymPy's assumptions": Keeper("sympy.assumptions.assume", "", ("global_assumptions",)),
    "SymPy's units and their systems": Keeper(
        "sympy.physics.units",
        "UnitSystem",
        (
            "_quantity_scale_factors_global",
            "_quantity_dimensional_equivalence_map_global",
            "_quantity_dimension_global",
            "_unit_systems",
        ),
        fixed=True,
    ),
    "SymPy's units in the SI": Keeper(
        "sympy.physics.units.systems.si", "SI", _OF_UNITS, fixed=True
    ),
    "SymPy's dimensions in the SI": Keeper(
        "sympy.physics.units.systems.si", "dimsys_SI", _OF_UNITS, fixed=True
    ),
    "mpmath's numbers": Keeper("mpmath", "mp", ("prec", "pretty", "trap_complex")),
    "mpmath's intervals": Keeper("mpmath", "iv", ("prec", "pretty")),
    "mpmath's floats": Keeper("mpmath", "fp", ("pretty",)),
    "pyparsing's white space": Keeper(
        "pyparsing.core", "ParserElement", ("DEFAULT_WHITE_CHARS",), then=_set_whitespace
    ),
    "hypothesis's strategies for types": Keeper(
        "hypothesis.strategies._internal.types",
        "",
        ("_global_type_lookup",),
        fixed=True,
        then=_forget_strategies,
    ),
    "attrs's validators": Keeper("attr._config", "", ("_run_validators",)),
    "joblib's configuration": Keeper("joblib.parallel", "_backend", ("config",)),
    "joblib's backends": Keeper("joblib.parallel", "", ("BACKENDS",), fixed=True, package="joblib"),
    "joblib's compressors": Keeper(
        "joblib.compressor", "", ("_COMPRESSORS",), fixed=True, package="joblib"
    ),
    "Keras's classes": Keeper(
        "keras.src.saving.object_registration",
        "",
        ("GLOBAL_CUSTOM_OBJECTS", "GLOBAL_CUSTOM_NAMES"),
        fixed=True,
        package="keras",
    ),
    "Matplotlib's sequences of colours": Keeper(
        "matplotlib.colors", "_color_sequences", ("_color_sequences",), fixed=True
    ),
    "Matplotlib's names of colours": Keeper(
        "matplotlib.colors", "", ("_colors_full_map",), fixed=True, then=_forget_colours
    ),
    "Matplotlib's styles": Keeper("matplotlib.style", "", ("library",), fixed=True),
    "Matplotlib's writers of films": Keeper(
        "matplotlib.animation", "writers", ("_registered",), fixed=True
    ),
    "pandas' parameters of plots": Keeper("pandas.plotting._misc", "", ("plot_params",)),
    "PyTorch's classes in files": Keeper(
        "torch._weights_only_unpickler", "", ("_marked_safe_globals_set",), fixed=True
    ),
    "PyTorch's hooks for all optimizers": Keeper(
        "torch.optim.optimizer",
        "",
        ("_global_optimizer_pre_hooks", "_global_optimizer_post_hooks"),
    ),
    "PyTorch's divergences": Keeper(
        "torch.distributions.kl", "", ("_KL_REGISTRY",), fixed=True, then=_forget_divergences
    ),
    "scikit-learn's scorers": Keeper("sklearn.metrics._scorer", "", ("_SCORERS",), fixed=True),
    "SciPy's colours of dendrograms": Keeper("scipy.cluster.hierarchy", "", ("_link_line_colors",)),
    "seaborn's configuration": Keeper(
        "seaborn._core.plot", "Plot.config", ("_theme", "_display"), fixed=True
    ),
    "SymPy's settings of printers": Keeper(
        "sympy.printing.printer", "Printer", ("_global_settings",)
    ),
    "SymPy's algorithms for polynomials": Keeper(
        "sympy.polys.polyconfig", "", ("_current_config",)
    ),
}


class _Entry(t.NamedTuple):
    """The value that another attribute has had under a key since the process began."""

    attribute: str
    key: t.Any


class _Begun:
    """The earlier value of an attribute, to be compared with the present one."""

    def __init__(self, value: t.Any, fixed: bool):
        self.value = value
        self.entries: dict[t.Any, tuple[t.Any, t.Any]] = {}
        self.look: t.Any = None
        self._fixed = fixed
        self._values = list(dict.values(value)) if isinstance(value, dict) else []
        if isinstance(value, _HOLDERS):
            entries = _entries(value).items()
            self.entries = {key: (one, None if fixed else look(one)) for key, one in entries}
        else:
            self.look = look(value)

    def is_still(self, now: t.Any) -> bool:
        return _is_as(self.value, self.look, now)

    def has_all(self, now: t.Any) -> bool:
        """Whether entries that are only ever replaced are the same, seen without a step for each."""
        if not self._fixed or not isinstance(now, dict):
            return False
        if len(now) != len(self.entries) or not all(
            map(operator.is_, dict.keys(now), self.entries)
        ):
            return False
        return all(map(operator.is_, dict.values(now), self._values))


_HOLDERS = (dict, set)  # stay the objects that they are


def _entries(holder: t.Any) -> dict[t.Any, t.Any]:
    """Of a set each item is the key of itself. What a class does to read its own dict isn't asked for."""
    if not isinstance(holder, dict):
        return {item: item for item in holder}
    is_ordered = isinstance(holder, collections.OrderedDict)
    return dict(holder if is_ordered else dict.items(holder))


def _is_as(value: t.Any, looked: t.Any, now: t.Any) -> bool:
    """Whether it is what it was; what shows nothing of itself is the same if it is the same object."""
    if looked is None:
        return now is value
    return looked == look(now)


class _Kept:
    """One of them, and how it was when the process began or the library was imported."""

    def __init__(self, keeper: Keeper):
        self._keeper = keeper
        self._begun: dict[str, _Begun] = {}
        self._was_set = False

    def slot(self) -> Slot:
        return Slot(self._keeper.awaited, self._read, self._write)

    def begin(self) -> None:
        """Nothing of the notebook's has used it."""
        module, keeper, attributes = self._keeper.module, self._keeper.name, self._attributes()
        self._begun = {name: _Begun(one, self._keeper.fixed) for name, one in attributes.items()}
        if keeper:
            _owned.know(module, keeper)
            return
        for name, value in attributes.items():
            if isinstance(value, _HOLDERS):
                _owned.know(module, name)

    def _holder(self) -> t.Any:
        found: t.Any = sys.modules[self._keeper.module]
        for step in filter(None, self._keeper.name.split(".")):
            found = getattr(found, "__dict__", {}).get(step)
        return found

    def _attributes(self) -> dict[str, t.Any]:
        holder = self._holder()
        names = self._keeper.attributes or [
            *getattr(holder, "__dict__", ()),
            *getattr(type(holder), "__slots__", ()),
        ]
        return {name: getattr(holder, name) for name in names if hasattr(holder, name)}

    # ---- what differs

    def _read(self) -> t.Any:
        found, entries = {}, {}
        for name, now in self._attributes().items():
            begun = self._begun.get(name)
            if begun is not None and _is_refilled(begun.value, now):
                if differing := self._differing(begun, now):
                    entries[name] = differing
            elif begun is None or not begun.is_still(now):
                found[name] = now
        if not found:
            return [found, entries] if entries else MISSING
        known = {
            id(one): _Entry(name, key)
            for name, begun in self._begun.items()
            for key, (one, _) in begun.entries.items()
            if key not in entries.get(name, ({}, []))[0]
        }
        for name, value in found.items():
            if type(value) is list:
                found[name] = [known.get(id(one), one) for one in value]
            else:
                found[name] = known.get(id(value), value)
        return [found, entries]

    def _differing(self, begun: _Begun, now: t.Any) -> t.Any:
        """The items that were put into a dict or changed there, and the keys that are gone."""
        if begun.has_all(now):
            return None
        current = _entries(now)
        put = {
            key: value
            for key, value in current.items()
            if key not in begun.entries or not self._is_kept(begun.entries[key], value)
        }
        gone = [key for key in begun.entries if key not in now]
        return (put, gone) if put or gone else None

    def _is_kept(self, begun: tuple[t.Any, t.Any], now: t.Any) -> bool:
        return self._keeper.is_lazy(begun[0]) or _is_as(*begun, now)

    # ---- setting it

    def _write(self, new: t.Any) -> None:
        found, entries = ({}, {}) if new is MISSING else new
        holder, now = self._holder(), self._attributes()
        for name, begun in self._begun.items():
            if _is_refilled(begun.value, now.get(name)) and name not in found:
                self._refill(begun, now[name], *entries.get(name, ({}, [])))
        if self._keeper.attributes:
            for name in now.keys() - found.keys() - self._begun.keys():
                delattr(holder, name)
        for name in found.keys() | self._begun.keys():
            if name in found:
                setattr(holder, name, self._resolved(found[name]))
            elif not isinstance(begun := self._begun[name].value, _HOLDERS):
                if now.get(name) is not begun:
                    setattr(holder, name, begun)
        if self._keeper.then is not None and (self._was_set or new is not MISSING):
            self._was_set = new is not MISSING
            self._keeper.then()

    def _refill(
        self, begun: _Begun, holder: t.Any, put: dict[t.Any, t.Any], gone: list[t.Any]
    ) -> None:
        """Where it has all that already, nothing is touched; else what is put comes in its own order."""
        has, lacks = self._differing(begun, holder) or ({}, [])
        if list(has) == list(put) and lacks == gone:
            if all(map(operator.is_, has.values(), put.values())):
                return
        is_dict = isinstance(holder, dict)
        for key in [key for key in holder if key not in begun.entries or key in gone]:
            holder.pop(key) if is_dict else holder.discard(key)
        if not is_dict:
            holder.update(put, (key for key in begun.entries if key not in gone))
            return
        current = _entries(holder)
        for key, (value, looked) in begun.entries.items():
            if key not in gone and key not in put:
                if key not in current or not self._is_kept((value, looked), current[key]):
                    holder[key] = value
        holder.update(put)

    def _resolved(self, value: t.Any) -> t.Any:
        if type(value) is list:
            return [self._resolved(one) for one in value]
        if type(value) is not _Entry:
            return value
        return getattr(self._holder(), value.attribute)[value.key]


def _is_refilled(begun: t.Any, now: t.Any) -> bool:
    return isinstance(begun, _HOLDERS) and type(now) is type(begun)


_kept = {name: _Kept(keeper) for name, keeper in KEEPERS.items()}


def slots() -> dict[str, Slot]:
    """Those of this process, in which nothing of the notebook's has run."""
    for name, keeper in KEEPERS.items():
        if keeper.awaited in sys.modules:
            _kept[name].begin()
    return {name: one.slot() for name, one in _kept.items()}


def awaits(module: str) -> bool:
    """Whether something is looked at in a module."""
    return module in _MODULES


def imported(module: str) -> None:
    """That has been imported just now, and nobody has used it."""
    for name, keeper in KEEPERS.items():
        if keeper.awaited == module:
            _kept[name].begin()


_MODULES = frozenset(keeper.awaited for keeper in KEEPERS.values())
