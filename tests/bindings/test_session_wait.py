"""Waiting for a session's next generation, and sessions that are opened for reading only."""

import asyncio
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest
from processes import state
from waiting import until

from holdfast import store


@pytest.fixture
def owner(session):
    with store.Session.open(session.name) as opened:
        opened["x"] = np.zeros(20_000)
        opened.commit()
        yield opened


@pytest.fixture
def reader(owner):
    with store.Session.open(owner.name, readonly=True) as opened:
        yield opened


def commit(owner, value):
    owner["x"] = value
    return owner.commit()


def test_a_commit_ends_a_wait(owner, reader):
    assert reader["x"].sum() == 0
    assert not reader.wait(0)
    assert not reader.wait(0.01)
    waits = threading.Thread(target=commit, args=(owner, 1))
    waits.start()
    assert reader.wait()
    waits.join()
    assert reader.wait()  # it wasn't taken over yet
    assert reader.refresh() == ["x"]
    assert reader["x"] == 1
    assert not reader.wait(0)
    for timeout in -1, float("nan"):
        with pytest.raises(ValueError, match="0 or more"):
            reader.wait(timeout)
    assert commit(owner, 2) == 3 and reader.wait(float("inf"))


def test_ctrl_c_and_other_signals(reader):
    code = (
        "import os, signal\nfrom holdfast.store import Session\n"
        f"with Session.open({reader.name!r}, readonly=True) as s:\n"
        "    s.wait(0.01)\n"
        "    signal.signal(signal.SIGUSR1, lambda *_: os.write(1, b'ran\\n'))\n"
        "    os.write(1, b'ready\\n')\n"  # a handler may not print during a print
        "    s.wait()\n"
    )
    program = [sys.executable, "-c", code]
    with subprocess.Popen(
        program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "ready\n"
        until(lambda: state(process.pid) == "S")
        process.send_signal(signal.SIGUSR1)
        assert process.stdout.readline() == "ran\n"
        until(lambda: state(process.pid) == "S")  # it waits on
        process.send_signal(signal.SIGINT)
        assert "KeyboardInterrupt" in process.communicate()[1]


@pytest.mark.parametrize("end", ["close", "destroy"])
def test_what_ends_a_wait_of_another_thread(session, end):
    opened = store.Session.open(session.name, readonly=True)
    raised = []

    def wait():
        try:
            opened.wait()
        except Exception as error:
            raised.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    opened.close() if end == "close" else session.destroy()
    thread.join()
    assert [type(error) for error in raised] == [ValueError if end == "close" else store.GoneError]
    opened.close()


def test_coroutines_wait(owner, reader):
    async def program():
        assert not await reader.wait_async(0)
        assert not await reader.wait_async(0.01)
        waits = [asyncio.ensure_future(reader.wait_async()) for _ in range(3)]
        waits[0].cancel()
        await asyncio.sleep(0)
        commit(owner, 2)
        assert await waits[1] and await waits[2]
        reader.refresh()
        last = asyncio.ensure_future(reader.wait_async(60))
        await asyncio.sleep(0)
        assert sum(thread.name == "holdfast-wait" for thread in threading.enumerate()) <= 2
        reader.close()
        with pytest.raises(ValueError, match="closed"):
            await last

    asyncio.run(program())


def test_what_would_change_a_session_says_what_to_do(owner, reader):
    assert reader.readonly and not owner.readonly
    for change in (
        lambda: reader.__setitem__("y", 1),
        lambda: reader.__delitem__("x"),
        lambda: reader.update(y=1),
        reader.clear,
        reader.commit,
        reader.destroy,
        reader.reap,
        lambda: reader.publish(bytes(24)),
    ):
        with pytest.raises(store.AccessError, match="readonly=True"):
            change()
    reader["x"][0] = 9  # this process's copy
    with store.Session.open(owner.name) as other:
        assert other["x"][0] == 0
    reader.verify()
    assert reader.info()["generation"] == 1


def test_arrays_of_a_reader_lie_elsewhere(reader):
    """An allocator whose session can't be changed gives other memory."""
    code = (
        "import numpy\nfrom holdfast import store\n"
        f"s = store.Session.open({reader.name!r}, readonly=True)\n"
        "store.enable_numpy_allocator(s)\n"
        "print(numpy.ones(1_000_000).sum(), s.info()['reserved_bytes'])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split()[0] == "1000000.0"
    assert ran.stdout.split()[1] == "0"


def test_a_descriptor_is_opened_for_reading_as_well():
    with store.Session.create(memfd=True) as owner:
        owner["x"] = 1
        owner.commit()
        with store.Session.from_fd(owner.fd, readonly=True) as opened:
            assert opened.readonly and opened["x"] == 1
            with pytest.raises(store.AccessError, match="readonly=True"):
                opened["x"] = 2
            with pytest.raises(store.AccessError):
                opened.publish(bytes(24))
        with store.Session.from_fd(owner.fd) as opened:
            assert not opened.readonly
            opened["x"] = 2
            opened.commit()
        owner.refresh()
        assert owner["x"] == 2
        owner.destroy()
