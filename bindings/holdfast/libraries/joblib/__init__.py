"""joblib: its configuration, and the notebook's backends and compressors."""

from holdfast.libraries import Registry

DECLARATIONS = (
    Registry("configuration", "joblib.parallel", "_backend", ("config",)),
    Registry("backends", "joblib.parallel", "", ("BACKENDS",), fixed=True, after="joblib"),
    Registry("compressors", "joblib.compressor", "", ("_COMPRESSORS",), fixed=True, after="joblib"),
)
