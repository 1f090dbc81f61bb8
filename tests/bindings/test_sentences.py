"""The words of messages about variables, as whole lines."""

import pytest

from holdfast.base import sentences
from holdfast.errors import NotCarriedError, QuarantinedError, with_reason
from holdfast.worker import notices
from holdfast.worker.notices import Lost

LOCK = "RLock at pool._channel._send_lock (TypeError: cannot pickle '_thread.RLock' object)"
GENERATOR = "generator at {} (TypeError: cannot pickle 'generator' object)"


@pytest.mark.parametrize(
    "name, why, shown",
    [
        ("pool", LOCK, "RLock inside"),
        ("g", GENERATOR.format("g"), "generator"),
        ("q", "Queue at q (TypeError: somebody waits for it)", "Queue: somebody waits for it"),
        ("p", "Pool at p (cannot pickle 'Pool' object: its own)", "Pool: its own"),
        ("own", "Own at own (ValueError: no)", "Own: ValueError: no"),
        ("_mine:box", "lock at _mine:box[0] (cannot pickle 'lock' object)", "lock inside"),
        ("f", "it is large", "it is large"),
        ("f", "one\ntwo " + "x" * 200, "one two " + "x" * 69 + "..."),
        ("f", "F at f (f" + "x" * 200 + ")", "F: f" + "x" * 73 + "..."),
    ],
)
def test_a_short_reason(name, why, shown):
    assert sentences.brief(name, why) == shown


def test_the_whole_reason_is_understood():
    why = sentences.reason("RLock", "pool.lock", "TypeError: cannot pickle '_thread.RLock' object")
    assert sentences.brief("pool", why) == "RLock inside"


def test_names_that_find_no_room_are_counted():
    names = [f"name{number}" for number in range(100)]
    line = sentences.sentence("lost: ", names, ". Make them anew")
    assert len(line) <= sentences.LINE_MAX
    shown = line.removeprefix("lost: ").removesuffix(". Make them anew").split(", ")
    last, _, more = shown[-1].partition(" and ")
    assert [*shown[:-1], last] == names[: len(shown)]
    assert more == f"{100 - len(shown)} more"
    assert sentences.sentence("lost: ", ["a", "b"], ".") == "lost: a, b."
    assert len(sentences.sentence("h" * 190, ["x" * 500, "y"], "t" * 50)) < 340


def lines(capsys):
    return capsys.readouterr().err.splitlines()


def test_what_is_not_carried_out(capsys):
    notices.not_carried_out({"pool": (LOCK, Lost.CHANGED)})
    notices.not_carried_out({"pool": (LOCK, Lost.MAYBE_CHANGED), 4: ("no name", Lost.NEW)})
    notices.not_carried_out({name: (GENERATOR.format(name), Lost.NEW) for name in "cab"})
    notices.not_carried_out({})
    assert lines(capsys) == [
        "holdfast: not carried out of this cell: pool (RLock inside): the notebook goes on with the"
        " value before the cell. Use a plain cell or --run=in-process (details: %holdfast pool)",
        "holdfast: not carried out of this cell: the name 4 (no name): lost with the cell's process."
        " Use a plain cell or --run=in-process",
        "holdfast: not carried out of this cell: pool (RLock inside): if the cell changed it, the notebook"
        " goes on with the value before the cell. Use a plain cell or --run=in-process"
        " (details: %holdfast pool)",
        "holdfast: not carried out of this cell: a, b, c (generator): lost with the cell's process."
        " Use a plain cell or --run=in-process (details: %holdfast a)",
    ]


def test_each_other_message(capsys):
    notices.tracebacks_stay(["kept"])
    notices.changed_alone(["timers", "exit handlers"])
    notices.addresses_alone(["ids"])
    notices.not_carried_back({"x": "ValueError: no"})
    notices.not_carried_over("timers", "only the notebook's own process has it")
    notices.not_replaced(["x", "y"])
    for say in (notices.tracebacks_stay, notices.changed_alone, notices.addresses_alone):
        say([])
    assert lines(capsys) == [
        "holdfast: not carried out of this cell: the local variables in the traceback of kept."
        " To debug it, use `%pdb on`",
        "holdfast: changed only in this cell's process: timers, exit handlers. The notebook goes on"
        " as before the cell. Use a plain cell or --run=in-process",
        "holdfast: valid only in this cell's process: the addresses in ids (id(), pointers)."
        " In the notebook the objects have other addresses: take them again there",
        "holdfast: not carried back: x (ValueError: no). The notebook can't load what the cell made."
        " Use a plain cell or --run=in-process",
        "holdfast: timers couldn't be carried over: only the notebook's own process has it."
        " If you need it, use a plain cell or --run=in-process",
        "holdfast: generators, locks and the like that were made before this cell still use the old"
        " x, y: the new value can't replace it there. Make them anew to use the new one",
    ]


def test_the_errors():
    assert str(NotCarriedError("pool", LOCK)) == (
        "'pool' can't be carried into this cell's process: RLock inside. The notebook's own process"
        " has it: use a plain cell or %%execute_with_scorep --run=in-process"
    )
    assert NotCarriedError("pool", LOCK).reason == LOCK
    assert str(QuarantinedError("x", "loading it took too long")) == (
        "'x' isn't loaded here: loading it took too long. Its stored copy is kept: `%holdfast retry x`"
        " tries once more, `del x` deletes it"
    )
    error = NameError("name 'g' is not defined", name="g")
    assert str(with_reason(error, {"g": GENERATOR.format("g")})) == (
        "name 'g' is not defined. A cell made it in a process of its own, and it can't be carried out"
        " of that: generator. To make it, use a plain cell or --run=in-process"
    )


def test_no_line_is_long(capsys):
    """Whatever the names and reasons are."""
    long = "x" * 400
    notices.not_carried_out({f"n{number}": (long, Lost.CHANGED) for number in range(50)})
    notices.not_carried_over(long, ValueError(long))
    notices.changed_alone([long] * 9)
    notices.not_carried_back(
        {name: GENERATOR.format(name + ".part") for name in map(str, range(99))}
    )
    assert max(map(len, lines(capsys))) <= sentences.LINE_MAX + 80
    assert len(str(NotCarriedError("n", long))) <= sentences.LINE_MAX + 80
    assert len(str(QuarantinedError("n", long))) <= sentences.LINE_MAX
