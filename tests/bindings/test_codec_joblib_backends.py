"""joblib's backends, encoded and decoded."""

import pytest

import holdfast
from holdfast.store import Error

joblib = pytest.importorskip("joblib")


@pytest.mark.parametrize("name", ["threading", "loky"])
def test_a_backend_that_has_served_a_run_goes_on(name):
    config = joblib.parallel_config(backend=name, n_jobs=1)
    try:
        joblib.Parallel()(joblib.delayed(abs)(i) for i in range(2))
        backend = config.parallel_config["backend"]
        copy = holdfast.loads(holdfast.dumps([backend]))[0]
        assert type(copy) is type(backend) and copy.nesting_level == backend.nesting_level
    finally:
        config.unregister()
    with joblib.parallel_config(backend=copy, n_jobs=1):
        assert joblib.Parallel()(joblib.delayed(abs)(i) for i in (-1, 2)) == [1, 2]


def test_one_with_workers_stays():
    with joblib.Parallel(n_jobs=2, backend="threading") as parallel:
        parallel(joblib.delayed(abs)(i) for i in range(2))
        with pytest.raises(Error, match="its workers belong to one process"):
            holdfast.dumps(parallel._backend)
