"""holdfast.store.Session as a mapping: what one process commits, another one opens."""

import subprocess
import sys
import threading

import foreign
import msgpack
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


# ---- entries of other programs, and names that can't be decoded ----

READABLE = {
    "raw": (1, {"payload": b"\0any\xff"}, b"\0any\xff"),
    "raw_empty": (1, {}, b""),
    "raw_buffers": (1, {"payload": b"head", "buffers": [b"a" * 5000, b"b"]}, b"head" + b"a" * 5000 + b"b"),
    "raw_large": (1, {"payload": bytes(100_000)}, bytes(100_000)),
    "map": (2, {"payload": msgpack.packb({"a": [1, 2.5, None, b"x"], 3: "y"})}, {"a": [1, 2.5, None, b"x"], 3: "y"}),
    "extension": (2, {"payload": msgpack.packb(msgpack.ExtType(5, b"z"))}, msgpack.ExtType(5, b"z")),
}  # fmt: skip
BROKEN = {
    "unknown": (777, {"payload": b"x"}, "codec 777 is not known here"),
    "unknown_own": (5, {}, "codec 5 is not known here"),
    "cut": (2, {"payload": b"\x93\x01"}, "max_array_len"),
    "unhashable": (2, {"payload": msgpack.packb({}) and b"\x81\x91\x01\x01"}, "unhashable"),
    "with_buffer": (2, {"payload": b"\x01", "buffers": [b"x"]}, "no buffers"),
    "plain": (17, {"payload": b"\xc1", "meta": b"??"}, ""),
    "array": (16, {"payload": b"", "meta": b"junk", "buffers": [b"x" * 100]}, ""),
    "pickle": (18, {"payload": b"junk", "meta": b"junk"}, ""),
    "module": (19, {"meta": msgpack.packb({"name": "no_such_module"})}, "no_such_module"),
    "no_group": (20, {"meta": b"junk"}, "without the group's key"),
    "lost_group": (
        20,
        {"meta": msgpack.packb({"group": "\0gnone"})},
        "a group of names is missing",
    ),
}


@pytest.fixture
def mixed(mapping):
    """A session with values of Python's, and with all of those."""
    mapping["own"], mapping["table"] = {"a": 1}, np.arange(3000.0)
    mapping.commit()
    for name, (codec, parts, _) in {**READABLE, **BROKEN}.items():
        foreign.put(mapping, name.encode(), codec, **parts)
    with store.Session.open(mapping.name) as opened:
        yield opened


def codecs(session):
    return {row["name"]: row["codec"] for row in store.Names(session).listing()}


@pytest.mark.parametrize("lacks", [False, True])
def test_each_name_is_decoded_by_itself(mixed, monkeypatch, lacks):
    if lacks:
        monkeypatch.setattr(store, "_LIBRARIES", ("no_such_library",))
    assert list(mixed) == ["own", "table", *READABLE, *BROKEN] and len(mixed) == len(list(mixed))
    for name, (_, _, reason) in BROKEN.items():
        for _ in range(2):
            with pytest.raises(store.Error, match=f"^{name}: .*{reason}"):
                mixed[name]
        assert name in mixed
    assert mixed["own"] == {"a": 1} and mixed["table"].sum() == sum(range(3000))
    assert {name: mixed[name] for name in READABLE} == {
        name: value for name, (_, _, value) in READABLE.items()
    }
    with pytest.raises(KeyError):
        mixed["none"]


def test_a_commit_leaves_foreign_entries_as_they_are(mixed):
    before = codecs(mixed)
    for name in READABLE:
        mixed[name]
    mixed["own"]["a"] = 2
    assert mixed.commit() == mixed.commit()
    assert codecs(mixed) == before
    mixed["map"]["a"].append(1)
    mixed["unknown"] = "now ours"
    del mixed["cut"], mixed["module"]
    mixed.commit()
    after = codecs(mixed)
    assert after.pop("map") == after.pop("unknown") == "plain"
    assert after == {
        k: v for k, v in before.items() if k not in ("map", "unknown", "cut", "module")
    }
    with store.Session.open(mixed.name) as other:
        assert other["map"]["a"][-1] == 1 and other["unknown"] == "now ours"


def test_refresh_meets_foreign_entries(mapping):
    mapping["x"], mapping["y"], mapping["gone"] = 1, [2], 3
    mapping.commit()
    with store.Session.open(mapping.name) as other:
        assert other["x"] == 1 and "gone" in other
        foreign.put(mapping, b"x", 777)
        foreign.put(mapping, b"new", 2, b"\x05")
        with store.Session.open(mapping.name) as third:
            del third["gone"]
            third.commit()
        assert other.refresh() == ["gone", "new", "x"]
        with pytest.raises(store.Error, match="^x: codec 777"):
            other["x"]
        assert other["new"] == 5 and list(other) == ["x", "y", "new"]


def test_nothing_is_decoded_that_is_not_asked_for(mapping):
    code = "s['a'] = type('T', (), {'__reduce__': lambda self: (print, ('decoded',))})(); s['b'] = 1; s.commit()"
    in_another_process(mapping.name, code)
    said = in_another_process(mapping.name, "print(list(s), s['b']); s['a']; s.get('b')")
    assert said == "['a', 'b'] 1\ndecoded"


def test_names_that_share_objects_keep_what_was_set_or_deleted(mapping):
    shared = [1]
    mapping["a"], mapping["b"], mapping["c"] = shared, [shared], (shared,)
    mapping.commit()
    with store.Session.open(mapping.name) as other:
        other["b"] = "set"
        del other["c"]
        assert other["a"] == [1] and other["b"] == "set" and "c" not in other
        other.commit()
        assert dict(other) == {"a": [1], "b": "set"}
    with store.Session.open(mapping.name) as third:
        third["b"] = "again"
        del third["b"]
        third.commit()
        assert dict(third) == {"a": [1]}
    assert in_another_process(mapping.name, "print(dict(s))") == "{'a': [1]}"


def test_a_key_that_is_no_text(mapping):
    foreign.put(mapping, b"\xff\xfe", 1, b"there")
    mapping["x"] = 1
    assert mapping["\ufffd\ufffd"] == b"there" and mapping.commit() == 2


def test_a_closed_session_says_so(mapping):
    mapping["x"] = [1]
    mapping.commit()
    closed = store.Session.open(mapping.name)
    assert closed["x"] == [1]
    closed.close()
    closed.close()
    for use in (
        closed.refresh,
        closed.commit,
        closed.all_names,
        lambda: closed["x"],
        lambda: closed.__setitem__("x", 1),
        lambda: closed.__delitem__("x"),
        lambda: "x" in closed,
        lambda: list(closed),
        lambda: len(closed),
        closed.destroy,
        closed.info,
        closed.reap,
        closed.verify,
        closed.privatize,
        lambda: closed.publish(b""),
        lambda: closed.name,
        lambda: closed.fd,
        lambda: closed.generation,
        closed.__enter__,
        lambda: store.Names(closed),
    ):
        with pytest.raises(ValueError, match="the session is closed"):
            use()
    assert repr(closed) == "<holdfast.store.Session, closed>"
