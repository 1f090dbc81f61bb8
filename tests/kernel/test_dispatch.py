"""What the frontend answers by itself, and when."""

import time


def test_control_answers_while_a_cell_runs(plain_kernel):
    kernel = plain_kernel
    sent = kernel.client.execute("import time; time.sleep(100)")
    time.sleep(0.3)
    info = kernel.control("kernel_info_request", timeout=2)["content"]
    assert info["protocol_version"] == "5.4" and info["implementation"] == "holdfast"
    assert info["language_info"]["version"].count(".") == 2
    assert info["supported_features"] == []
    ports = kernel.control("connect_request", timeout=2)["content"]
    assert ports["shell_port"] == kernel.manager.get_connection_info()["shell_port"]
    assert kernel.control("interrupt_request", timeout=2)["content"] == {"status": "ok"}
    outcome = kernel.finish(sent, timeout=10)
    assert outcome.content["ename"] == "KeyboardInterrupt"


def test_what_is_not_there_says_so(plain_kernel):
    kernel = plain_kernel
    debug = kernel.control("debug_request", {"seq": 4, "type": "request", "command": "attach"})
    assert debug["content"]["success"] is False and debug["content"]["request_seq"] == 4
    subshell = kernel.control("create_subshell_request")["content"]
    assert subshell["status"] == "error" and "subshells" in subshell["evalue"]


def test_sigint_interrupts_the_cell(plain_kernel):
    import os
    import signal

    kernel = plain_kernel
    for head in ("", "%%execute_with_scorep\n"):
        sent = kernel.client.execute(head + "import time; time.sleep(100)")
        time.sleep(0.5)
        os.kill(kernel.pid, signal.SIGINT)
        assert kernel.finish(sent, timeout=10).content["ename"] == "KeyboardInterrupt"
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
        reply = client.get_shell_msg(timeout=10)
        assert reply["parent_header"]["msg_id"] == sent
        assert reply["msg_type"] == kind and reply["content"]["status"] == "ok"


def test_input_goes_to_the_client_that_asked(plain_kernel):
    assert plain_kernel.run("input('name? ')", answers=["Ada"]).result == "'Ada'"
    cell = plain_kernel.run("%%execute_with_scorep\ninput('again? ')", answers=["Bob"])
    assert cell.result == "'Bob'"
