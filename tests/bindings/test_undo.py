"""The words of %holdfast undo and its like; tests/kernel/test_generations.py has the deeds."""

import types

import pytest
from IPython.core.error import UsageError

from holdfast.commands import history


def given(**fields):
    """What a request brings."""
    record = {"kind": "show", "steps": {}, "kept_bytes": 0, "limit_bytes": 1 << 20, "dropped": 0}
    return {**record, "undone": "", "target": 0, "unserializable": {}, "pending": "", **fields}


def worker(record=None, reasons=None, **returned):
    lists = {"changed": [], "back": [], "gone": [], **returned}
    names = types.SimpleNamespace(reasons=reasons or {})
    return types.SimpleNamespace(history=record, names=names, returned=lists)


def row(name, generation, sequence=1, where=None, **fields):
    return {"name": name, "generation": generation, "sequence": sequence, "where": where, **fields}


@pytest.mark.parametrize(
    "line", ["undo now", "checkout", "checkout -3", "diff 1 2 3", "history 1.5G", "save"]
)
def test_misuse_shows_the_use(line):
    with pytest.raises(UsageError, match=f"%holdfast {line.split()[0]}"):
        history.run(line, worker(given()))


def test_only_where_the_frontend_did_its_part():
    with pytest.raises(UsageError, match="only line"):
        history.run("undo", worker())
    with pytest.raises(UsageError, match="only line"):
        history.run("undo", types.SimpleNamespace())


def test_what_was_undone_is_reported():
    steps = {"3": {}, "5": {}, "6": {}}
    record = given(undone="4, 5", target=3, steps=steps, unserializable={"lock": "a lock"})
    lines = history.run("undo", worker(record, changed=["x", "_5"], gone=["y"])).splitlines()
    assert lines == [
        "Cells 4, 5 are undone: the variables are those of step 3.",
        "Changed: x.",
        "Gone: y.",
        "lock can't be brought back: a lock.",
        "%holdfast checkout 5 takes it back.",
    ]
    alone = history.run("checkout 3", worker({**record, "unserializable": {}}, {"lock": "a lock"}))
    assert "lock stays as it is: a lock." in alone and "Done: " in alone
    assert "The last step is undone" in history.run("undo", worker({**record, "undone": ""}))


def test_many_names_are_cut():
    record = history.run(
        "undo", worker(given(steps={"1": {}, "2": {}}), back=[f"n{i:02}" for i in range(12)])
    )
    assert "Back: n00, n01, n02, n03, n04, n05, n06, n07 and 4 more." in record


def test_names_differ_by_their_entry_or_their_group():
    before = {"a": row("a", 1), "b": row("b", 1, 2, "\0g"), "\0g": row("\0g", 1), "c": row("c", 1)}
    after = {
        **before,
        "\0g": row("\0g", 2),
        "d": row("d", 2),
        "_4": row("_4", 2),
        "\1x": row("\1x", 2),
    }
    del after["c"]
    assert history.changed_names(before, after) == ["b", "c", "d"]
    assert history.changed_names(before, before) == []


def test_the_status_line():
    assert history.summary(None) == [] and history.summary(given()) == []
    record = given(steps={"2": {}, "4": {}}, kept_bytes=2048, dropped=1)
    assert history.summary(record)[-1] == (
        "History: 2 steps (%holdfast history); 2.0 KiB kept for it, of at most 1.0 MiB; 1 older step dropped."
    )
