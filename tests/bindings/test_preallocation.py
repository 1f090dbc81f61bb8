"""What a cell's new data lies in is there before the cell's code runs again."""

import array
import os

import pytest
from holdfast.worker import preallocation as module
from holdfast.worker.preallocation import Preallocation
from test_worker_cell import kernel  # noqa: F401

MIB = 1 << 20
PAGES = 64 * MIB // 4096
CELL = "n = faults(); b = np.full({0}, 7.0); print(faults() - n, b[0], b[-1])"


@pytest.fixture
def store(monkeypatch):
    """In place of the store: what is asked for, and what was preallocated."""

    class Pretended:
        taken: list[int] = []
        preallocated: list[int] = []
        provided: list[list[int]] = []
        steps = 2  # of each provision

        def _taken(self, session):
            taken, self.taken = self.taken, []
            return array.array("Q", taken).tobytes()

        def _preallocate(self, session, sizes):
            self.preallocated = array.array("Q", sizes).tolist()
            return sum(self.preallocated)

        def _prefill(self, session, sizes):
            self.provided.append(array.array("Q", sizes).tolist())

        def _prefill_some(self, session, size):
            self.steps -= 1
            return self.steps > 0

    pretended = Pretended()
    monkeypatch.setattr(module, "_store", pretended)
    return pretended


def ran(preallocation, store, code, *sizes):
    """What was preallocated for a cell that asks for blocks of these sizes."""
    store.preallocated = []
    preallocation.fill(None, code)
    store.taken = list(sizes)
    preallocation.learn(None, code)
    return store.preallocated


def test_each_code_has_its_own(store):
    preallocation = Preallocation()
    assert ran(preallocation, store, "a", 2 * MIB, MIB) == []
    assert ran(preallocation, store, "b", 4 * MIB) == []
    assert ran(preallocation, store, "a", MIB) == [2 * MIB, MIB]
    assert ran(preallocation, store, "a") == [MIB]
    assert ran(preallocation, store, "a") == []
    assert ran(preallocation, store, "b") == [4 * MIB]


def test_what_was_asked_for_before_the_cell_is_not_its(store):
    preallocation = Preallocation()
    store.taken = [MIB]
    preallocation.fill(None, "a")
    preallocation.learn(None, "a")
    assert ran(preallocation, store, "a") == []


def test_it_is_bounded(store):
    preallocation = Preallocation()
    ran(preallocation, store, "a", 200 * MIB, 100 * MIB, 56 * MIB, MIB)
    assert ran(preallocation, store, "a") == [200 * MIB, 56 * MIB]


def test_the_last_cells_are_remembered(store):
    preallocation = Preallocation()
    for number in range(20):
        ran(preallocation, store, f"cell {number}", MIB * (number + 1))
    found = [ran(preallocation, store, f"cell {number}") for number in reversed(range(20))]
    assert found == [[MIB * (number + 1)] for number in range(19, 3, -1)] + [[]] * 4


def provided(preallocation, store):
    """What is provided by one that waits."""
    store.provided, store.steps = [], 2
    while preallocation.prefill_some(None) is not None:
        pass
    assert store.steps == 0 and store.provided.pop() == []  # it ended
    return store.provided


def test_one_that_waits_provides_what_was_asked_for_lately(store):
    preallocation = Preallocation()
    assert provided(preallocation, store) == [[]]
    ran(preallocation, store, "a", 4 * MIB, MIB)
    ran(preallocation, store, "b", 2 * MIB)
    assert provided(preallocation, store) == [[4 * MIB, MIB]]
    for _ in range(7):
        ran(preallocation, store, "c")
    assert provided(preallocation, store) == [[2 * MIB]]
    ran(preallocation, store, "c")
    assert provided(preallocation, store) == [[]]


def test_it_is_ended(store):
    preallocation = Preallocation()
    preallocation.prefill_some(None)
    for _ in range(2):
        preallocation.prefill_no_more(None)
    assert store.provided == [[], []]
    assert not preallocation._prefilling.is_going_on()


def test_another_waits_for_its_turn(store):
    preallocation = Preallocation()
    preallocation.prefill_some(None)
    child = os.fork()
    if child == 0:
        other = preallocation
        other._began = False  # as in one that was forked before
        os._exit(other.prefill_some(None) != module._TURN_SECONDS)
    assert os.waitpid(child, 0)[1] == 0


def test_a_cell_that_runs_again_takes_no_fault_for_its_new_data(kernel):  # noqa: F811
    kernel.plain(
        "import numpy as np, resource\n"
        "def faults():\n    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt\n"
    )
    code = CELL.format(64 * MIB // 8)
    first = kernel.instrumented(code)
    assert first.report["bytes_preallocated"] == 0
    for _ in range(3):  # undo isn't there to keep anything, but the main worker has the last b
        again = kernel.instrumented(code)
        taken, head, tail = again.text().split()
        assert again.report["bytes_preallocated"] == 64 * MIB
        assert int(taken) < PAGES / 64 and head == tail == "7.0"
    other = kernel.instrumented("c = np.zeros(64 * (1 << 20) // 8); print(c.any())")
    assert other.report["bytes_preallocated"] == 0 and other.text().split() == ["False"]
