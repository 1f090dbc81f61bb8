"""The five sockets as clients see them, over tcp and ipc."""

import os
from pathlib import Path

import zmq


def test_heartbeat_while_a_cell_runs(plain_kernel):
    kernel = plain_kernel
    sent = kernel.client.execute("import time; time.sleep(1)")
    ports = kernel.manager.get_connection_info()
    with zmq.Context() as context, context.socket(zmq.REQ) as socket:
        socket.linger = 0
        socket.connect(f"tcp://{ports['ip']}:{ports['hb_port']}")
        for beat in (b"ping", b"", b"\x00\xff" * 1000):
            socket.send(beat)
            assert socket.poll(500), "no heartbeat within half a second"
            assert socket.recv() == beat
    assert kernel.finish(sent).status == "ok"


def test_ipc_leaves_no_file(start_kernel, plain_kernel, tmp_path):
    spec = plain_kernel.manager.kernel_spec.argv
    folder = tmp_path / "s"
    folder.mkdir()
    kernel = start_kernel(
        python=spec[spec.index("--python") + 1], transport="ipc", ip=str(folder / "k")
    )
    assert kernel.run("6 * 7").result == "42"
    assert len(list(folder.iterdir())) == 5
    kernel.close()
    assert list(folder.iterdir()) == []


def test_a_late_subscriber_is_welcomed(plain_kernel):
    kernel = plain_kernel
    ports = kernel.manager.get_connection_info()
    with zmq.Context() as context, context.socket(zmq.SUB) as socket:
        socket.linger = 0
        socket.connect(f"tcp://{ports['ip']}:{ports['iopub_port']}")
        socket.setsockopt(zmq.SUBSCRIBE, b"kernel.")
        assert socket.poll(5000)
        parts = socket.recv_multipart()
    assert parts[0] == b"kernel."
    message = kernel.client.session.deserialize(parts[2:])
    assert message["msg_type"] == "iopub_welcome"
    assert message["content"] == {"subscription": "kernel."}


def test_garbage_is_dropped(plain_kernel):
    kernel = plain_kernel
    ports = kernel.manager.get_connection_info()
    before = len(os.listdir(f"/proc/{kernel.pid}/fd"))
    with zmq.Context() as context:
        for name in ("shell", "control", "stdin"):
            with context.socket(zmq.DEALER) as socket:
                socket.connect(f"tcp://{ports['ip']}:{ports[name + '_port']}")
                socket.send(b"")
                socket.send_multipart([b"<IDS|MSG>"])
                socket.send_multipart([b"<IDS|MSG>", b"00", b"{", b"{}", b"{}", b"{}"])
                socket.send_multipart([b"x"] * 5000)
                assert not socket.poll(100), "garbage was answered"
    assert kernel.run("1").status == "ok"
    assert len(os.listdir(f"/proc/{kernel.pid}/fd")) <= before + 6


def test_a_replayed_message_runs_once(plain_kernel):
    kernel = plain_kernel
    kernel.run("count = 0")
    session = kernel.client.session
    content = {"code": "count += 1", "silent": False}
    parts = session.serialize(session.msg("execute_request", content))
    ports = kernel.manager.get_connection_info()
    with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.connect(f"tcp://{ports['ip']}:{ports['shell_port']}")
        for _ in range(3):
            socket.send_multipart(parts)
        assert socket.poll(5000)
        socket.recv_multipart()
        assert not socket.poll(300)
    assert kernel.run("count").result == "1"


def test_a_flood_of_output_is_whole(plain_kernel):
    code = "import os\nfor i in range(3000): print(i, 'x' * 100)\nos.write(1, b'\\xe2\\x82\\xac' * 20000)"
    outcome = plain_kernel.run(code)
    text = outcome.stream()
    assert text.count("\n") == 3000 and text.count("€") == 20000 and "\ufffd" not in text
    assert outcome.types.count("stream") < 100  # joined
    assert Path(f"/proc/{plain_kernel.pid}").exists()
