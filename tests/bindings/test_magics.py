"""The text of %holdfast."""

import types

from holdfast.magics import render


def worker(rows=(), reasons=None, generation=1, report=None):
    names = types.SimpleNamespace(listing=lambda: list(rows), reasons=reasons or {})
    session = types.SimpleNamespace(generation=generation)
    return types.SimpleNamespace(names=names, session=session, last_report=report or {})


ROW = {
    "name": "x",
    "codec": "plain",
    "bytes": 12345,
    "generation": 2,
    "type": "list",
    "where": "",
}


def test_names_and_reasons():
    lines = render([], worker([ROW], {"g": "generator"})).splitlines()
    assert lines[0].split()[:2] == ["name", "type"]
    assert lines[1].split() == ["x", "list", "plain", "12,345", "2"]
    assert lines[2] == "g stays in the plain cells: generator"


def test_chosen_names():
    text = render(["g"], worker([ROW], {"g": "generator", "h": "lock"}))
    assert "x" not in text.split() and "generator" in text and "lock" not in text
    assert "No such" in render(["nothing"], worker([ROW]))


def test_missing_fields_are_blank():
    assert "x" in render([], worker([{"name": "x", "bytes": None, "type": None}]))


def test_nothing_yet():
    assert "Nothing is in the store yet" in render([], worker(generation=0))
    assert "No instrumented cell" in render(["last"], worker())


def test_last_report():
    text = render(
        ["last"],
        worker(report={"seconds_in": 0.0123, "bytes_copied": 4096, "reason": ""}),
    )
    assert "12.3 ms" in text and "4,096" in text and "reason" not in text


def test_without_a_store():
    assert "without a store" in render([], types.SimpleNamespace(names=None))


def test_usage():
    assert "%holdfast last" in render(["help"], worker())
