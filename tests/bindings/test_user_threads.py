"""Which threads run code of the user's."""

import _thread
import threading

from waiting import until

from holdfast.base.user_threads import alone, is_service


def others():
    """How many threads beside this one run code of the user's."""
    threads = [thread for thread in threading.enumerate() if not is_service(thread)]
    return len(threads) - 1


def test_threads_of_the_users_count_and_services_do_not():
    before = others()
    wait = threading.Event()
    user = threading.Thread(target=wait.wait)
    service = threading.Thread(target=wait.wait)
    service.runs_user_code = False
    history = threading.Thread(target=wait.wait, name="IPythonHistorySavingThread")
    for thread in (user, service, history):
        thread.start()
    assert not is_service(user) and is_service(service) and is_service(history)
    assert others() == before + 1 and not alone()
    service.runs_user_code = True  # it has something to do again
    assert others() == before + 2
    wait.set()
    for thread in (user, service, history):
        thread.join()
    assert others() == before


def test_a_thread_below_threading_counts(but_for_the_runner):
    assert alone()
    wait, began = _thread.allocate_lock(), _thread.allocate_lock()
    wait.acquire()
    began.acquire()

    def run():
        began.release()
        wait.acquire()

    _thread.start_new_thread(run, ())
    began.acquire()
    assert not alone()
    wait.release()
    until(alone)
