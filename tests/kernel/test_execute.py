"""The life of a cell: order of messages, counts, aborting, commits."""

import pytest
from waiting import until


def test_order_of_messages(plain_kernel):
    outcome = plain_kernel.run("print('a')\n1")
    assert outcome.types == ["status", "execute_input", "stream", "execute_result", "status"]
    assert outcome.states == ["busy", "idle"]


def test_execution_counts(plain_kernel):
    kernel = plain_kernel
    assert kernel.run("1").content["execution_count"] == 1
    assert kernel.run("2", silent=True).types == ["status", "execute_result", "status"]
    kernel.run("3", store_history=False)
    kernel.run(" \n")
    assert kernel.run("4").content["execution_count"] == 2
    assert kernel.run("%%execute_with_scorep\n5").content["execution_count"] == 3
    assert kernel.run("%%abort_multicellmode").content["execution_count"] == 4


FAILS = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\n1 / 0"


def await_queued(kernel):
    """Until what was sent before has come: this question is answered while a cell runs."""
    question = kernel.client.is_complete("1")
    assert kernel.client.get_shell_msg(timeout=60)["parent_header"]["msg_id"] == question


def test_an_error_aborts_what_is_queued(kernel, tmp_path):
    client = kernel.client
    sent = [client.execute(code) for code in (FAILS, "ran = 1", "ran = 2")]
    await_queued(kernel)
    (tmp_path / "go").touch()
    replies = {}
    while len(replies) < 3:
        reply = client.get_shell_msg(timeout=60)
        replies[reply["parent_header"]["msg_id"]] = reply["content"]["status"]
    assert [replies[one] for one in sent] == ["error", "aborted", "aborted"]
    assert kernel.run("'ran' in globals()").result == "False"


def test_stop_on_error_false_goes_on(kernel, tmp_path):
    client = kernel.client
    client.execute(FAILS, stop_on_error=False)
    client.execute("after = 1")
    await_queued(kernel)
    (tmp_path / "go").touch()
    statuses = [client.get_shell_msg(timeout=60)["content"]["status"] for _ in range(2)]
    assert statuses == ["error", "ok"]


def test_an_instrumented_cell_runs_elsewhere(plain_kernel):
    kernel = plain_kernel
    main = kernel.run("import os; os.getpid()").result
    cell = kernel.run("%%execute_with_scorep\nimport os; os.getpid()")
    assert cell.result != main
    assert cell.stream() == "Instrumentation results can be found in out/trace\n"
    assert cell.cost["run"] == "isolated" and cell.cost["trace"] == "out/trace"
    assert cell.cost["bytes_mapped"] == 7
    shown = "os = 1; {key: one for key, one in frame['instrument'].items() if key != 'name'}"
    assert kernel.run("%%execute_with_scorep\n" + shown).result == (
        "{'arguments': [], 'unserializable': {'gen': 'a generator'}, 'isolated': False, 'run_reason': ''}"
    )


def test_an_idle_main_worker_commits(plain_kernel, tmp_path):
    kernel = plain_kernel
    kernel.run(
        "import pathlib, threading, time\ndef note():\n"
        "    while 'commit' not in frames: time.sleep(0.01)\n"
        "    pathlib.Path('committed').touch()\n"
        "threading.Thread(target=note, daemon=True).start()"
    )
    until((tmp_path / "committed").exists)
    assert kernel.run("frames").result == "['request', 'commit', 'request']"


def test_code_is_refused_politely(plain_kernel):
    kernel = plain_kernel
    message = kernel.client.session.msg("execute_request", {"code": 3})
    kernel.client.shell_channel.send(message)
    refused = kernel.finish(message["header"]["msg_id"])
    assert refused.content["ename"] == "ProtocolError"
    assert kernel.run("a = '\\0'").status == "ok"


@pytest.mark.parametrize("head", ["", "%%execute_with_scorep\n", "%%isolated\n"])
@pytest.mark.parametrize("code", ["x = 1\0", "x = 1 #\0", "\0"])
def test_null_bytes_are_for_python_to_refuse(kernel, head, code):
    outcome = kernel.run(head + code)
    assert outcome.content["ename"] in ("SyntaxError", "ValueError")  # 3.11.3 and before
    assert "null bytes" in outcome.content["evalue"]
    assert kernel.run("'x' in globals()").result == "False"


def test_null_bytes_in_marked_cells(kernel):
    kernel.run("%%enable_multicellmode")
    kernel.run("x = 1")
    kernel.run("y = 1\0")
    outcome = kernel.run("%%finalize_multicellmode")
    assert "null bytes" in outcome.content["evalue"]
    assert kernel.run("'x' in globals()").result == "False"
