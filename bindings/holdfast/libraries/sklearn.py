"""scikit-learn: its configuration, scorers, and the numbers of the diagrams of estimators."""

from . import Counter, Imported, Registry, Setting

sklearn = Imported("sklearn")

DECLARATIONS = (
    Setting("configuration", lambda: sklearn.get_config(), lambda new: sklearn.set_config(**new)),
    Registry("scorers", "sklearn.metrics._scorer", "", ("_SCORERS",), fixed=True),
    Counter("sklearn.utils._repr_html.estimator", "_CONTAINER_ID_COUNTER.count"),
    Counter("sklearn.utils._repr_html.estimator", "_ESTIMATOR_ID_COUNTER.count"),
)
