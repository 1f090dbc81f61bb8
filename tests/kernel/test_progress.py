"""What is shown while a hand-over takes long, and that nothing is left of it."""

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


def test_before_the_cell_and_after_it(kernel, tmp_path):
    defined = kernel.client.execute(SLOW + "slow = Slow()")
    sent = kernel.client.execute(RECORD + "os.remove('go'); slow.n = 2; print('mine')")
    shown, _ = wait_for_progress(kernel, SAVES)
    assert shown["msg_type"] == "display_data" and shown["parent_header"]["msg_id"] == sent
    update = wait_for_progress(kernel, SAVES)[0]
    assert update["msg_type"] == "update_display_data"
    assert update["content"]["transient"] == shown["content"]["transient"]
    (tmp_path / "go").touch()
    after, before = wait_for_progress(kernel, "saving what the cell changed")
    types = [message["msg_type"] for message in before]
    cleared = types.index("clear_output")
    assert before[cleared]["content"] == {"wait": False}
    assert "stream" in types[cleared:] and "stream" not in types[:cleared]
    (tmp_path / "go").touch()
    outcome = kernel.finish(sent)
    last = [m for m in outcome.everything if m["msg_type"] == "update_display_data"][-1]
    assert last["content"]["metadata"] == {"holdfast": "summary"}
    assert last["content"]["transient"] == after["content"]["transient"]
    assert outcome.status == "ok" and defined != sent
