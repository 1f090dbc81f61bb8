"""The five sockets as clients see them, over tcp and ipc."""

import contextlib
import json
import socket
import stat
import subprocess
from pathlib import Path

import pytest
import zmq
from waiting import complete, until

from tests.fuzz.soak_wire import descriptors, soak


def test_heartbeat_while_a_cell_runs(plain_kernel, tmp_path):
    kernel = plain_kernel
    sent = kernel.client.execute(
        "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)"
    )
    ports = kernel.manager.get_connection_info()
    with zmq.Context() as context, context.socket(zmq.REQ) as socket:
        socket.linger = 0
        socket.connect(f"tcp://{ports['ip']}:{ports['hb_port']}")
        for beat in (b"ping", b"", b"\x00\xff" * 1000):
            socket.send(beat)
            assert socket.poll(60_000), "no heartbeat"
            assert socket.recv() == beat
    (tmp_path / "go").touch()
    assert kernel.finish(sent).status == "ok"


def test_ipc_leaves_no_file(start_kernel, plain_kernel, tmp_path):
    spec = plain_kernel.manager.kernel_spec.argv
    folder = tmp_path / "s"
    folder.mkdir()
    kernel = start_kernel(
        python=spec[spec.index("--python") + 1], transport="ipc", ip=str(folder / "k")
    )
    assert kernel.run("6 * 7").result == "42"
    modes = [stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()]
    assert modes == [0o600] * 5
    kernel.close()
    assert list(folder.iterdir()) == []


def test_a_late_subscriber_is_welcomed(plain_kernel):
    kernel = plain_kernel
    ports = kernel.manager.get_connection_info()
    with zmq.Context() as context, context.socket(zmq.SUB) as socket:
        socket.linger = 0
        socket.connect(f"tcp://{ports['ip']}:{ports['iopub_port']}")
        socket.setsockopt(zmq.SUBSCRIBE, b"kernel.")
        assert socket.poll(60_000)
        parts = socket.recv_multipart()
    assert parts[0] == b"kernel."
    message = kernel.client.session.deserialize(parts[2:])
    assert message["msg_type"] == "iopub_welcome"
    assert message["content"] == {"subscription": "kernel."}


def test_garbage_is_dropped(plain_kernel):
    kernel = plain_kernel
    ports = kernel.manager.get_connection_info()
    complete(kernel)  # else its processes have more descriptors later, until they rest
    before = descriptors(kernel.pid)
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
    until(lambda: descriptors(kernel.pid) <= before + 6)


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
        assert socket.poll(60_000)
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


CHANNELS = {"shell": zmq.DEALER, "control": zmq.DEALER, "hb": zmq.REQ, "iopub": zmq.SUB}


@contextlib.contextmanager
def asking(kernel, keys):
    """A client with such keys, or none, asks on every socket: by channel, what it may hear on."""
    info, session = kernel.manager.get_connection_info(), kernel.client.session
    with contextlib.ExitStack() as stack:
        context, found = stack.enter_context(zmq.Context()), {}
        for channel, kind in CHANNELS.items():
            socket = found[channel] = stack.enter_context(context.socket(kind))
            socket.linger = 0
            if keys is not None:
                socket.curve_publickey, socket.curve_secretkey = zmq.curve_keypair()
                socket.curve_serverkey = keys
            socket.connect(f"tcp://127.0.0.1:{info[channel + '_port']}")
            if kind == zmq.SUB:
                socket.subscribe(b"")
            elif kind == zmq.REQ:
                socket.send(b"beat")
            else:
                socket.send_multipart(session.serialize(session.msg("kernel_info_request", {})))
        yield found


@pytest.fixture
def curve_kernel(start_plain):
    """A kernel whose client has made CurveZMQ keys."""
    if not zmq.has("curve"):
        pytest.skip("this libzmq has no CurveZMQ")
    return start_plain(transport_encryption="required")


def test_who_has_not_the_keys_hears_nothing(curve_kernel):
    kernel = curve_kernel
    assert kernel.run("6 * 7").result == "42"
    assert kernel.run("%%execute_with_scorep\nprint('x')").status == "ok"
    assert kernel.run("input()", answers=["a"]).result == "'a'"
    right, wrong = kernel.manager.curve_publickey, zmq.curve_keypair()[0]
    with asking(kernel, None) as none, asking(kernel, wrong) as others:
        with asking(kernel, right) as ours:  # after them: all that they said is read by then
            for channel, asked in ours.items():
                assert asked.poll(60_000), channel
        for channel, asked in (*none.items(), *others.items()):
            assert not asked.poll(100), channel
    assert kernel.run("1").status == "ok"


def test_keys_that_are_none(curve_kernel, tmp_path):
    program = curve_kernel.manager.kernel_spec.argv[0]
    path = tmp_path / "keys.json"
    path.write_text(json.dumps({"curve_publickey": '"' * 40, "curve_secretkey": '"' * 40}))
    done = subprocess.run([program, "-f", str(path)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "CurveZMQ keys" in done.stderr


def test_a_subscription_that_is_no_text(plain_kernel):
    ports = plain_kernel.manager.get_connection_info()
    with zmq.Context() as context, context.socket(zmq.SUB) as socket:
        socket.linger = 0
        socket.connect(f"tcp://{ports['ip']}:{ports['iopub_port']}")
        socket.setsockopt(zmq.SUBSCRIBE, b"\xff\xfe")
        socket.setsockopt(zmq.SUBSCRIBE, b"kernel.")
        assert socket.poll(60_000)
        assert socket.recv_multipart()[0] == b"kernel."
        assert not socket.poll(100)


@pytest.mark.parametrize("kind", ["plain_kernel", "curve_kernel"])
def test_junk_on_every_socket(request, kind):
    """tests/fuzz/soak_wire.py with a few rounds; longer ones are run by hand."""
    kernel = request.getfixturevalue(kind)
    complete(kernel)
    figures = soak(kernel, rounds=120, seed=7)
    until(lambda: descriptors(kernel.pid) <= figures["descriptors"] + 8)
    assert figures["bytes_after"] < figures["bytes"] + (48 << 20)


def test_an_endless_multipart_ends_with_its_connection(plain_kernel):
    from tests.fuzz.soak_wire import GREETING, frame, ready, resident

    kernel = plain_kernel
    port = kernel.manager.get_connection_info()["shell_port"]
    before = resident(kernel.pid)
    part = frame(b"x" * (1 << 20), more=True)
    for _ in range(3):
        with socket.create_connection(("127.0.0.1", port)) as one:
            one.sendall(GREETING + ready("DEALER"))
            for _ in range(40):
                one.sendall(part)
            assert kernel.run("1").status == "ok"
    assert kernel.run("1").status == "ok"
    until(
        lambda: resident(kernel.pid) < before + (90 << 20), lambda: resident(kernel.pid)
    )  # of 120
    # A part that would have more bytes than a message may have ends the connection.
    with socket.create_connection(("127.0.0.1", port), timeout=60) as one:
        one.sendall(GREETING + ready("DEALER") + b"\x02" + (1 << 40).to_bytes(8, "big") + b"x")
        while one.recv(4096):
            pass
    assert kernel.run("1").status == "ok"
