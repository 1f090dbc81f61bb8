"""Codecs of open files: what a stream or another process without descriptors gets, and what they
do to the file that they encode."""

import contextlib
import io
import os
import random
import threading
import types

import pytest

from holdfast.carry import context, pickling
from holdfast.carry import handles
from holdfast.libraries.standard import text_files

pytestmark = pytest.mark.usefixtures("but_for_the_runner")
TEXT = "".join(f"línea {i}\n" for i in range(4000))


@pytest.fixture
def kernel_table(monkeypatch):
    """As in a worker of a kernel: descriptors can cross, and none is here to be had."""
    before = context.enter(types.SimpleNamespace(_is_binding=True), {}, None)
    monkeypatch.setattr(handles.table, "fetch", lambda number: None)
    yield handles.table
    context.leave(before)


def carried(value):
    data, parts, _ = pickling.encode(value, lambda raw: (0, 0, raw.nbytes))
    assert not parts
    return bytes(data)


def copied(value):
    return pickling.decode(carried(value), [])


@pytest.fixture
def path(tmp_path):
    (tmp_path / "text").write_text(TEXT, encoding="utf-8")
    return tmp_path / "text"


@pytest.mark.parametrize("newline", [None, "", "\n", "\r", "\r\n"])
@pytest.mark.parametrize("mode", ["r", "w", "a", "r+", "w+"])
def test_settings_of_a_text_file(kernel_table, path, newline, mode):
    with open(path, mode, encoding="latin-1", errors="ignore", newline=newline) as file:
        if mode != "r":
            file.write("one\ntwo\r\n")
        file.reconfigure(line_buffering=True)
        with copied(file) as other:
            for name in ("name", "mode", "encoding", "errors", "line_buffering", "write_through"):
                assert getattr(other, name) == getattr(file, name)
            assert text_files._newline_of(other) == newline == text_files._newline_of(file)
            if mode != "r":
                other.write("\n")
                other.flush()
                wanted = "\n" if newline in (None, "", "\n") else newline
                assert b"two\r" + 2 * wanted.encode() in path.read_bytes()


@pytest.mark.parametrize("open_", ["text", "binary", "raw", "tiny"])
def test_both_read_on_from_one_place(kernel_table, path, open_):
    options = {
        "text": {"mode": "r", "encoding": "utf-8"},
        "binary": {"mode": "rb"},
        "raw": {"mode": "rb", "buffering": 0},
        "tiny": {"mode": "rb", "buffering": 7},
    }[open_]
    with open(path, **options) as file:
        for _ in range(3):
            file.readline()
        with copied(file) as other:
            assert type(other) is type(file) and other.tell() == file.tell()
            want = TEXT.splitlines(True)[3]
            assert other.readline() == (want if open_ == "text" else want.encode())
            if open_ == "tiny":
                assert other.__sizeof__() == file.__sizeof__()


@pytest.mark.parametrize("newline", [None, "", "\n"])
@pytest.mark.parametrize("ends", ["\n", "\r\n", "mixed"])
def test_a_file_that_was_iterated_over(kernel_table, tmp_path, newline, ends):
    lines = [f"línea {i}" for i in range(3000)]
    chosen = random.Random(ends)
    text = "".join(
        line + (chosen.choice(["\n", "\r\n"]) if ends == "mixed" else ends) for line in lines
    )
    (tmp_path / "text").write_bytes(text.encode())
    for steps in (1, 700, 1500, 2999, 3000):
        with open(tmp_path / "text", encoding="utf-8", newline=newline) as file:
            for _ in range(steps):
                next(file)
            with copied(file) as other:
                at = file.tell()
                rest = other.read()
            assert rest.split()[1::2] == [str(i) for i in range(steps, 3000)]
            file.seek(at)  # they have one offset
            assert file.read() == rest


def test_what_was_iterated_over_and_cannot_be_found_again_loses_nothing(kernel_table, path):
    path.write_text(TEXT, encoding="utf-16")
    with open(path, encoding="utf-16") as file:
        next(file)
        with pytest.raises(Exception, match="iterated"):
            carried(file)
        assert file.readline() == TEXT.splitlines(True)[1]


def test_pipes_keep_what_was_read_ahead(kernel_table):
    for text in (False, True):
        ours, theirs = (os.fdopen(fd, mode) for fd, mode in zip(os.pipe(), ("rb", "wb")))
        file = io.TextIOWrapper(ours, "utf-8") if text else ours
        with theirs, file:
            theirs.write(b"one\ntwo\nthree\n")
            theirs.flush()
            assert file.readline() in ("one\n", b"one\n")
            for _ in range(2):  # encoding it changes nothing
                with copied(file) as other:
                    assert other.readline() in ("two\n", b"two\n")
            theirs.write(b"four\n")
            theirs.flush()
            assert [file.readline() for _ in range(3)] == (
                ["two\n", "three\n", "four\n"] if text else [b"two\n", b"three\n", b"four\n"]
            )


def test_a_pipe_that_nobody_reads_is_declined_and_not_waited_for(kernel_table):
    read, write = os.pipe()
    os.set_blocking(write, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(write, bytes(4096))
    os.set_blocking(write, True)
    with os.fdopen(write, "wb") as file, os.fdopen(read, "rb", 0) as other:
        file.write(b"more")
        with pytest.raises(Exception, match="doesn't read"):
            carried(file)
        while other.read(1 << 20)[-4:] != b"\0" * 4:
            pass
        assert len(carried(file))


def test_another_thread_may_be_reading(kernel_table, path):
    go = threading.Event()
    thread = threading.Thread(target=go.wait)
    with open(path, encoding="utf-8") as fresh, open(path, encoding="utf-8") as file:
        file.readline()
        thread.start()
        assert copied(fresh).readline() == TEXT.splitlines(True)[0]  # nothing was read ahead
        with pytest.raises(Exception, match="other threads"):
            carried(file)
        go.set()
        thread.join()
        assert copied(file).readline() == TEXT.splitlines(True)[1]


def test_closed_files_and_files_in_memory(kernel_table, path):
    for mode in ("r", "wb", "rb", "a+"):
        with open(path, mode) as file:
            pass
        other = copied(file)
        assert other.closed and type(other) is type(file)
        assert (other.mode, other.name) == (file.mode, str(path))
    with open(path, "rb", 0) as file:
        pass
    assert copied(file).closed
    for file in (io.StringIO("abc\ndef"), io.BytesIO(b"abc\ndef")):
        file.readline()
        other = copied(file)
        assert type(other) is type(file) and other.read() in ("def", b"def")


def test_layers_of_one_file_stay_layers_of_one_file(kernel_table, path):
    with open(path, encoding="utf-8") as file:
        text, buffer, raw = copied([file, file.buffer, file.buffer.raw])
        assert text.buffer is buffer and buffer.raw is raw
        text.close()


def test_encodings_differ_where_the_file_does(kernel_table, path):
    with open(path, "r+b") as file:
        first = carried(file)
        assert carried(file) == first
        assert carried(copied(file)) == first
        file.read(1)
        assert carried(file) != first


def test_more_than_the_table_has_room_for_are_declined(kernel_table, path, monkeypatch):
    monkeypatch.setattr(handles, "HANDLES_MAX", handles.table._count_open() + 3)
    files = [open(path, "rb", 0) for _ in range(4)]
    for file in files[:3]:
        carried(file)
    with pytest.raises(Exception, match="are open in variables"):
        carried(files[3])
    files.pop(0).close()
    del file
    carried(files[2])
    for file in files:
        file.close()


# ---- where no descriptor can cross


def test_another_process_opens_a_regular_file_anew(main, path):
    main.execute(f"f = open({str(path)!r}, encoding='utf-8')\nf.readline()\nlist(zip(range(2), f))")
    assert not main.commit()["unserializable"]
    answer = main.other("names.bind(ns)\nanswer(line=ns['f'].readline(), mode=ns['f'].mode)")
    assert answer == {"line": "línea 3\n", "mode": "r"}


def test_another_file_of_that_name_is_not_taken_for_it(main, path):
    main.execute(f"f = open({str(path)!r}); x = [1]")
    main.commit()
    path.rename(path.with_name("old"))
    path.write_text("other")
    answer = main.other("report = names.bind(ns)\nanswer(absent=report['absent'], x=ns['x'])")
    assert "another file by now" in answer["absent"]["f"] and answer["x"] == [1]


def test_outside_of_a_kernel_pipes_and_sockets_are_declined_alone(main):
    main.execute(
        "import os, socket, multiprocessing\nr, w = (os.fdopen(fd, 'rb', 0) for fd in os.pipe())\n"
        "w = open(os.dup(1), 'wb'); s = socket.socket(); near, far = multiprocessing.Pipe()\n"
        "kept = [1, 2]"
    )
    unserializable = main.commit()["unserializable"]
    assert set(unserializable) == {"r", "s", "near", "far"} | ({"w"} & set(unserializable))
    assert all("outside of one" in why or "kernel only" in why for why in unserializable.values())
    assert main.other("names.bind(ns)\nanswer(kept=ns['kept'])") == {"kept": [1, 2]}


def test_a_stream_says_where_a_file_is(path):
    from holdfast import marshal

    with open(path, encoding="utf-8") as file:
        file.readline()
        first = marshal.dumps(file)
        assert marshal.dumps(file) == first
        with marshal.loads(first) as other:
            assert other.readline() == TEXT.splitlines(True)[1]
            other.seek(0)
        assert file.readline() == TEXT.splitlines(True)[1]  # another description
    read, write = os.pipe()
    with os.fdopen(read, "rb") as file, os.fdopen(write, "wb"):
        with pytest.raises(Exception, match="kernel only"):
            marshal.dumps(file)
