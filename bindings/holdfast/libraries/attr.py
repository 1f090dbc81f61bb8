"""attrs: whether validators run."""

from . import Registry

DECLARATIONS = (Registry("validators", "attr._config", "", ("_run_validators",)),)
