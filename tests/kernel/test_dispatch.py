"""What the frontend answers by itself, and when."""

import os
import signal

from waiting import asleep

CELL = "%%execute_with_scorep\n"
SLEEPS = "import time; print('go', flush=True); time.sleep(100)"


def test_control_answers_while_a_cell_runs(plain_kernel):
    kernel = plain_kernel
    sent = asleep(kernel, SLEEPS)
    info = kernel.control("kernel_info_request")["content"]
    assert info["protocol_version"] == "5.5" and info["implementation"] == "holdfast"
    assert info["language_info"]["version"].count(".") == 2
    assert info["supported_features"] == ["kernel subshells"]
    ports = kernel.control("connect_request")["content"]
    assert ports["shell_port"] == kernel.manager.get_connection_info()["shell_port"]
    assert kernel.control("interrupt_request")["content"] == {"status": "ok"}
    outcome = kernel.finish(sent)
    assert outcome.content["ename"] == "KeyboardInterrupt"


def test_sigint_interrupts_the_cell(plain_kernel):
    kernel = plain_kernel
    for head in ("", CELL):
        sent = asleep(kernel, head + SLEEPS)
        os.kill(kernel.pid, signal.SIGINT)
        assert kernel.finish(sent).content["ename"] == "KeyboardInterrupt"
    assert kernel.run("1").status == "ok"


def test_requests_for_the_worker_are_passed_on(plain_kernel):
    client = plain_kernel.client
    for ask, kind in (
        (lambda: client.complete("pri", 3), "complete_reply"),
        (lambda: client.inspect("print", 3), "inspect_reply"),
        (lambda: client.is_complete("for"), "is_complete_reply"),
        (lambda: client.history(), "history_reply"),
        (lambda: client.comm_info(), "comm_info_reply"),
    ):
        sent = ask()
        reply = client.get_shell_msg(timeout=60)
        assert reply["parent_header"]["msg_id"] == sent
        assert reply["msg_type"] == kind and reply["content"]["status"] == "ok"


def test_input_goes_to_the_client_that_asked(plain_kernel):
    assert plain_kernel.run("input('name? ')", answers=["Ada"]).result == "'Ada'"
    cell = plain_kernel.run(CELL + "input('again? ')", answers=["Bob"])
    assert cell.result == "'Bob'"
