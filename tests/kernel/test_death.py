"""Workers that die, in every role, by every way."""

import os
import signal

import pytest
from waiting import complete, until

CELL = "%%execute_with_scorep\n"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import os; os.kill(os.getpid(), 9)", "signal 9 (SIGKILL), perhaps because memory"),
        ("import ctypes; ctypes.string_at(0)", "signal 11 (SIGSEGV)"),
        ("import os; os.abort()", "signal 6 (SIGABRT)"),
        ("import os; os._exit(3)", "left with exit status 3"),
    ],
)
def test_a_dead_cell_costs_its_cell(plain_kernel, code, words):
    kernel = plain_kernel
    kernel.run("kept = 5")
    outcome = kernel.run(CELL + code)
    assert outcome.status == "error" and outcome.content["ename"] == "CellDied"
    assert words in outcome.content["evalue"]
    assert outcome.types.count("error") == 1
    assert kernel.run("kept").result == "5"
    assert kernel.run(CELL + "role").result == "'cell'"


def test_output_before_death_is_shown(plain_kernel):
    outcome = plain_kernel.run(
        CELL + "import os\nprint('python')\nos.write(1, b'raw')\nos.kill(os.getpid(), 9)"
    )
    assert "python" in outcome.stream() and "raw" in outcome.stream()
    assert outcome.types.index("error") > outcome.types.index("stream")


def test_the_frontend_answers_while_a_trace_is_rescued(start_plain, tmp_path):
    guardian = tmp_path / "guardian"
    guardian.write_text(
        "#!/bin/sh\ntouch begun\nwhile [ ! -e go ]; do sleep 0.01; done\ntouch traces.otf2\n"
    )
    guardian.chmod(0o755)
    kernel = start_plain(env={"PLAIN_WORKER_GUARDIAN": str(guardian)})
    sent = kernel.client.execute(CELL + "import os; os.kill(os.getpid(), 9)")
    until((tmp_path / "begun").exists)
    assert kernel.control("kernel_info_request")["content"]["status"] == "ok"
    (tmp_path / "go").touch()
    content = kernel.finish(sent).content
    words = f"; what was recorded until then is in {tmp_path}: %trace shows it"
    assert words in content["evalue"]
    assert kernel.run("role").result == "'main'"


def test_a_dead_main_worker_is_replaced(plain_kernel):
    kernel = plain_kernel
    outcome = kernel.run("import os; os.kill(os.getpid(), 11)")
    assert outcome.content["ename"] == "CellDied" and "SIGSEGV" in outcome.content["evalue"]
    assert outcome.types.count("error") == 1
    assert kernel.run("frames").result == "['adopt', 'request']"


def test_a_main_worker_that_dies_between_cells(plain_kernel):
    kernel = plain_kernel
    pid = int(kernel.run("import os; os.getpid()").result)
    complete(kernel)
    os.kill(pid, signal.SIGKILL)
    complete(kernel, without=pid)
    outcome = kernel.run("import os; os.getpid()")
    if outcome.status == "error":  # the frontend had not heard of the death when it sent the cell
        assert outcome.content["ename"] == "CellDied"
        outcome = kernel.run("import os; os.getpid()")
    assert int(outcome.result) != pid


def test_a_dead_fork_server_costs_nothing(plain_kernel):
    kernel = plain_kernel
    server = kernel.fork_server()
    main = kernel.run("import os; kept = [1]; os.getpid()").result
    os.kill(server, signal.SIGKILL)
    until(lambda: kernel.fork_server() not in (0, server))
    assert kernel.run("kept, os.getpid()").result == f"([1], {main})"
    assert kernel.run(CELL + "role").result == "'cell'"
