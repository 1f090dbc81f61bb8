"""SymPy: the generator, assumptions, printers, polynomials, units, and the numbers of dummies."""

from . import Counter, Imported, Registry, Replay, Setting

_random = Imported("sympy.core.random")

_OF_UNITS = "_quantity_dimension_map", "_quantity_scale_factors"
_SI = "sympy.physics.units.systems.si"

DECLARATIONS = (
    # Not that which the assumptions shuffle their rules by, always: no answer depends on it.
    Setting(
        "generator of random numbers",
        lambda: _random.rng.getstate(),
        lambda new: _random.rng.setstate(new),
        "sympy.core.random",
        is_drawn=True,
    ),
    Registry("assumptions", "sympy.assumptions.assume", "", ("global_assumptions",)),
    Registry(
        "units and their systems",
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
    Registry("units in the SI", _SI, "SI", _OF_UNITS, fixed=True),
    Registry("dimensions in the SI", _SI, "dimsys_SI", _OF_UNITS, fixed=True),
    Registry("settings of printers", "sympy.printing.printer", "Printer", ("_global_settings",)),
    Registry("algorithms for polynomials", "sympy.polys.polyconfig", "", ("_current_config",)),
    Replay(
        "printing",
        (("sympy", "init_printing"), ("sympy.interactive.printing", "init_printing")),
        through=True,
    ),
    Counter("sympy.core.symbol", "Dummy._base_dummy_index", is_drawn=True),
)
