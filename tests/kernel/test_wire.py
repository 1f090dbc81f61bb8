"""What a client may say, and what becomes of everything else: nobody's process, nobody's subshell.

Messages go out as bytes, signed as a client signs them, so that each part can be wrong by itself.
"""

import json

import pytest
import zmq
from waiting import asleep

# What can't be a part of a message, and what the kernel calls it.
WRONG = {
    "broken": (b'{"a": ', "has a value that is none"),
    "not UTF-8": (b'{"a": "\xff"}', "is not UTF-8"),
    "5,000 digits": (b'{"a": ' + b"7" * 5000 + b"}", "has an integer of too many digits"),
    "1,500 deep": (b'{"a": ' + b"[" * 1500 + b"]" * 1500 + b"}", "is nested too deeply"),
    "a list": (b'[{"a": 1}]', "is not an object"),
    "two objects": (b"{}{}", "has something behind its end"),
    "nothing": (b"", "is not an object"),
}
PARTS = ("parent_header", "metadata", "content")
SHELL = (
    "execute_request",
    "complete_request",
    "inspect_request",
    "is_complete_request",
    "history_request",
    "comm_info_request",
    "kernel_info_request",
)
CONTROL = ("debug_request", "usage_request", "interrupt_request", "list_subshell_request")
MESSAGES = ("comm_open", "comm_msg", "comm_close")
GOOD = {
    "execute_request": {"code": "1", "silent": True, "stop_on_error": False},
    "comm_msg": {"comm_id": "x", "data": {}},
}


class Wire:
    """A kernel's client that writes its messages itself."""

    def __init__(self, kernel):
        self.kernel, self.client = kernel, kernel.client

    def send(self, channel, kind, header=None, **parts):
        """Send a message; its id. A part may be bytes."""
        message = self.client.session.msg(kind, GOOD.get(kind, {}))
        head = message["header"] | (header or {})
        four = {"header": json.dumps(head, default=str).encode(), "parent_header": b"{}"}
        four |= {"metadata": b"{}", "content": json.dumps(message["content"]).encode()}
        self.throw(channel, list((four | parts).values()))
        return head["msg_id"]

    def throw(self, channel, four, signature=None):
        if signature is None:
            signature = self.client.session.sign(four)
        socket = getattr(self.client, channel + "_channel").socket
        socket.send_multipart([b"<IDS|MSG>", signature, *four])

    def answer(self, channel, sent, timeout=60):
        """The content of the reply."""
        get = getattr(self.client, f"get_{channel}_msg")
        while True:
            reply = get(timeout=timeout)
            if reply["parent_header"].get("msg_id") == sent:
                return reply["content"]


@pytest.fixture
def wire(shared_kernel):
    return Wire(shared_kernel)


def pid(kernel):
    return kernel.run("import os; os.getpid()").result


def test_malformed_parts_are_answered(wire):
    main = pid(wire.kernel)
    assert wire.kernel.run("kept = [1, 2]").status == "ok"
    for channel, kinds in (("shell", SHELL), ("control", CONTROL)):
        for kind in kinds:
            for part in PARTS:
                for value, what in WRONG.values():
                    sent = wire.send(channel, kind, **{part: value})
                    content = wire.answer(channel, sent)
                    assert content["status"] == "error", (kind, part, value)
                    assert content["ename"] == "ProtocolError"
                    assert content["evalue"] == f"the message's {part} {what}"
        wire.kernel.run("pass")  # nothing waits, and what was published is read
    assert pid(wire.kernel) == main
    assert wire.kernel.run("kept").result == "[1, 2]"


def test_malformed_messages_without_a_reply_are_dropped(wire):
    main = pid(wire.kernel)
    for kind in MESSAGES:
        for part in PARTS:
            for value, _ in WRONG.values():
                wire.send("shell", kind, **{part: value})
                wire.send("control", kind, **{part: value})
    for value, _ in WRONG.values():
        wire.send("stdin", "input_reply", content=value)
        wire.send("shell", "execute_request", header={"msg_type": ["x"]})
    assert pid(wire.kernel) == main
    assert wire.kernel.run("input()", answers=["still"]).result == "'still'"


def test_malformed_messages_of_a_subshell(wire):
    main = pid(wire.kernel)
    made = wire.kernel.control("create_subshell_request")["content"]
    named = {"subshell_id": made["subshell_id"]}
    for kind in SHELL:
        for part in PARTS:
            for value, what in WRONG.values():
                sent = wire.send("shell", kind, named, **{part: value})
                content = wire.answer("shell", sent)
                assert content["ename"] == "ProtocolError" and what in content["evalue"]
    cell = json.dumps({"code": "2 + 2"}).encode()
    outcome = wire.kernel.finish(wire.send("shell", "execute_request", named, content=cell))
    assert outcome.result == "4"
    assert pid(wire.kernel) == main


def test_malformed_requests_while_a_cell_runs(shared_kernel):
    wire = Wire(shared_kernel)
    sent = asleep(shared_kernel, "import time; print('go', flush=True); time.sleep(100)")
    bad = wire.send("control", "debug_request", content=b"[1]")
    assert wire.answer("control", bad)["ename"] == "ProtocolError"
    bad = wire.send("shell", "complete_request", content=b"[1]")  # no assistant is asked
    assert shared_kernel.control("interrupt_request")["content"]["status"] == "ok"
    assert shared_kernel.finish(sent).content["ename"] == "KeyboardInterrupt"


@pytest.mark.parametrize("channel", ["shell", "control"])
def test_unknown_requests_are_answered(wire, channel):
    content = wire.answer(channel, wire.send(channel, "no_such_request"))
    assert content["ename"] == "NotSupported" and "no_such_request" in content["evalue"]


def test_debug_requests_of_other_shapes_are_answered(wire):
    """Objects, but none that a debugger can read."""
    odd = ({}, {"command": 5}, {"command": "initialize", "arguments": [1]}, {"command": "process"})
    odd += ({"command": "setBreakpoints", "arguments": "x"}, {"command": "source"})
    for content in odd:
        sent = wire.send("control", "debug_request", content=json.dumps(content).encode())
        assert wire.answer("control", sent).get("success") is False, content


def test_odd_contents_are_answered(wire):
    """Good JSON with other types than the protocol's: an answer, and the same process after it."""
    main = pid(wire.kernel)
    for value in (None, 1, -1, "x", [], {}, 1e400, True, 10**30):
        for kind, keys in (
            ("complete_request", ("code", "cursor_pos")),
            ("inspect_request", ("code", "cursor_pos", "detail_level")),
            ("is_complete_request", ("code",)),
            ("history_request", ("hist_access_type", "n", "session")),
            ("comm_info_request", ("target_name",)),
            ("execute_request", ("code", "silent", "user_expressions", "allow_stdin")),
        ):
            for key in keys:
                content = json.dumps(GOOD["execute_request"] | {key: value}).encode()
                sent = wire.send("shell", kind, content=content)
                assert "status" in wire.answer("shell", sent), (kind, key, value)
    for metadata in ({"cellId": []}, {"deletedCells": 1}, {"tags": {}}):
        sent = wire.send("shell", "execute_request", metadata=json.dumps(metadata).encode())
        assert wire.answer("shell", sent)["status"] == "ok"
    assert pid(wire.kernel) == main


# ---- what is given back


OPENS = """
from comm import create_comm
seen = []
c = create_comm(target_name="t", data={"d": 1})
c.on_msg(lambda message: seen.append(message["content"]["data"]))
for n in range(30):
    c.send({"n": n}, metadata={"m": {}} if n % 2 else None)
print("text")
display("shown")
6 * 7
"""


@pytest.fixture
def listener(kernel):
    """A subscriber of iopub that keeps what it hears as bytes; it has no key."""
    info = kernel.manager.get_connection_info()
    with zmq.Context() as context, context.socket(zmq.SUB) as socket:
        socket.linger = 0
        socket.connect(f"tcp://127.0.0.1:{info['iopub_port']}")
        socket.subscribe(b"")
        assert socket.poll(60_000)  # iopub_welcome
        yield socket


def heard(listener, kernel):
    """All messages of one cell: signature and the four parts of each."""
    sent = kernel.run(OPENS).reply["parent_header"]["msg_id"]
    found = []
    while True:
        parts = listener.recv_multipart()
        at = parts.index(b"<IDS|MSG>")
        found.append(parts[at + 1 : at + 6])
        parent, content = (json.loads(parts[at + 1 + i]) for i in (2, 4))
        if parent.get("msg_id") == sent and content.get("execution_state") == "idle":
            return found


def moves(four, first):
    """The parts with their borders as they were, and each moved a little; from the first on."""
    whole, found = b"".join(four), []
    ends = [len(b"".join(four[: i + 1])) for i in range(3)]
    for border, step in [(0, 0)] + [(b, s) for b in range(3) for s in (1, -1, 2, -2)]:
        cuts = ends[:border] + [ends[border] + step] + ends[border + 1 :]
        cuts = [0, *sorted(min(cut, len(whole)) for cut in cuts), len(whole)]
        found.append([whole[a:b] for a, b in zip(cuts, cuts[1:], strict=False)])
    return found[first % len(found) :] + found[: first % len(found)]


def test_own_messages_are_not_taken_back(kernel, listener):
    """Whole, and with a border of their parts moved by one byte or to another object."""
    main, wire = pid(kernel), Wire(kernel)
    messages = heard(listener, kernel)
    kinds = {json.loads(four[0])["msg_type"] for _, *four in messages}
    assert {"comm_open", "comm_msg", "stream", "display_data", "execute_result"} <= kinds
    for number, (signature, *four) in enumerate(messages):
        for moved in moves(four, first=number):  # one that is taken would bar the others
            wire.throw("shell", moved, signature)
    assert pid(kernel) == main
    assert kernel.run("seen").result == "[]"
    name = kernel.run("c.comm_id").result.strip("'")
    own = json.dumps({"comm_id": name, "data": {"mine": 1}}).encode()
    wire.send("shell", "comm_msg", content=own)
    assert kernel.run("seen").result == "[{'mine': 1}]"


def test_messages_of_a_kernel_before_are_not_taken_back(kernel, listener):
    """It had the same key, and this one has never heard of them: the header says whose they are."""
    messages = [four for _, *four in heard(listener, kernel)]
    kernel.manager.restart_kernel(now=True)
    kernel.client.wait_for_ready(timeout=60)
    wire = Wire(kernel)
    assert kernel.run("from comm import get_comm_manager as m; n = len(m().comms)").status == "ok"
    kernel.run("opened = []; m().register_target('t', lambda *a: opened.append(a))")
    for four in messages:
        wire.throw("shell", four)
    assert kernel.run("opened, len(m().comms) - n").result == "([], 0)"


def test_what_only_a_kernel_says_is_dropped(wire):
    """By any client: no status of it is published, and nothing answers."""
    sent = set()
    for kind in ("stream", "status", "execute_result", "execute_reply", "input_request"):
        for channel in ("shell", "control", "stdin"):
            sent.add(wire.send(channel, kind))
    for kind in ("execute_request", "comm_msg"):
        sent.add(wire.send("stdin", kind))
    sent.add(wire.send("shell", "input_reply"))
    wire.kernel.control("kernel_info_request")
    last = wire.client.execute("pass")
    state, answered = "", set()
    while (state, last) != ("idle", None):
        message = wire.client.get_iopub_msg(timeout=60)
        answered.add(message["parent_header"].get("msg_id"))
        if message["parent_header"].get("msg_id") == last:
            state = message["content"].get("execution_state")
            last = None if state == "idle" else last
    assert not sent & answered
