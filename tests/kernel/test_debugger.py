"""The debugger, as JupyterLab uses it: breakpoints in plain and in recorded cells."""

import time

import effort
import pytest
from processes import kill
from waiting import until

from holdfast.worker.debug import debuggee

BODY = "def f(a):\n    b = a + 1\n    return b\n\nz = f(41)\n"


class Client:
    """Speaks debug_request on the control channel."""

    def __init__(self, notebook):
        self.notebook = notebook
        self.number = 0

    def ask(self, command, **arguments):
        self.number += 1
        content = {"type": "request", "seq": self.number, "command": command}
        reply = self.notebook.control("debug_request", content | {"arguments": arguments})
        answer = reply["content"]
        assert answer["type"] == "response" and answer["request_seq"] == self.number, answer
        assert answer["command"] == command
        return answer

    def body(self, command, **arguments):
        answer = self.ask(command, **arguments)
        assert answer["success"], answer
        return answer.get("body", {})

    def start(self):
        self.body("initialize", clientID="test", adapterID="test", pathFormat="path")
        self.body("attach")

    def break_at(self, code, line):
        """Set one breakpoint in a cell; the cell's file."""
        path = self.body("dumpCell", code=code)["sourcePath"]
        found = self.body("setBreakpoints", source={"path": path}, breakpoints=[{"line": line}])[
            "breakpoints"
        ]
        assert [(each["verified"], each["line"]) for each in found] == [(True, line)]
        self.body("configurationDone")
        return path

    def stopped(self):
        """Wait for the event; the thread."""
        while True:
            message = self.notebook.client.get_iopub_msg(timeout=60)
            content = message["content"]
            if message["msg_type"] == "debug_event" and content["event"] == "stopped":
                return content["body"]["threadId"]

    def frames(self, thread):
        return self.body("stackTrace", threadId=thread)["stackFrames"]

    def locals(self, frame):
        scope = self.body("scopes", frameId=frame["id"])["scopes"][0]
        found = self.body("variables", variablesReference=scope["variablesReference"])
        return {each["name"]: each["value"] for each in found["variables"]}


@pytest.mark.parametrize(
    "run_mode", effort.core(["plain", "isolated", "in-process"], ["plain", "isolated"])
)
def test_a_cell_stops_at_its_breakpoint(kernel, run_mode):
    debugger = Client(kernel)
    debugger.start()
    head = "" if run_mode == "plain" else f"%%execute_with_scorep --run={run_mode}\n"
    code, first = head + BODY, len(head.splitlines())
    path = debugger.break_at(code, first + 2)
    sent = kernel.client.execute(code)
    thread = debugger.stopped()
    frames = debugger.frames(thread)
    assert [frame["name"] for frame in frames[:2]] == ["f", "<module>"]
    assert all(frame["source"]["path"] == path for frame in frames)
    assert frames[0]["line"] == first + 2
    assert debugger.locals(frames[0]) == {"a": "41"}
    assert debugger.body("debugInfo")["stoppedThreads"] == [thread]
    debugger.body("next", threadId=thread)
    thread = debugger.stopped()
    frames = debugger.frames(thread)
    assert frames[0]["line"] == first + 3
    assert debugger.locals(frames[0]) == {"a": "41", "b": "42"}
    shown = debugger.body("richInspectVariables", variableName="b", frameId=frames[0]["id"])
    assert shown["data"] == {"text/plain": "42"}
    debugger.body(
        "copyToGlobals", srcVariableName="b", dstVariableName="c", srcFrameId=frames[0]["id"]
    )
    debugger.body("continue", threadId=thread)
    assert kernel.finish(sent).status == "ok"
    assert kernel.run("z, c").result == "(42, 42)"
    debugger.body("disconnect")
    assert kernel.run(code).status == "ok"  # nothing stops it


def test_what_a_client_gets_before_anything_runs(kernel):
    kernel.run("\n\nnumbers = [1, 2]; text = 'word'")
    debugger = Client(kernel)
    info = debugger.body("debugInfo")
    assert info["isStarted"] is False and info["breakpoints"] == []
    assert (info["hashMethod"], info["tmpFileSuffix"]) == ("Murmur2", ".py")
    variables = {each["name"]: each for each in debugger.body("inspectVariables")["variables"]}
    assert {"numbers", "text"} <= variables.keys() and "In" not in variables
    parts = debugger.body(
        "variables", variablesReference=variables["numbers"]["variablesReference"]
    )["variables"]
    assert [each["value"] for each in parts if each["name"].isdigit()] == ["1", "2"]
    shown = debugger.body("richInspectVariables", variableName="text")
    assert shown["data"] == {"text/plain": "'word'"}
    modules = debugger.body("modules")
    assert modules["totalModules"] > 100
    assert "json" in {each["name"] for each in modules["modules"]}
    refused = debugger.ask("stackTrace", threadId=1)
    assert refused["success"] is False and "not started" in refused["message"]


def test_breakpoints_outlive_the_process_that_they_were_set_in(kernel):
    debugger = Client(kernel)
    debugger.start()
    debugger.break_at(BODY, 2)
    assert kernel.run("import os; os._exit(3)").content["ename"] == "CellDied"
    assert kernel.run("1").status == "ok"
    # The new main worker gets the breakpoints once it is connected; then the cell stops there.
    info = debugger.body("debugInfo")
    assert [each["breakpoints"][0]["line"] for each in info["breakpoints"]] == [2]
    sent = kernel.client.execute(BODY)
    debugger.body("continue", threadId=debugger.stopped())
    assert kernel.finish(sent).status == "ok"
    source = debugger.body("source", source={"path": info["breakpoints"][0]["source"]})
    assert source["content"] == BODY


def test_a_debugger_takes_no_port_and_no_place_of_the_recorder(kernel):
    debugger = Client(kernel)
    debugger.start()
    listening = kernel.run(
        "import os\n"
        "tables = [open(f'/proc/self/net/{kind}').read() for kind in ('tcp', 'tcp6')]\n"
        "rows = [row.split() for table in tables for row in table.splitlines()[1:]]\n"
        "def target(fd):\n"
        "    try: return os.readlink(f'/proc/self/fd/{fd}')\n"
        "    except OSError: pass  # of the listing, or of another thread\n"
        "ours = set(map(target, os.listdir('/proc/self/fd')))\n"
        "[row[1] for row in rows if row[3] == '0A' and f'socket:[{row[9]}]' in ours]"
    )
    assert listening.result == "[]"
    recorded = kernel.run("%%execute_with_scorep --run=in-process\n" + BODY)
    assert recorded.status == "ok" and recorded.cost["events"] >= 2


def test_names_of_ipython_are_not_the_users():
    hidden = ["In", "Out", "_", "__", "_i", "_ii", "_i3", "_12", "__name__", "exit"]
    assert [name for name in hidden if debuggee.is_users(name)] == []
    assert all(debuggee.is_users(name) for name in ("x", "_x", "i1", "_private", "__y"))


def test_an_end_of_the_assistant_is_reported(kernel):
    debugger = Client(kernel)
    kernel.run("1")
    before = kernel.workers()
    debugger.start()
    new = kernel.workers() - before
    assert new
    for each in new:  # a standby may be among them, which is nobody's loss
        kill(each)
    while new & kernel.workers():
        time.sleep(0.01)
    # The frontend may not have heard of it yet: then this is refused, and no answer is lost.
    info = until(lambda: (answer := debugger.ask("debugInfo"))["success"] and answer)
    assert info["body"]["isStarted"] is False
    assert kernel.run("2").result == "2"
