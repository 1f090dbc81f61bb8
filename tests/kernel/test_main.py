"""The command line of holdfast-kernel."""

import json
import platform
import subprocess
import sys

import pytest


@pytest.fixture
def command(plain_kernel):
    return plain_kernel.manager.kernel_spec.argv[0]


def call(*argv):
    return subprocess.run(argv, capture_output=True, text=True, timeout=60)


def test_help_and_version(command):
    said = call(command, "--help").stdout
    assert "--connection-file" in said and "HOLDFAST_READY_SECONDS" in said
    assert call(command, "--version").stdout.startswith("holdfast-kernel ")


@pytest.mark.parametrize(
    "bad", [[], ["-f"], ["--capacity", "-1"], ["--run", "nowhere"], ["--nonsense"]]
)
def test_misuse(command, bad):
    done = call(command, *bad)
    assert done.returncode == 2 and done.stderr


def test_a_missing_connection_file_is_named(command, tmp_path):
    done = call(command, "-f", str(tmp_path / "none.json"))
    assert done.returncode == 1 and "none.json" in done.stderr


def test_the_version_is_that_of_the_interpreter_unless_it_is_given(start_plain):
    def version_of(*arguments):
        kernel = start_plain(arguments=arguments)
        info = kernel.client.kernel_info(reply=True, timeout=60)["content"]
        assert info["language_info"]["version"] in info["banner"]
        return info["language_info"]["version"]

    assert version_of() == platform.python_version()
    assert version_of("--python-version", "3.99.1") == "3.99.1"


@pytest.mark.parametrize("how", ["server", "directory", "option"])
def test_a_session_has_a_name_for_people(start_plain, tmp_path, how):
    """Jupyter's server gives a kernel the path of its notebook."""
    env = {"JPY_SESSION_NAME": "notes/day one.ipynb" if how != "directory" else ""}
    kernel = start_plain(env=env, arguments=["--label", "mine"] if how == "option" else ())
    wanted = {"server": "notes/day one.ipynb", "directory": str(tmp_path), "option": "mine"}[how]
    listed = subprocess.run(
        [kernel.manager.kernel_spec.argv[0].removesuffix("-kernel"), "ls", "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    labels = {each["owner_pid"]: each["label"] for each in json.loads(listed.stdout)}
    assert labels[kernel.pid] == wanted


def script(path, text):
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


OTHER_VERSION = """#!{python}
import socket, sys
import msgpack
body = msgpack.packb({{"op": "ready", "version": 99, "pid": 1, "modules": []}})
channel = socket.socket(fileno=int(sys.argv[sys.argv.index("--control-fd") + 1]))
channel.sendall(len(body).to_bytes(4, "big") + body)
channel.recv(1)
"""


@pytest.mark.parametrize(
    ("program", "named"),
    [
        ("#!/bin/sh\nexit 0\n", "ended"),
        (OTHER_VERSION.format(python=sys.executable), "holdfast.install"),
        (None, "No such file"),
    ],
    ids=["one that ends", "another version", "none"],
)
def test_a_python_that_is_none_of_ours_is_named(command, tmp_path, program, named):
    python = str(tmp_path / "python")
    if program is not None:
        script(tmp_path / "python", program)
    connection = dict.fromkeys(("shell_port", "iopub_port", "stdin_port", "control_port"), 0)
    connection |= {"hb_port": 0, "transport": "ipc", "ip": str(tmp_path / "k"), "key": "k"}
    (tmp_path / "c.json").write_text(json.dumps(connection))
    done = call(command, "-f", str(tmp_path / "c.json"), "--python", python)
    assert done.returncode == 1, done.stderr
    last = done.stderr.strip().splitlines()[-1]
    assert named in last and (python in last or "3 times" in last)
