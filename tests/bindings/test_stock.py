"""What a cell's new data lies in is there before the cell's code runs again."""

import array
import os

import pytest
from holdfast.worker import stock as module
from holdfast.worker.stock import Stock
from test_worker_cell import kernel  # noqa: F401

MIB = 1 << 20
PAGES = 64 * MIB // 4096
CELL = "n = faults(); b = np.full({0}, 7.0); print(faults() - n, b[0], b[-1])"


@pytest.fixture
def store(monkeypatch):
    """In place of the store: what is asked for, and what was stocked."""

    class Pretended:
        taken: list[int] = []
        stocked: list[int] = []
        provided: list[list[int]] = []
        steps = 2  # of each provision

        def _taken(self, session):
            taken, self.taken = self.taken, []
            return array.array("Q", taken).tobytes()

        def _stock(self, session, sizes):
            self.stocked = array.array("Q", sizes).tolist()
            return sum(self.stocked)

        def _provide(self, session, sizes):
            self.provided.append(array.array("Q", sizes).tolist())

        def _provide_some(self, session, size):
            self.steps -= 1
            return self.steps > 0

    pretended = Pretended()
    monkeypatch.setattr(module, "_store", pretended)
    return pretended


def ran(stock, store, code, *sizes):
    """What was stocked for a cell that asks for blocks of these sizes."""
    store.stocked = []
    stock.fill(None, code)
    store.taken = list(sizes)
    stock.learn(None, code)
    return store.stocked


def test_each_code_has_its_own(store):
    stock = Stock()
    assert ran(stock, store, "a", 2 * MIB, MIB) == []
    assert ran(stock, store, "b", 4 * MIB) == []
    assert ran(stock, store, "a", MIB) == [2 * MIB, MIB]
    assert ran(stock, store, "a") == [MIB]
    assert ran(stock, store, "a") == []
    assert ran(stock, store, "b") == [4 * MIB]


def test_what_was_asked_for_before_the_cell_is_not_its(store):
    stock = Stock()
    store.taken = [MIB]
    stock.fill(None, "a")
    stock.learn(None, "a")
    assert ran(stock, store, "a") == []


def test_it_is_bounded(store):
    stock = Stock()
    ran(stock, store, "a", 200 * MIB, 100 * MIB, 56 * MIB, MIB)
    assert ran(stock, store, "a") == [200 * MIB, 56 * MIB]


def test_the_last_cells_are_remembered(store):
    stock = Stock()
    for number in range(20):
        ran(stock, store, f"cell {number}", MIB * (number + 1))
    found = [ran(stock, store, f"cell {number}") for number in reversed(range(20))]
    assert found == [[MIB * (number + 1)] for number in range(19, 3, -1)] + [[]] * 4


def provided(stock, store):
    """What is provided by one that waits."""
    store.provided, store.steps = [], 2
    while stock.provide_some(None) is not None:
        pass
    assert store.steps == 0 and store.provided.pop() == []  # it ended
    return store.provided


def test_one_that_waits_provides_what_was_asked_for_lately(store):
    stock = Stock()
    assert provided(stock, store) == [[]]
    ran(stock, store, "a", 4 * MIB, MIB)
    ran(stock, store, "b", 2 * MIB)
    assert provided(stock, store) == [[4 * MIB, MIB]]
    for _ in range(7):
        ran(stock, store, "c")
    assert provided(stock, store) == [[2 * MIB]]
    ran(stock, store, "c")
    assert provided(stock, store) == [[]]


def test_it_is_ended(store):
    stock = Stock()
    stock.provide_some(None)
    for _ in range(2):
        stock.provide_no_more(None)
    assert store.provided == [[], []]
    assert not stock._providing.is_going_on()


def test_another_waits_for_its_turn(store):
    stock = Stock()
    stock.provide_some(None)
    child = os.fork()
    if child == 0:
        other = stock
        other._began = False  # as in one that was forked before
        os._exit(other.provide_some(None) != module._TURN_SECONDS)
    assert os.waitpid(child, 0)[1] == 0


def test_a_cell_that_runs_again_takes_no_fault_for_its_new_data(kernel):  # noqa: F811
    kernel.plain(
        "import numpy as np, resource\n"
        "def faults():\n    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt\n"
    )
    code = CELL.format(64 * MIB // 8)
    first = kernel.instrumented(code)
    assert first.report["bytes_stocked"] == 0
    for _ in range(3):  # undo isn't there to keep anything, but the home has the last b
        again = kernel.instrumented(code)
        taken, head, tail = again.text().split()
        assert again.report["bytes_stocked"] == 64 * MIB
        assert int(taken) < PAGES / 64 and head == tail == "7.0"
    other = kernel.instrumented("c = np.zeros(64 * (1 << 20) // 8); print(c.any())")
    assert other.report["bytes_stocked"] == 0 and other.text().split() == ["False"]
