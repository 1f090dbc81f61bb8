"""What isn't imported at a worker's start is there for code that asks."""

import subprocess
import sys

import pytest

pytest.importorskip("ipykernel")

PROGRAM = """
import datetime, pickle, sys, types
import cloudpickle
from holdfast.worker.ipython import application

jupyter_client = sys.modules["jupyter_client"]
left_out = ("jupyter_client.manager", "jupyter_client.blocking", "dateutil.parser", "dateutil.tz")
left_out += ("zmq.backend", "zmq.sugar", "_ssl")
assert not set(left_out) & set(sys.modules), set(left_out) & set(sys.modules)
assert "ipykernel.debugger" not in sys.modules and "debugpy" not in sys.modules
assert isinstance(jupyter_client, types.ModuleType) and jupyter_client.__file__
assert cloudpickle.loads(cloudpickle.dumps(jupyter_client)) is jupyter_client
assert not hasattr(jupyter_client, "__nothing__")

from jupyter_client.jsonutil import parse_date
from jupyter_client import write_connection_file, session
assert "jupyter_client.manager" not in sys.modules
assert parse_date("2020-01-02T03:04:05Z") == datetime.datetime(
    2020, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc
)
import dateutil.parser
assert dateutil.parser.parse("2 March 2021").day == 2

if sys.argv[1] == "name":
    assert issubclass(jupyter_client.BlockingKernelClient, jupyter_client.KernelClient)
elif sys.argv[1] == "all":
    assert "KernelManager" in dir(jupyter_client)
    from jupyter_client import *
    KernelManager
elif sys.argv[1] == "none":
    try:
        jupyter_client.nothing
    except AttributeError as error:
        assert "'jupyter_client' has no attribute 'nothing'" in str(error)
    assert jupyter_client.session is session
assert type(jupyter_client) is types.ModuleType
assert sys.modules["jupyter_client.session"].Session in application.ControlSession.__mro__
"""


ZMQ = """
import sys, types
from holdfast.worker.ipython import application
from ipykernel import kernelbase
from jupyter_client import connect, session

seen = application.WorkerKernel.shell_stream.klass  # what stands for the class
assert not isinstance(3, seen) and "zmq.sugar" not in sys.modules

import asyncio, asyncio.sslproto, platform, ssl, uuid
import zmq
for module in asyncio.sslproto, platform, ssl, uuid, zmq:
    assert type(module) is types.ModuleType and module.__spec__.name == module.__name__
    assert module is sys.modules[module.__name__] and module.__doc__ is vars(module)["__doc__"]
from zmq.eventloop.zmqstream import ZMQStream

assert zmq.REQ == connect.channel_socket_types["hb"] and session.DONE.done
assert zmq.NOBLOCK == session.Session.recv.__defaults__[0]
assert isinstance(seen, type) and seen is not ZMQStream
with zmq.Context() as context, context.socket(zmq.PAIR) as socket:
    connect.ConnectionFileMixin.context.klass
    assert isinstance(context, connect.ConnectionFileMixin.context.klass)
    assert not isinstance(socket, seen) and issubclass(ZMQStream, seen)
    assert kernelbase.zmq.Context is zmq.Context
assert asyncio.base_events.ssl.SSLContext is ssl.SSLContext
assert issubclass(ssl.SSLWantReadError, asyncio.base_events.sslproto.SSLAgainErrors)
assert uuid.uuid4() != uuid.uuid4()
"""


def test_what_stands_for_zeromq_is_it():
    subprocess.run([sys.executable, "-c", ZMQ], check=True, timeout=60)


@pytest.mark.parametrize("way", ["name", "all", "none"])
def test_the_rest_is_found(way):
    subprocess.run([sys.executable, "-c", PROGRAM, way], check=True, timeout=60)
