"""Verify mode reports, and mends, what a commit would have passed over."""

import pytest

BY_ADDRESS = "import ctypes\nctypes.cast(where, ctypes.py_object).value.append(5)"
BY_TEXT = "import ctypes\nctypes.cast(int(text), ctypes.py_object).value.append(5)"
CLEAN = "%%isolated --run=isolated\n"


@pytest.fixture
def kernel(kernel):
    """With a list that the last commit knows, and its address, as a number or as text."""
    kernel.run("x = [1]; y = {'a': [2]}")
    for _ in range(2):
        kernel.settle()
    return kernel


def result_and_stderr(kernel, code):
    """What is printed to stderr with a cell, the commit after it, and a cell that binds that; its
    result."""
    kernel.client.execute(code)
    last = kernel.client.execute(CLEAN + "x")
    result, text, idle = None, "", False
    while not idle:
        message = kernel.client.get_iopub_msg(timeout=60)
        content = message["content"]
        if message["msg_type"] == "stream" and content["name"] == "stderr":
            text += content["text"]
        if message["msg_type"] == "execute_result":
            result = content["data"]["text/plain"]
        idle = message["parent_header"].get("msg_id") == last
        idle = idle and content.get("execution_state") == "idle"
    return result, text


def test_the_switch(kernel):
    assert "not verified" in kernel.run("%holdfast verify").stream()
    assert "is verified" in kernel.run("%holdfast verify on").stream()
    assert kernel.run(CLEAN + "import os; os.environ['HOLDFAST_VERIFY']").result == "'on'"
    assert "not verified" in kernel.run("%holdfast verify off").stream()
    assert "on or off" in kernel.run("%holdfast verify maybe").stream()


def test_a_change_that_nothing_names_is_saved(kernel):
    """The number in a variable may be an address (worker/addresses.py): then all is looked at."""
    kernel.run("where = id(x)")
    kernel.settle()
    kernel.run("%holdfast verify on")
    result, text = result_and_stderr(kernel, BY_ADDRESS)
    assert result == "[1, 5]" and "VERIFY" not in text
    assert "the addresses in where couldn't be carried over" in text


def test_a_change_that_nothing_names_is_reported_and_saved(kernel):
    """No number is an address here: nothing but verify mode finds out."""
    kernel.run("text = str(id(x))")
    kernel.settle()
    kernel.run("%holdfast verify on")
    result, text = result_and_stderr(kernel, BY_TEXT)
    assert result == "[1, 5]"
    assert "VERIFY FAILED: x changed" in text and "ctypes.cast(int(text)" in text


def test_what_is_seen_is_not_reported(start_kernel):
    kernel = start_kernel(env={"HOLDFAST_VERIFY": "1"})
    kernel.run("import numpy as np\nx = [1]; y = np.zeros(100_000); z = {'x': x}")
    kernel.settle()
    code = "def change():\n    x.append(2)\n    y[5] = 7\nchange()"
    assert result_and_stderr(kernel, code) == ("[1, 2]", "")
