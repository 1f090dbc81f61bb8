"""Queues, asyncio's locks and futures, encoded and decoded."""

import asyncio
import concurrent.futures
import queue
import threading

import pytest

import holdfast
from holdfast import _threads
from holdfast.store import Error


def crossed(value):
    return holdfast.loads(holdfast.dumps(value))


@pytest.mark.parametrize("kind", [queue.Queue, queue.LifoQueue, queue.PriorityQueue])
def test_queues_keep_their_items(kind, monkeypatch):
    monkeypatch.setattr(_threads, "alone", lambda: True)  # a plugin of pytest's may have one
    one = kind(maxsize=3)
    for item in (2, 1):
        one.put(item)
    first = {queue.Queue: 2, queue.LifoQueue: 1, queue.PriorityQueue: 1}[kind]
    copy = crossed(one)
    assert type(copy) is kind and copy.qsize() == 2 and copy.get() == first
    copy.get(timeout=0)
    with pytest.raises(queue.Empty):
        copy.get(timeout=0.01)
    for item in range(3):
        copy.put(item)
    assert copy.full() and copy.unfinished_tasks == 5 and one.qsize() == 2


def test_a_queue_stays_while_threads_run():
    one, done = queue.Queue(), threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        with pytest.raises(Error, match="other threads"):
            crossed(one)
    finally:
        done.set()
        thread.join()


def test_asyncios_after_use():
    async def use(semaphore, event, lock, items):
        async with semaphore, lock:
            waits = asyncio.ensure_future(event.wait())
            gets = asyncio.ensure_future(items.get())
            await asyncio.sleep(0)
            with pytest.raises(Error, match="somebody waits"):
                crossed(event)
            with pytest.raises(Error, match="somebody waits"):
                crossed(items)
            event.set()
            await items.put(1)
            await asyncio.gather(waits, gets)
            return await asyncio.wait_for(asyncio.sleep(0, True), 60)

    given = asyncio.Semaphore(1), asyncio.Event(), asyncio.Lock(), asyncio.Queue()
    assert asyncio.run(use(*given))
    copies = crossed(given)
    assert copies[1].is_set() and not copies[2].locked() and copies[3].empty()
    copies[1].clear()
    assert asyncio.run(use(*copies))


def test_futures_that_are_done():
    done, failed = concurrent.futures.Future(), concurrent.futures.Future()
    done.set_result([1])
    failed.set_exception(KeyError("a"))
    done, failed = crossed((done, failed))
    assert done.result(timeout=0) == [1] and repr(failed.exception()) == "KeyError('a')"
    assert concurrent.futures.wait([done, failed], timeout=60).not_done == set()
    with pytest.raises(Error, match="isn't done"):
        crossed(concurrent.futures.Future())
