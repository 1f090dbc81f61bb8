"""The provisioner: what the server writes into the connection file before the kernel starts."""

import json
import os
import signal
import stat
from pathlib import Path

import pytest
import zmq
from jupyter_client.manager import KernelManager
from takeup import session_waits
from traitlets.config import Config

pytest.importorskip("holdfast.provisioner")
from holdfast import install, provisioner  # noqa: E402
from tests.conftest import Notebook, program  # noqa: E402

if program("holdfast-kernel") is None:
    pytest.skip("the package isn't installed here", allow_module_level=True)


@pytest.fixture
def start(tmp_path, monkeypatch):
    """A function that starts a kernel by the kernelspec that install writes."""
    monkeypatch.setattr(install, "kernel_program", lambda: program("holdfast-kernel"))
    notebooks = []

    def start(config=None, **options):
        directory = tmp_path / "kernels" / "holdfast"
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "kernel.json").write_text(json.dumps(install.kernel_spec(**options)))
        manager = KernelManager(kernel_name="holdfast", config=Config(config or {}))
        manager.kernel_spec_manager.kernel_dirs = [str(tmp_path / "kernels")]
        manager.connection_file = str(tmp_path / "connection.json")
        manager.start_kernel(cwd=str(tmp_path))
        notebooks.append(Notebook(manager))
        return notebooks[-1]

    yield start
    for notebook in notebooks:
        notebook.close()


def written(notebook):
    return json.loads(Path(notebook.manager.connection_file).read_text())


@pytest.mark.skipif(not zmq.has("curve"), reason="this libzmq has no CurveZMQ")
def test_encrypted_without_being_asked(start):
    notebook = start(encrypt=True)
    assert type(notebook.manager.provisioner) is provisioner.HoldfastProvisioner
    first = written(notebook)
    assert len(first["curve_publickey"]) == len(first["curve_secretkey"]) == 40
    assert notebook.run("6 * 7").result == "42"
    assert "can be read" not in json.dumps(notebook.client.kernel_info(reply=True)["content"])
    notebook.client.stop_channels()
    notebook.manager.restart_kernel(now=False)
    notebook.__init__(notebook.manager)
    assert notebook.run("6 * 7").result == "42"
    assert written(notebook)["curve_publickey"] == first["curve_publickey"]


@pytest.mark.parametrize("kind", ["KernelManager", "ConnectionFileMixin"])
def test_the_servers_own_choice_goes_before(start, kind):
    notebook = start({kind: {"transport_encryption": "disabled"}}, encrypt=True)
    assert "curve_publickey" not in written(notebook)
    assert notebook.run("6 * 7").result == "42"


def test_without_the_provisioner_nothing_changes(start):
    notebook = start()
    assert "curve_publickey" not in written(notebook)
    assert notebook.manager.transport == "tcp"


def test_private_sockets(start, tmp_path, monkeypatch):
    runtime = tmp_path / "run"
    runtime.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    if len(str(runtime)) > 40:
        monkeypatch.setenv("XDG_RUNTIME_DIR", "")
        monkeypatch.setattr(provisioner.tempfile, "gettempdir", lambda: "/tmp")
    notebook = start(encrypt=True, ipc=True)
    info = written(notebook)
    directory = provisioner.private_directory()
    assert info["transport"] == "ipc" and Path(info["ip"]).parent == directory
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    mine = [path for path in directory.iterdir() if path.name.startswith(Path(info["ip"]).name)]
    assert [stat.S_IMODE(path.stat().st_mode) for path in mine] == [0o600] * 5
    assert notebook.run("6 * 7").result == "42"
    assert notebook.run("%%execute_with_scorep\nprint(6 * 7)").stream().startswith("42")
    notebook.close()
    assert not [path for path in mine if path.exists()]


def test_a_directory_that_others_can_enter_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    directory = provisioner.private_directory()
    assert directory.parent == tmp_path
    assert provisioner.private_directory() == directory
    directory.chmod(0o750)
    with pytest.raises(PermissionError):
        provisioner.private_directory()
    directory.rmdir()
    directory.symlink_to("/tmp")
    with pytest.raises(PermissionError):
        provisioner.private_directory()


def test_a_long_path_is_named(tmp_path, monkeypatch):
    runtime = tmp_path / ("x" * 100)
    runtime.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    with pytest.raises(OSError, match="too long"):
        provisioner._socket_prefix("id")


def test_an_older_jupyter_client_is_left_alone():
    class Manager:
        transport = "tcp"

        def has_trait(self, name):
            return False

    manager = Manager()
    provisioner._encrypt(manager)
    assert not hasattr(manager, "transport_encryption")


def test_no_runtime_directory(monkeypatch, tmp_path):
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr(provisioner.tempfile, "gettempdir", lambda: str(tmp_path))
    assert provisioner.private_directory() == tmp_path / f"holdfast-{os.getuid()}"


def test_a_restart_that_kills_begins_with_nothing(start):
    """As a server restarts a kernel that doesn't answer. One that was killed by others goes on."""
    notebook = start(encrypt=True)
    for by_us in (False, True):
        notebook.run("kept = 5")
        notebook.settle()
        with session_waits():
            if not by_us:
                os.kill(notebook.pid, signal.SIGKILL)
                while notebook.manager.is_alive():
                    pass
            notebook.client.stop_channels()
            notebook.manager.restart_kernel(now=True)
            notebook.__init__(notebook.manager)
        outcome = notebook.run("kept")
        assert outcome.result == (None if by_us else "5")
    assert outcome.content["ename"] == "NameError" and outcome.stream("stderr") == ""
