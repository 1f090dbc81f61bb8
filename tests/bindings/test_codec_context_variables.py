"""Context variables through the store: one object a process, with its value."""

import pytest
from store_process import hand_over

START = "import contextvars\n"


def test_a_value_that_is_set_there_is_seen_here_by_the_same_object(main):
    main.execute(
        START
        + "v = contextvars.ContextVar('v', default=[0])\nbare = contextvars.ContextVar('bare')\n"
        "w = contextvars.ContextVar('w')\nlist_ = [1]\nw.set(list_)\nholds = {'in': v}"
    )
    v = main.ns["v"]
    assert main.commit()["unserializable"] == {}
    for turn in (1, 2):
        done = hand_over(
            main,
            "assert holds['in'] is v and v.name == 'v' and w.get() is list_\n"
            f"value = [v.get()[:], bare.get('none')]\nv.set([{turn}]); list_.append({turn})",
        )
        assert done["value"] == [[turn - 1], "none"]
        assert main.ns["v"] is v is main.ns["holds"]["in"] and v.get() == [turn]
        assert main.ns["w"].get() is main.ns["list_"]
    assert main.ns["list_"] == [1, 1, 2]
    assert hand_over(main, "value = v.get()[0]")["saved"] == ["value"]
    with pytest.raises(LookupError):
        main.ns["bare"].get()


def test_a_copy_that_is_made_to_compare_it_sets_nothing(main):
    main.execute(START + "v = contextvars.ContextVar('v')")
    main.commit()
    # A set that was larger has another order than its copy, which alone shows that it is the same.
    thinned = "thinned = set(range(100)); thinned -= set(range(100)) - {9, 64}\n"
    hand_over(main, thinned + "mine = [thinned]; del thinned; v.set(mine)")
    assert main.ns["v"].get() is main.ns["mine"]
    assert main.commit()["decoded_again"] == 1
    assert main.ns["v"].get() is main.ns["mine"]


def test_one_of_a_module_is_the_module_s(main):
    main.execute("from holdfast.worker.subshells import _here as v")
    main.commit()
    source = "from holdfast.worker.subshells import _here as w; value = v is w"
    assert hand_over(main, source)["value"] is True


def test_a_value_that_cannot_be_carried_is_declined_with_its_variable(main):
    main.execute(
        START + "v = contextvars.ContextVar('v'); t = v.set(iter([])); good = 1\n"
        "g = contextvars.ContextVar('g'); g.set((i for i in ''))"
    )
    assert set(main.commit()["unserializable"]) == {"t", "g"}


def test_a_default_that_was_changed(main):
    main.execute(START + "v = contextvars.ContextVar('v', default=[0])\nheld = {}\n"
                 "w = contextvars.ContextVar('w', default=held)")  # fmt: skip
    v = main.ns["v"]
    main.commit()
    hand_over(main, "v.get().append(1); held['a'] = w.get() is held")
    assert main.ns["v"] is v and v.get() == [0, 1]
    assert main.ns["w"].get() is main.ns["held"] == {"a": True}
