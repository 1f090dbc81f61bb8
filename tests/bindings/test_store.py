"""Sessions from Python: attaching, sizes, errors, and regions that outlive their handle."""

import gc
import mmap
import os
import struct

import numpy as np
import pytest

from holdfast import _store, store


def test_attach_by_name_and_by_descriptor(session):
    assert session.name.startswith("/")
    with store.Session.open(session.name) as other, store.Session.from_fd(session.fd) as third:
        assert other.generation == third.generation == 0
        assert other.info()["label"] == "test"
        assert any(item["name"] == session.name for item in store.sessions())


def test_a_session_that_is_not_there():
    with pytest.raises(store.NotFoundError) as caught:
        store.Session.open("/holdfast-0-0000000000000000")
    assert caught.value.status == "HF_NOT_FOUND"


def test_a_session_of_another_version_is_left_alone():
    """Two versions in two environments share /dev/shm: neither opens, describes or removes the other's."""
    session = store.Session.create(label="other")
    session["x"] = 1
    session.commit()
    name = session.name
    with open(f"/dev/shm{name}", "r+b") as file:  # the layout's version: 4 bytes after the magic
        file.seek(8)
        (own,) = struct.unpack("<I", file.read(4))
        file.seek(8)
        file.write(struct.pack("<I", own + 1))
    try:
        with pytest.raises(store.Error, match=f"version {own + 1}, expected {own}"):
            store.Session.open(name)
        store.collect()
        (row,) = (row for row in store.sessions() if row["name"] == name)
        assert (row["label"], row["owner_alive"], row["generation"]) == ("", -1, 0)
    finally:
        os.unlink(f"/dev/shm{name}")
        session.close()


def test_a_memfd_has_no_name():
    with store.Session.create(memfd=True) as session:
        assert session.name == ""
        assert session.info()["generation"] == 0


def test_a_closed_session_says_so(session):
    other = store.Session.open(session.name)
    other.close()
    other.close()
    with pytest.raises(ValueError, match="closed"):
        other.generation


@pytest.mark.parametrize("name", ["", "\0a", "\1a", "\udc80", "x" * 1025])
def test_a_name_that_no_session_has(session, name):
    """It isn't dropped by the commit without a word."""
    with pytest.raises(ValueError, match="is no name of a session"):
        session[name] = 1
    session["x" * 1024] = 1
    session.commit()
    with store.Session.open(session.name) as other:
        assert list(other) == ["x" * 1024]


def test_arguments_that_are_out_of_range():
    for capacity in (-1, 2**62, 2**64, 2**70):
        with pytest.raises(store.Error, match="out of range"):
            store.Session.create(capacity=capacity)
    with pytest.raises(TypeError, match="must be str, not int"):
        store.Session.open(5)
    with pytest.raises(ValueError, match="null character"):
        store.Session.open("a\0b")


def test_names_need_a_session():
    with pytest.raises(TypeError, match="Session is needed, not int"):
        store.Names(3)


def test_a_token_of_another_size(session):
    with pytest.raises(ValueError, match="24 bytes"):
        session.publish(b"short")


def test_a_token_that_lies(session):
    with pytest.raises(store.Error):
        session.publish(bytes(24))
    assert session.generation == 0


def test_arrays_outlive_names_and_session(main):
    main.ns["x"] = np.arange(50_000.0)
    main.commit()
    session = store.Session.open(main.session.name)
    names, ns = store.Names(session), {}
    names.bind(ns)
    array = ns.pop("x")
    session.close()
    del names, session
    gc.collect()
    assert isinstance(array.base, store.Region)
    assert array.sum() == 50_000 * 49_999 / 2
    assert array.base.changed_pages() == 0
    array[0] = 7
    assert array.base.changed_pages() == 1


def test_an_unsealed_region_keeps_what_it_holds(main):
    main.ns["x"] = np.arange(50_000.0)
    main.commit()
    ns = {}
    store.Names(main.session).bind(ns)
    array = ns["x"]
    array[1] = -1.0
    array.base.unshare()
    assert array[1] == -1.0 and array[2:].sum() == 50_000 * 49_999 / 2 - 1
    assert array.base.changed_pages() == -(-len(array.base) // mmap.PAGESIZE)
    array[:] = 3.0
    other = {}
    store.Names(main.session).bind(other)
    assert other["x"].sum() == 50_000 * 49_999 / 2


def test_names_made_writable_are_saved_by_reference(main):
    main.ns["x"] = np.arange(50_000.0)
    main.ns["y"] = np.arange(50_000.0)
    main.commit()
    names, ns = store.Names(main.session), {}
    names.bind(ns)
    assert names.populate(["x"], write=True) == ns["x"].nbytes
    ns["x"] += 1.0
    saved = names.save(ns)
    assert saved["saved"] == ["x"]
    assert saved["bytes_shared"] == ns["x"].nbytes and saved["pages_changed"] == 0
    assert saved["bytes_copied"] < mmap.PAGESIZE
    names.published(main.session.publish(saved["prepared"]))
    other = {}
    store.Names(main.session).bind(other)
    assert (other["x"] == np.arange(50_000.0) + 1.0).all()


def test_verify_after_commits(main):
    for step in range(5):
        main.ns["x"] = np.full(20_000, float(step))
        main.ns["word"] = "w" * step
        main.commit()
    main.session.verify()
    assert main.session.reap(trim=True) == 0


def test_full_is_an_error_and_leaves_the_last_commit():
    with store.Session.create(capacity=8 << 20) as session:
        names, ns = store.Names(session), {"x": 1}
        names.published(session.publish(names.save(ns)["prepared"]))
        ns["y"] = np.ones(4 << 20)
        with pytest.raises(store.NoSpaceError):
            names.save(ns)
        session.verify()
        del ns["y"]
        assert names.save(ns)["prepared"] is None
        session.destroy()


def test_stub_names_what_is_there():
    import ast
    from pathlib import Path

    stub = Path(_store.__file__).parent / "_store.pyi"
    if not stub.exists():
        stub = Path(store.__file__).parent / "_store.pyi"
    declared = {
        getattr(node, "name", None)
        for node in ast.parse(stub.read_text()).body
        if isinstance(node, (ast.ClassDef, ast.FunctionDef))
    }
    public = {name for name in vars(_store) if not name.startswith("_")}
    assert public <= declared
