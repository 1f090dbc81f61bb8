"""Which directories of recordings nobody has named, so that HOLDFAST_TRACE_LIMIT holds for them."""

import os
import types

import pytest
from holdfast.scorep import loading
from holdfast.worker.recording import Recording


VARIABLE = "SCOREP_EXPERIMENT_DIRECTORY"


@pytest.fixture
def recording(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(VARIABLE, "")  # it is as it was afterwards
    monkeypatch.delenv(VARIABLE)
    return Recording(types.SimpleNamespace(recorder=None, name_cells=lambda: None))


def open_and_close(recording):
    recording.open([])
    recording.close()
    return recording._is_automatic


@pytest.mark.parametrize("named", ["", "mine"])
def test_a_process_that_is_started_for_score_p_knows_who_named_it(recording, monkeypatch, named):
    """Score-P wants the directory at the process's start, so it stands in the environment there."""
    if named:
        monkeypatch.setenv(VARIABLE, named)
    with monkeypatch.context() as chosen:
        chosen.setattr(loading, "is_chosen", lambda: True)
        chosen.setattr(loading, "is_preloaded", lambda: False)
        chosen.setattr(loading, "needs_start", lambda: True)
        chosen.setattr(loading, "configure", lambda _arguments: None)
        assert recording.needs_restart(["--mpp=mpi"])
    assert os.environ[VARIABLE]
    assert open_and_close(recording) == (not named)
    assert "HOLDFAST_SCOREP_DIRECTORY" not in os.environ


def test_without_score_p(recording, monkeypatch):
    assert open_and_close(recording)
    monkeypatch.setenv(VARIABLE, "mine")
    assert not open_and_close(recording)
