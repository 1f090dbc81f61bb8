"""A session's variables in a file, read by another session."""

import pytest

from holdfast import _store
from holdfast.store import CorruptError, Error, Names, Session


def save(session, namespace, program="cpython-x"):
    names = Names(session)
    prepared = names.save(namespace, extra={"program": program, "state": {"cwd": "here"}})[
        "prepared"
    ]
    names.published(session.publish(prepared))
    return names


@pytest.fixture
def two():
    with Session.create() as one, Session.create() as other:
        yield one, other
        one.destroy()
        other.destroy()


def test_names_replace_all_and_state_stays(two, tmp_path):
    one, other = two
    path = tmp_path / "a session"
    shared = [1, 2]
    save(one, {"x": shared, "y": shared, "text": "z" * 300_000})
    info = _store._save_file(one, path)
    assert info["file_bytes"] == path.stat().st_size < 10_000 < info["data_bytes"]
    names = save(other, {"x": "old", "gone": 1})
    namespace = {"x": "old", "gone": 1}
    token, loaded = _store._load_file(other, str(path))
    assert loaded == info and other.generation == 1
    other.publish(token)
    adopted = names.adopt(namespace)
    assert set(namespace) == {"x", "y", "text"} and adopted["removed"] == ["gone"]
    assert namespace["x"] == [1, 2] and namespace["y"] is namespace["x"]
    assert list(namespace)[-2:] == ["y", "text"]
    assert names.extra("state") == {"cwd": "here"}


def test_another_interpreter_is_refused(two, tmp_path):
    one, other = two
    save(one, {"x": 1}, program="cpython-y")
    _store._save_file(one, tmp_path / "file")
    save(other, {"x": 2})
    with pytest.raises(Error, match="another version of the interpreter"):
        _store._load_file(other, tmp_path / "file")
    assert other.generation == 1 and other.info()["reserved_bytes"] == 0


def test_a_broken_file_changes_nothing(two, tmp_path):
    one, other = two
    path = tmp_path / "file"
    save(one, {"x": b"abc" * 1000})
    _store._save_file(one, path)
    names = save(other, {"x": 2})
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(CorruptError, match="cut short"):
        _store._load_file(other, path)
    with pytest.raises(OSError, match="can't read"):
        _store._load_file(other, tmp_path / "none")
    with pytest.raises(OSError, match="can't write"):
        _store._save_file(other, tmp_path / "none" / "file")
    assert names.save({"x": 3})["prepared"] is not None  # no commit is in the way
