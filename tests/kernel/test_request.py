"""What a worker is asked, and the cost in the reply's metadata."""

import json

import pytest

CELL = "%%execute_with_scorep\n"


def test_the_worker_sees_the_request(plain_kernel):
    kernel = plain_kernel
    assert kernel.run("sorted(frame)").result == str(
        sorted(
            ["op", "id", "type", "header", "parent", "metadata", "content", "buffers"]
            + ["code", "execution_count"]
        )
    )
    assert kernel.run("import json; json.loads(frame['header'])['msg_type']").result == (
        "'execute_request'"
    )
    # The code of a cell keeps its line numbers.
    assert kernel.run(CELL + "frame['code'].count('\\n')").result == "1"


def test_costs_add_up(plain_kernel):
    cost = plain_kernel.run(CELL + "1").cost
    assert cost["run"] == "isolated" and cost["generation"] == 0
    for name in ("hand_over_in_ms", "hand_over_out_ms", "run_ms", "commit_ms"):
        assert cost[name] >= 0
    assert cost["run_ms"] == 1  # as the worker reported
    assert cost["bytes_copied"] == 0
    assert plain_kernel.run("1").cost["run"] == "plain"


def test_buffers_reach_the_worker(plain_kernel):
    kernel = plain_kernel
    session = kernel.client.session
    message = session.msg("comm_open", {"comm_id": "c", "target_name": "t", "data": {}})
    session.send(kernel.client.shell_channel.socket, message, buffers=[b"\0\1", b""])
    assert kernel.run("1").status == "ok"


@pytest.mark.parametrize(
    "text",
    ["{}", ' {"a": 1}', '{"a": [1, {"b": null}]}\n', '{"a": "\\ud800é"}', "[1]", "", "{", "{} {}"],
)
def test_parts_of_a_message_are_read_as_by_json(text):
    """In one call, if nothing is around the object."""
    from holdfast.worker.requests import _loads

    try:
        expected = json.loads(text) if text else {}
    except ValueError:
        expected = None
    if isinstance(expected, dict):
        assert _loads(text.encode()) == expected
    else:
        with pytest.raises((TypeError, ValueError)):
            _loads(text.encode())
