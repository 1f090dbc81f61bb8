"""Subshells: served beside the cell that runs, in their own order, by the main worker that is there."""

import pytest
from waiting import begun

from tests.kernel.test_execute import await_queued

CELL = "%%execute_with_scorep\n"
# Runs until a subshell sets the flag: it can end only if that one is served meanwhile.
WAITS = "import time\nwhile 'flag' not in globals(): time.sleep(0.01)\n"


class Subshell:
    """One subshell of a kernel, and what tests ask of it."""

    def __init__(self, kernel):
        self.kernel = kernel
        reply = kernel.control("create_subshell_request")["content"]
        assert reply["status"] == "ok"
        self.id = reply["subshell_id"]

    def send(self, kind, content, buffers=None):
        session = self.kernel.client.session
        message = session.msg(kind, content)
        message["header"]["subshell_id"] = self.id
        session.send(self.kernel.client.shell_channel.socket, message, buffers=buffers)
        return message["header"]["msg_id"]

    def start(self, code, **options):
        content = {"code": code, "silent": False, "store_history": True, "allow_stdin": False}
        return self.send("execute_request", content | options)

    def run(self, code, **options):
        return self.kernel.finish(self.start(code, **options))

    def ask(self, kind, **content):
        sent = self.send(kind, content)
        while True:
            reply = self.kernel.client.get_shell_msg(timeout=60)
            if reply["parent_header"]["msg_id"] == sent:
                return reply


def release(kernel, subshell, waiting):
    """Let the cell end that waits; its outcome. Messages of others are dropped."""
    subshell.start("flag = True")
    return kernel.finish(waiting)


@pytest.fixture
def subshell(kernel):
    return Subshell(kernel)


def listed(kernel):
    return kernel.control("list_subshell_request")["content"]["subshell_id"]


def test_create_list_delete(kernel):
    info = kernel.client.kernel_info(reply=True, timeout=60)["content"]
    assert "kernel subshells" in info["supported_features"]
    assert listed(kernel) == []
    one, two = Subshell(kernel), Subshell(kernel)
    assert listed(kernel) == [one.id, two.id] and one.id != two.id
    assert one.run("x = 1").status == "ok"
    for subshell in (one, two):
        content = {"subshell_id": subshell.id}
        assert kernel.control("delete_subshell_request", content)["content"] == {"status": "ok"}
    assert listed(kernel) == []
    again = kernel.control("delete_subshell_request", {"subshell_id": one.id})["content"]
    assert again["status"] == "error" and again["ename"] == "UnknownSubshell"
    late = one.ask("complete_request", code="pri", cursor_pos=3)
    assert late["content"]["ename"] == "UnknownSubshell"
    assert kernel.run("x").result == "1"


def test_beside_a_cell_that_runs(kernel, subshell):
    # Cells are numbered as they begin: one that waits for the main worker begins later.
    main = begun(kernel, "print('on', flush=True)\n" + WAITS + "print('main'); 'main', flag")
    outcome = subshell.run("print('aside')\n'aside', 'flag' in globals()")
    assert outcome.result == "('aside', False)" and outcome.stream() == "aside\n"
    assert outcome.types == ["status", "execute_input", "stream", "execute_result", "status"]
    assert subshell.ask("kernel_info_request")["content"]["status"] == "ok"
    first = release(kernel, subshell, main)
    assert first.result == "('main', True)" and first.stream() == "main\n"
    numbers = [one.content["execution_count"] for one in (first, outcome)]
    assert numbers == [kernel.before + 1, kernel.before + 2]
    assert (
        kernel.run("[Out[n] for n in {}]".format(numbers)).result
        == "[('main', True), ('aside', False)]"
    )


def test_other_requests_while_a_cell_runs(kernel, subshell):
    kernel.run("def shown(): 'words'")
    main = kernel.client.execute(WAITS)
    complete = subshell.ask("complete_request", code="show", cursor_pos=4)["content"]
    assert "shown" in complete["matches"]
    inspect = subshell.ask("inspect_request", code="shown", cursor_pos=5, detail_level=0)
    assert "words" in inspect["content"]["data"]["text/plain"]
    assert (
        subshell.ask("is_complete_request", code="for x in y:")["content"]["status"] == "incomplete"
    )
    assert subshell.ask("comm_info_request")["content"]["comms"] == {}
    history = {"hist_access_type": "tail", "n": 1, "raw": True, "output": False}
    assert subshell.ask("history_request", **history)["content"]["status"] == "ok"
    assert release(kernel, subshell, main).status == "ok"


def test_one_after_the_other_and_two_at_once(kernel, subshell):
    other = Subshell(kernel)
    sent = [subshell.start(f"order = [*globals().get('order', []), {i}]") for i in range(5)]
    waiting = other.start(WAITS)
    for one in sent:
        assert kernel.finish(one).status == "ok"
    assert subshell.run("order").result == "[0, 1, 2, 3, 4]"
    assert release(kernel, subshell, waiting).status == "ok"


def test_an_error_stops_its_own_subshell_only(kernel, subshell, tmp_path):
    kernel.client.execute(WAITS)
    after = kernel.client.execute("'went on'")
    bad = subshell.start("import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\n1 / 0")
    dropped = subshell.start("ran = True")
    await_queued(kernel)
    (tmp_path / "go").touch()
    replies = {}
    while len(replies) < 2:
        reply = kernel.client.get_shell_msg(timeout=60)
        replies[reply["parent_header"]["msg_id"]] = reply["content"]
    assert replies[bad]["ename"] == "ZeroDivisionError"
    assert "ZeroDivisionError" in "".join(replies[bad]["traceback"])
    assert replies[dropped]["status"] == "aborted"
    subshell.start("flag = True")
    assert kernel.finish(after).result == "'went on'"
    assert kernel.run("'ran' in globals()").result == "False"


@pytest.mark.parametrize(
    "code", ["while True: pass", "import asyncio\nawait asyncio.sleep(1000)", "input()"]
)
def test_interrupt(kernel, subshell, code):
    sent = subshell.start("started = True\n" + code, allow_stdin=True)
    kernel.run("import time\nwhile 'started' not in globals(): time.sleep(0.01)\ntime.sleep(0.3)")
    kernel.control("interrupt_request")
    assert kernel.finish(sent).content["ename"] == "KeyboardInterrupt"
    assert subshell.run("6 * 7").result == "42"
    assert kernel.run("6 * 7").result == "42"


def test_input_of_each(kernel, subshell):
    client = kernel.client
    main = client.execute("'main ' + input('main? ')", allow_stdin=True)
    assert client.get_stdin_msg(timeout=60)["content"]["prompt"] == "main? "
    aside = subshell.start("'aside ' + input('aside? ')", allow_stdin=True)
    request = client.get_stdin_msg(timeout=60)
    assert request["content"]["prompt"] == "aside? "
    assert request["parent_header"]["msg_id"] == aside
    reply = client.session.msg("input_reply", {"value": "a"})
    reply["header"]["subshell_id"] = subshell.id
    client.stdin_channel.send(reply)
    assert kernel.finish(aside).result == "'aside a'"
    client.input("m")
    assert kernel.finish(main).result == "'main m'"
    assert subshell.run("input()").content["ename"] == "StdinNotImplementedError"


def test_a_main_worker_that_dies_is_replaced(kernel, subshell):
    kernel.run("kept = 1")
    kernel.run(CELL + "1")  # commits
    sent = subshell.start("import os; os.abort()")
    assert kernel.finish(sent).content["ename"] == "CellDied"
    assert subshell.run("kept").result == "1"


def test_state_of_instrumented_cells(isolated_kernel, tmp_path):
    kernel = isolated_kernel
    subshell = Subshell(kernel)
    kernel.run("values = [1]")
    kernel.run(CELL + "values.append(2)")
    assert subshell.run("values.append(3); values").result == "[1, 2, 3]"
    assert kernel.run(CELL + "values").result == "[1, 2, 3]"
    cell = kernel.client.execute(
        CELL + "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\nmade = 'there'"
    )
    assert subshell.run("mine = 'here'").status == "ok"
    (tmp_path / "go").touch()
    assert kernel.finish(cell).status == "ok"
    assert kernel.run("made, mine").result == "('there', 'here')"
    assert kernel.run(CELL + "made, mine, values").result == "('there', 'here', [1, 2, 3])"


def test_a_subshell_at_rest_is_no_thread(kernel, subshell):
    look = "from holdfast.base.user_threads import alone\nalone()"
    assert kernel.run(look).result == "True"
    subshell.run("x = 1")
    assert kernel.run(look).result == "True"
    waiting = subshell.start("began = True\n" + WAITS)
    kernel.run("import time\nwhile 'began' not in globals(): time.sleep(0.01)")
    assert kernel.run(look).result == "False"
    assert release(kernel, Subshell(kernel), waiting).status == "ok"


COMM = """
import comm, threading
got = []
def opened(channel, message):
    @channel.on_msg
    def _(message):
        got.append((message["content"]["data"], [bytes(b) for b in message["buffers"]]))
        thread = threading.current_thread() is not threading.main_thread()
        channel.send({"thread": thread}, buffers=[b"back"])
comm.get_comm_manager().register_target("test", opened)
"""


@pytest.mark.parametrize("instrumented", [False, True])
def test_comm_messages_while_a_cell_runs(isolated_kernel, instrumented):
    kernel = isolated_kernel
    subshell = Subshell(kernel)
    head = CELL if instrumented else ""
    if not instrumented:
        kernel.run(COMM)
        subshell.send("comm_open", {"comm_id": "c", "target_name": "test", "data": {}})
        code = WAITS
    else:  # its own comm, which a task of the cell's waits for
        opens = "channel = comm.create_comm(target_name='x', comm_id='c')\nopened(channel, None)\n"
        code = head + COMM + opens + "import asyncio\nwhile not got: await asyncio.sleep(0.01)"
    main = kernel.client.execute(code)
    message = None
    while instrumented and (message is None or message["msg_type"] != "comm_open"):
        message = kernel.client.get_iopub_msg(timeout=60)
    subshell.send("comm_msg", {"comm_id": "c", "data": {"n": 1}}, buffers=[b"\0\1", b""])
    while message is None or message["msg_type"] != "comm_msg":
        message = kernel.client.get_iopub_msg(timeout=60)
    assert message["content"]["data"] == {"thread": not instrumented}
    assert [bytes(part) for part in message["buffers"]] == [b"back"]
    outcome = kernel.finish(main) if instrumented else release(kernel, subshell, main)
    assert outcome.status == "ok"
    assert kernel.run("got").result == "[({'n': 1}, [b'\\x00\\x01', b''])]"
