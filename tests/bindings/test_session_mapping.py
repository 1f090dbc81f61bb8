"""holdfast.store.Session as a mapping: what one process commits, another one opens."""

import subprocess
import sys
import threading

import numpy as np
import pytest

from holdfast import store


@pytest.fixture
def mapping(session):
    with store.Session.open(session.name) as opened:
        yield opened


def in_another_process(name, code):
    program = f"from holdfast.store import Session\nwith Session.open({name!r}) as s:\n    {code}"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


def test_what_is_committed_is_there_in_another_process(mapping):
    mapping["table"] = np.arange(100_000.0)
    mapping["view"] = mapping["table"][10:]
    mapping["words"] = {"a": [1, 2]}
    assert mapping.commit() == 1
    code = "print(s['table'].sum(), s['view'].base is not None, s['words'], sorted(s))"
    said = in_another_process(mapping.name, code)
    assert said == "4999950000.0 True {'a': [1, 2]} ['table', 'view', 'words']"


def test_names_that_share_memory_share_it_again(mapping):
    mapping["table"] = np.arange(100_000.0)
    mapping["view"] = mapping["table"][10:]
    mapping.commit()
    with store.Session.open(mapping.name) as other:
        other["view"][0] = -1.0
        assert other["table"][10] == -1.0
        assert mapping["table"][10] == 10.0


def test_a_commit_without_a_change_is_none(mapping):
    assert mapping.commit() == 0
    mapping["x"] = 1
    assert mapping.commit() == mapping.commit() == 1


def test_changes_in_place_are_committed(mapping):
    mapping["x"], mapping["row"] = [1], np.zeros(5000)
    mapping.commit()
    mapping["x"].append(2)
    mapping["row"][7] = 7.0
    mapping.commit()
    assert in_another_process(mapping.name, "print(s['x'], s['row'].sum())") == "[1, 2] 7.0"


def test_a_deleted_name_is_gone(mapping):
    mapping["x"], mapping["y"] = 1, 2
    mapping.commit()
    del mapping["x"]
    mapping.commit()
    assert in_another_process(mapping.name, "print(dict(s))") == "{'y': 2}"
    with pytest.raises(KeyError):
        mapping["x"]


def test_refresh_takes_over_what_others_committed(mapping):
    mapping["x"], mapping["y"] = 1, [2]
    mapping.commit()
    with store.Session.open(mapping.name) as other:
        other["x"] = 10
        del other["y"]
        other["z"] = 3
        other.commit()
    assert mapping["x"] == 1
    assert mapping.refresh() == ["x", "y", "z"]
    assert dict(mapping) == {"x": 10, "z": 3}
    assert mapping.refresh() == []


def test_a_commit_in_between_is_a_conflict(mapping):
    mapping["x"] = 1
    mapping.commit()
    with store.Session.open(mapping.name) as other:
        other["y"] = 2
        other.commit()
    mapping["x"] = 3
    with pytest.raises(store.ConflictError):
        mapping.commit()
    mapping.refresh()
    mapping["x"] = 3
    assert mapping.commit() == 3
    assert in_another_process(mapping.name, "print(dict(s))") == "{'x': 3, 'y': 2}"


def test_what_cannot_be_stored_is_named_and_nothing_is_committed(mapping):
    mapping["x"], mapping["lock"] = 1, threading.Lock()
    with pytest.raises(store.UnserializableError, match="lock: ") as caught:
        mapping.commit()
    assert list(caught.value.reasons) == ["lock"]
    assert mapping.generation == 0
    del mapping["lock"]
    assert mapping.commit() == 1


def test_only_text_is_a_name(mapping):
    with pytest.raises(TypeError, match="a name is a str, not int"):
        mapping[3] = 1


def test_create_is_a_mapping_too_and_arrays_outlive_it():
    with store.Session.create(label="mapping") as made:
        made["x"] = np.ones(20_000)
        made.commit()
        array = made["x"]
        made.destroy()
    assert array.sum() == 20_000
    with pytest.raises(ValueError, match="closed"):
        made.commit()


def test_a_session_is_equal_to_itself_only(mapping):
    with store.Session.open(mapping.name) as other:
        assert mapping == mapping and mapping != other and len({mapping, other}) == 2
        assert mapping.name in repr(mapping)


def test_sessions_are_not_made_by_calling_the_class():
    with pytest.raises(TypeError, match="cannot create"):
        store.Session()
