"""Questions are answered while a cell runs, from the last commit."""

import os
from pathlib import Path

import pytest
from waiting import until

# Both run until somebody opens the pipe for writing: questions have the time that they need.
HOLDS_THE_GIL = "import ctypes; ctypes.PyDLL(None).open(b'pipe', 0)"
RUNS = "open('pipe').close()"


def ask(kernel, sent):
    """The reply to a question, which comes before the cell's."""
    reply = kernel.client.get_shell_msg(timeout=60)
    assert reply["parent_header"]["msg_id"] == sent, reply["msg_type"]
    return reply["content"]


def lines_with_boat(kernel):
    sent = kernel.client.history(hist_access_type="search", pattern="*Boat*")
    return ask(kernel, sent)["history"]


@pytest.fixture
def busy(lend, tmp_path):
    """A function that starts a long cell in a notebook with variables."""
    os.mkfifo(tmp_path / "pipe")

    def start(cell, patience="60"):
        kernel = lend(HOLDFAST_RUN="isolated", HOLDFAST_ANSWER_SECONDS=patience)
        kernel.run(
            "class Boat:\n    'It floats.'\n    def row_main(self): ...\n"
            "boat = Boat(); answers = [1, 2]; other = {}"
        )
        kernel.run("%%execute_with_scorep\nanswers.append(3)")
        until(lambda: lines_with_boat(kernel))  # a thread writes them, which the cell may hold up
        sent = kernel.client.execute(cell)
        while True:  # until it has begun
            message = kernel.client.get_iopub_msg(timeout=60)
            if message["parent_header"].get("msg_id") == sent:
                break
        return kernel, sent

    return start


def release(kernel, sent, tmp_path):
    """Let the cell end."""
    os.close(os.open(tmp_path / "pipe", os.O_WRONLY))
    assert sent is None or kernel.finish(sent).status == "ok"


@pytest.mark.parametrize("cell", [HOLDS_THE_GIL, RUNS, "%%execute_with_scorep\n" + RUNS])
def test_questions_are_answered_before_the_cell_ends(busy, cell, tmp_path):
    kernel, sent = busy(cell)
    client = kernel.client
    found = ask(kernel, client.complete("boat.ro", 7))
    assert found["matches"] == ["row_main"] and found["cursor_start"] == 5
    types = found["metadata"]["_jupyter_types_experimental"]
    assert [each["type"] for each in types] == ["function"]
    names = ask(kernel, client.complete("answ", 4))["matches"]
    assert "answers" in names
    seen = ask(kernel, client.inspect("answers", 3, 0))
    assert seen["found"] and "[1, 2, 3]" in seen["data"]["text/plain"]
    assert "It floats." in ask(kernel, client.inspect("Boat", 3, 1))["data"]["text/plain"]
    assert ask(kernel, client.is_complete("for x in y:"))["status"] == "incomplete"
    recent = lines_with_boat(kernel)
    assert recent and all("Boat" in entry[2] for entry in recent)
    first = kernel.before + 1
    own = ask(
        kernel,
        client.history(hist_access_type="range", session=0, start=first, stop=first + 1),
    )
    assert [entry[1] for entry in own["history"]] == [first] and "Boat" in own["history"][0][2]
    release(kernel, sent, tmp_path)


def states_until_idle(kernel, cell):
    """The statuses up to the end of a cell, each with the request that it belongs to."""
    states = []
    while (cell, "idle") not in states:
        message = kernel.client.get_iopub_msg(timeout=60)
        if message["msg_type"] == "status":
            state = message["content"]["execution_state"]
            states.append((message["parent_header"].get("msg_id"), state))
    return states


def test_the_kernel_is_busy_while_a_cell_runs(peer, kernel, tmp_path):
    """To those who take the last status for the kernel's: a culler, and the circle in JupyterLab.
    ipykernel answers when the cell has ended, and never says idle before."""
    for notebook, place in ((kernel, tmp_path), (peer, tmp_path / "peer")):
        os.mkfifo(place / "pipe")
        cell = notebook.client.execute(RUNS)
        question = notebook.client.complete("ope", 3)
        if notebook is kernel:
            ask(kernel, question)
        os.close(os.open(place / "pipe", os.O_WRONLY))
        states = states_until_idle(notebook, cell)
        assert states[-2][1] == "busy"
        if notebook is kernel:
            seen = states[states.index((cell, "busy")) :]
            asked = [(question, "busy"), (question, "idle")]
            assert seen == [(cell, "busy"), *asked, (cell, "busy"), (cell, "idle")]


def test_a_question_on_control_ends_no_cell(kernel, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    cell = kernel.client.execute(RUNS)
    question = kernel.control("kernel_info_request")["parent_header"]["msg_id"]
    release(kernel, None, tmp_path)
    states = states_until_idle(kernel, cell)
    assert states[states.index((question, "idle")) + 1] == (cell, "busy")


def test_a_question_behind_a_short_cell_sees_what_it_made(kernel):
    kernel.client.execute("fresh_name = 1")
    sent = kernel.client.complete("fresh_", 6)
    while True:
        reply = kernel.client.get_shell_msg(timeout=60)
        if reply["parent_header"]["msg_id"] == sent:
            break
    assert reply["content"]["matches"] == ["fresh_name"]


def test_a_question_that_hangs_waits_for_the_main_worker(busy, tmp_path):
    kernel, sent = busy("pass", patience="0.5")
    assert kernel.finish(sent).status == "ok"
    kernel.run("class Trap:\n    def __dir__(self):\n        while True: pass")
    kernel.run("class Trap(Trap): pass\ntrap = Trap()")
    kernel.run("%%execute_with_scorep\n1")
    said = Path(kernel.manager.connection_file).with_name("stderr")
    before = said.stat().st_size
    kernel.client.execute(f"del Trap.__mro__[1].__dir__; {RUNS}")
    question = kernel.client.complete("trap.__cla", 10)
    # A look for its process may come too late, since that lives half a second.
    until(lambda: "the assistant ended" in said.read_text()[before:])
    release(kernel, None, tmp_path)
    replies = {}
    while question not in replies:
        reply = kernel.client.get_shell_msg(timeout=60)
        replies[reply["parent_header"]["msg_id"]] = reply["content"]
    assert "__class__" in replies[question]["matches"]


def test_an_assistant_holds_no_memory_between_cells(busy, tmp_path):
    kernel, sent = busy(RUNS)
    before = kernel.workers()
    ask(kernel, kernel.client.complete("boat.", 5))
    new = kernel.workers() - before  # a standby may be among them
    assert new
    release(kernel, sent, tmp_path)
    until(lambda: not new <= kernel.workers())
