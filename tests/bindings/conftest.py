"""A session and a home namespace for the tests of the bindings."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))


@pytest.fixture
def session():
    from holdfast.store import Session

    session = Session.create(label="test")
    yield session
    session.destroy()
    session.close()


@pytest.fixture
def home(session):
    from holdfast.store import Names
    from store_process import Home

    return Home(session, Names(session))
