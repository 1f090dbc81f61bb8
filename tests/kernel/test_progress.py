"""What is shown while a hand-over takes long: to whom, and that nothing is left of it."""

import pytest

RECORD = "%%execute_with_scorep\n"
SAVES = "saving the notebook's variables"
# Its pickling waits for a file, in the process that has this word in its environment.
SLOW = """
import os, time
class Slow:
    def __getstate__(self):
        while not os.path.exists("go"): time.sleep(0.01)
        return {"n": 1}
"""


def wait_for_progress(kernel, part):
    """The first display that shows this part of a hand-over; what came before it."""
    before = []
    while True:
        message = kernel.client.get_iopub_msg(timeout=60)
        content = message["content"]
        if content.get("metadata") == {"holdfast": "progress"}:
            if part in content["data"]["text/plain"]:
                return message, before
        before.append(message)


@pytest.fixture
def kernel(isolated_kernel):
    return isolated_kernel


def execute(kernel, code, metadata):
    """Send a cell as a client with such metadata does."""
    content = {"code": code, "silent": False, "store_history": True, "allow_stdin": False}
    message = kernel.client.session.msg("execute_request", content, metadata=metadata)
    kernel.client.shell_channel.send(message)
    return message["header"]["msg_id"]


def test_a_notebook_shows_it_before_the_cell_alone(kernel, tmp_path):
    kernel.client.execute(SLOW + "slow = Slow()")
    code = RECORD + "os.remove('go'); slow.n = 2; print('mine')"
    sent = execute(kernel, code, {"cellId": "a"})
    shown, _ = wait_for_progress(kernel, SAVES)
    assert shown["msg_type"] == "display_data" and shown["parent_header"]["msg_id"] == sent
    update = wait_for_progress(kernel, SAVES)[0]
    assert update["msg_type"] == "update_display_data"
    assert update["content"]["transient"] == shown["content"]["transient"]
    (tmp_path / "go").touch()
    before = []
    while not before or before[-1]["msg_type"] != "stream":
        before.append(kernel.client.get_iopub_msg(timeout=60))
    types = [message["msg_type"] for message in before]
    cleared = types.index("clear_output")
    assert before[cleared]["content"] == {"wait": False}
    (tmp_path / "go").touch()
    outcome = kernel.finish(sent)
    assert outcome.status == "ok"
    shown = [m["msg_type"] for m in outcome.everything if m["msg_type"].endswith("display_data")]
    assert shown == ["display_data"]  # the summary


def test_other_clients_see_the_cells_messages_alone(kernel):
    """Saving takes longer than what a notebook isn't told, before the cell and after it."""
    kernel.run(
        "import time\nclass Late:\n    def __getstate__(self):\n"
        "        time.sleep(1.2); return {}\nlate = Late()"
    )
    outcome = kernel.finish(execute(kernel, "%%isolated\nprint(late is None)", {"trusted": True}))
    seen = [m["msg_type"] for m in outcome.everything]
    assert seen == ["status", "execute_input", "stream", "status"] and outcome.status == "ok"
