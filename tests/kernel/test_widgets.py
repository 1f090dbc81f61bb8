"""Widgets that a cell process made answer the page when it has ended."""

import pytest

pytest.importorskip("ipywidgets")
RECORD = "%%execute_with_scorep --run=isolated\n"
MAKE = """
import ipywidgets
class Level(ipywidgets.IntSlider):
    "A class of the notebook's."
seen = []
slider = Level(description='moved', max=1000)
slider.observe(lambda change: seen.append(change.new), 'value')
box = ipywidgets.VBox([slider, ipywidgets.Button(description='press')])
box.children[1].on_click(lambda button: seen.append(button.description))
ipywidgets.interact(lambda x: seen.append(x), x=(0, 1000, 1))
box
"""


def opened(outcome):
    """The ids of the widgets that the page has learnt of, by the names of their models."""
    return {
        message["content"]["data"]["state"]["_model_name"]: message["content"]["comm_id"]
        for message in outcome.messages
        if message["msg_type"] == "comm_open"
    }


def send(kernel, comm_id, data):
    """What the page sends; all that comes back of kind comm_msg."""
    message = kernel.client.session.msg("comm_msg", {"comm_id": comm_id, "data": data})
    kernel.client.shell_channel.send(message)
    back = []
    while True:
        got = kernel.client.get_iopub_msg(timeout=60)
        if got["parent_header"].get("msg_id") != message["header"]["msg_id"]:
            continue
        if got["msg_type"] == "status" and got["content"]["execution_state"] == "idle":
            return back
        back.append(got)


def update(kernel, comm_id, value):
    return send(
        kernel, comm_id, {"method": "update", "state": {"value": value}, "buffer_paths": []}
    )


@pytest.mark.parametrize("before", ["", "import ipywidgets, numpy as np"])
def test_they_go_on_in_the_main_worker(kernel, before):
    kernel.run(before)
    made = kernel.run(RECORD + MAKE)
    assert made.status == "ok" and "not carried" not in made.stream("stderr")
    assert not [m for m in made.messages if m["msg_type"] == "comm_close"]
    ids = opened(made)
    kernel.settle()  # it looks for changes, and makes copies for that
    where = "ipywidgets.widgets.widget._instances[slider.comm.comm_id]"
    assert kernel.run(f"{where} is slider").result == "True"

    # The last slider that was opened is the one of `interact`.
    own = kernel.run("print(slider.comm.comm_id)").stream().strip()
    assert update(kernel, own, 70)
    update(kernel, ids["IntSliderModel"], 33)
    send(kernel, ids["ButtonModel"], {"method": "custom", "content": {"event": "click"}})
    assert kernel.run("seen[-3:], slider.value").result == "([70, 33, 'press'], 70)"
    checks = (
        "type(slider) is Level, box.children[0] is slider, [n for n in dir() if 'widget_' in n]"
    )
    assert kernel.run(checks).result == "(True, True, [])"

    # And a value that is set in the main worker moves it on the page.
    moved = [
        m["content"] for m in kernel.run("slider.value = 9").messages if "comm" in m["msg_type"]
    ]
    assert [(content["comm_id"], content["data"]["state"]) for content in moved] == [
        (own, {"value": 9})
    ]


@pytest.mark.fresh  # no client has a copy of the widget
def test_a_cell_that_names_one_runs_where_it_is(kernel):
    kernel.run(RECORD + MAKE)
    for value in 3, 4:
        outcome = kernel.run(f"%%execute_with_scorep\nslider.value = {value}\nlen(seen)")
        assert outcome.status == "ok", outcome.content
        assert [m for m in outcome.messages if m["msg_type"] == "comm_msg"]
        assert kernel.run("slider.value, seen[-1]").result == f"({value}, {value})"
    apart = kernel.run(RECORD + "slider")
    assert "a widget stays in the notebook's own process" in apart.content["evalue"]


def test_what_cannot_be_carried_in_one_is_reported(kernel):
    outcome = kernel.run(
        RECORD + "import ipywidgets\nvalues = (i for i in range(3))\nkept = ipywidgets.IntText()\n"
        "slider = ipywidgets.IntSlider()\nslider.observe(lambda change, v=values: next(v))"
    )
    text = outcome.stream("stderr")
    assert "slider" in text and "generator" in text and "_holdfast_widget" not in text
    assert kernel.run("kept.value").result == "0"


def test_a_fork_changes_the_notebooks_widgets(forked_kernel):
    """They are the notebook's own afterwards, with what the cell set and hung on them."""
    forked_kernel.run(
        "import ipywidgets\nfound = []\nslider = ipywidgets.IntSlider(max=1000)\n"
        "button = ipywidgets.Button()"
    )
    outcome = forked_kernel.run(
        "%%execute_with_scorep\nslider.value = 7; text = ipywidgets.FloatText()\n"
        "linked = ipywidgets.link((slider, 'value'), (text, 'value'))\n"
        "button.on_click(lambda button: found.append(1)); box = ipywidgets.VBox([slider, button])"
    )
    assert outcome.status == "ok" and not outcome.stream("stderr")
    after = forked_kernel.run(
        "before = slider.value, text.value\nslider.value = 9; button.click()\n"
        "before, text.value, found, box.children[0] is slider"
    )
    assert after.result == "((7, 7.0), 9.0, [1], True)"


def test_a_fork_keeps_what_callbacks_hold(forked_kernel):
    """What can't be carried, and is as before, stays the notebook's; a lock, for one."""
    forked_kernel.run(
        "import ipywidgets, threading\nclass Panel(ipywidgets.VBox):\n"
        "    def __init__(self):\n        self.rows, self.lock = [], threading.Lock()\n"
        "        self.go = ipywidgets.Button()\n        super().__init__([self.go])\n"
        "        self.go.on_click(self.pressed)\n"
        "    def pressed(self, button):\n        self.rows.append(len(self.rows))\n"
        "class Log:\n    def __init__(self): self.seen = []\n"
        "    def moved(self, change): self.seen.append(change.new)\n"
        "panel, log = Panel(), Log(); lock = panel.lock\n"
        "text = ipywidgets.IntText(); text.observe(log.moved, 'value')"
    )
    for number in 1, 2:
        outcome = forked_kernel.run(
            f"%%execute_with_scorep\npanel.children[0].click(); text.value = {number}\n"
            "text.layout.width = '1px'; (panel.rows, log.seen)"
        )
        wanted = str((list(range(number)), list(range(1, number + 1))))
        assert outcome.result == wanted
        after = forked_kernel.run("panel.lock is lock, text.layout.width, (panel.rows, log.seen)")
        assert after.result == f"(True, '1px', {wanted})"
    forked_kernel.run("%%execute_with_scorep\ntext.unobserve(log.moved, 'value'); text.close()")
    after = forked_kernel.run(
        "text.comm, len(log.seen), text in ipywidgets.Widget.widgets.values()"
    )
    assert after.result == "(None, 2, False)"
