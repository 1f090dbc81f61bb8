"""python -m holdfast.install: the kernel is found by Jupyter, and goes without a trace."""

import json
import os
import shutil
import struct
import subprocess
import sys

import pytest

pytest.importorskip("holdfast")
if shutil.which("holdfast-kernel", path=os.path.dirname(sys.executable)) is None:
    pytest.skip("the package isn't installed here", allow_module_level=True)


def run(*arguments, home, **environment):
    """`python -m ...` as a user whose home is `home`."""
    variables = {k: v for k, v in os.environ.items() if not k.startswith("JUPYTER")}
    variables |= {"HOME": str(home)} | environment
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        env=variables,
        text=True,
        capture_output=True,
        timeout=120,
    )


def installed(*arguments, home=None):
    """As `python -m holdfast.install`, which doesn't look whether the kernel runs."""
    return run("holdfast.install", "--no-check", *arguments, home=home)


def kernels(home, **environment):
    done = run("jupyter_client.kernelspecapp", "list", "--json", home=home, **environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["kernelspecs"]


def files_under(path):
    return sorted(str(found.relative_to(path)) for found in path.rglob("*"))


@pytest.fixture
def home(tmp_path):
    path = tmp_path / "home"
    path.mkdir()
    return path


def test_prefix(home, tmp_path):
    prefix = tmp_path / "prefix"
    prefix.mkdir()
    done = run("holdfast.install", "--prefix", str(prefix), home=home)
    assert done.returncode == 0, done.stderr
    directory = prefix / "share/jupyter/kernels/holdfast"
    assert str(directory) in done.stdout
    assert "holdfast doctor" in done.stdout.splitlines()[-1]  # in short
    assert files_under(home) == []

    spec = kernels(home, JUPYTER_PATH=str(prefix / "share/jupyter"))["holdfast"]
    assert spec["resource_dir"] == str(directory)
    assert spec["spec"]["language"] == "python"
    program, *arguments = spec["spec"]["argv"]
    assert os.access(program, os.X_OK)
    assert "{connection_file}" in arguments
    assert arguments[arguments.index("--python") + 1] == sys.executable

    done = run("holdfast.install", "--prefix", str(prefix), "--uninstall", home=home)
    assert done.returncode == 0, done.stderr
    assert files_under(prefix) == []


def test_run_mode(home, tmp_path):
    prefix = ["--prefix", str(tmp_path / "prefix")]
    done = installed(*prefix, "--run", "in-process", home=home)
    assert done.returncode == 0, done.stderr
    spec = kernels(home, JUPYTER_PATH=str(tmp_path / "prefix/share/jupyter"))["holdfast"]
    assert spec["spec"]["argv"][-2:] == ["--run", "in-process"]
    assert installed(*prefix, "--run", "nowhere", home=home).returncode != 0


def test_encryption_and_ipc(tmp_path):
    from holdfast import install

    def metadata(*options):
        assert install.main(["--prefix", str(tmp_path), "--no-check", *options]) == 0
        spec = tmp_path / "share/jupyter/kernels/holdfast/kernel.json"
        return json.loads(spec.read_text())["metadata"]

    # A server of any environment may find it here: it must not need ours.
    assert "kernel_provisioner" not in metadata()
    assert metadata()["supported_encryption"] == ["curve"]
    named = {"provisioner_name": "holdfast-provisioner", "config": {}}
    assert metadata("--encrypt")["kernel_provisioner"] == named
    named["config"] = {"transport": "ipc"}
    assert metadata("--ipc")["kernel_provisioner"] == named


def test_an_environment_of_its_own_encrypts(monkeypatch, tmp_path):
    from holdfast import install

    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    path = install.install(sys_prefix=True)
    spec = json.loads((path / "kernel.json").read_text())
    assert spec["metadata"]["kernel_provisioner"]["provisioner_name"] == "holdfast-provisioner"
    assert spec["kernel_protocol_version"] == "5.5"
    path = install.install(sys_prefix=True, encrypt=False)
    spec = json.loads((path / "kernel.json").read_text())
    assert "kernel_provisioner" not in spec["metadata"]


def test_logos(home, tmp_path):
    installed("--prefix", str(tmp_path / "p"), home=home)
    directory = tmp_path / "p/share/jupyter/kernels/holdfast"
    for side in (32, 64):
        png = (directory / f"logo-{side}x{side}.png").read_bytes()
        assert png[:8] == b"\x89PNG\r\n\x1a\n"
        assert struct.unpack(">II", png[16:24]) == (side, side)
    assert "<svg" in (directory / "logo-svg.svg").read_text("utf-8")


def test_user_and_name(home):
    options = ("--user", "--name", "Held", "--display-name", "Held fast")
    done = installed(*options, home=home)
    assert done.returncode == 0, done.stderr
    # Jupyter's own lookup says where a user's kernels are.
    spec = kernels(home)["held"]
    assert spec["resource_dir"].startswith(str(home))
    assert spec["spec"]["display_name"] == "Held fast"
    done = installed(*options, "--uninstall", home=home)
    assert done.returncode == 0, done.stderr
    assert "held" not in kernels(home)
    assert [name for name in files_under(home) if "kernels" in name] == []


def test_twice(home, tmp_path):
    prefix = tmp_path / "prefix"
    prefix.mkdir()
    arguments = ("--prefix", str(prefix))
    assert installed(*arguments, home=home).returncode == 0
    first = files_under(prefix)
    assert installed(*arguments, home=home).returncode == 0
    assert files_under(prefix) == first
    assert installed(*arguments, "--uninstall", home=home).returncode == 0
    again = installed(*arguments, "--uninstall", home=home)
    assert again.returncode == 0 and "no kernel" in again.stdout


@pytest.mark.parametrize("uninstall", [(), ("--uninstall",)])
def test_leaves_other_kernels_alone(home, tmp_path, uninstall):
    directory = tmp_path / "share/jupyter/kernels/python3"
    directory.mkdir(parents=True)
    (directory / "kernel.json").write_text('{"argv": ["python"]}', "utf-8")
    arguments = ("--prefix", str(tmp_path), "--name", "python3", *uninstall)
    done = installed(*arguments, home=home)
    assert done.returncode == 1
    assert "another kernel" in done.stderr and "Traceback" not in done.stderr
    assert files_under(directory) == ["kernel.json"]


def test_uninstalling_keeps_neighbours(home, tmp_path):
    neighbour = tmp_path / "share/jupyter/kernels/other/kernel.json"
    neighbour.parent.mkdir(parents=True)
    neighbour.write_text("{}", "utf-8")
    arguments = ("--prefix", str(tmp_path))
    installed(*arguments, home=home)
    installed(*arguments, "--uninstall", home=home)
    assert neighbour.exists()
    assert not (neighbour.parent.parent / "holdfast").exists()


@pytest.mark.parametrize("name", ["../up", "a b", "", "x/y"])
def test_bad_name(tmp_path, capsys, name):
    from holdfast import install

    assert install.main(["--prefix", str(tmp_path), "--name", name]) == 1
    assert "Traceback" not in capsys.readouterr().err
    assert files_under(tmp_path) == []


@pytest.fixture
def installed_with(monkeypatch, tmp_path, capsys):
    """A function that installs with another kernel's program; what main returned and said."""
    from holdfast import install

    def run_main(program, *options):
        monkeypatch.setattr(install, "kernel_program", lambda: str(program))
        status = install.main(["--prefix", str(tmp_path / "prefix"), *options])
        return status, capsys.readouterr().err

    return run_main


def test_missing_libraries_are_named_with_their_packages(installed_with, tmp_path):
    from holdfast import install

    program = tmp_path / "holdfast-kernel"
    built = open(install.kernel_program(), "rb").read()
    assert b"libzmq.so.5\0" in built and b"libjansson.so.4\0" in built
    gone = built.replace(b"libzmq.so.5\0", b"libzmq.so.0\0")
    program.write_bytes(gone.replace(b"libjansson.so.4\0", b"libjansson.so.0\0"))
    program.chmod(0o755)
    status, said = installed_with(program)
    assert status == 1 and "libjansson, libzmq" in said
    assert "apt-get install libjansson-dev libzmq3-dev\n" in said
    assert installed_with(program, "--no-check")[0] == 0


def test_a_kernel_that_dies_is_reported_with_what_it_said(installed_with, tmp_path):
    program = tmp_path / "holdfast-kernel"
    program.write_text("#!/bin/sh\necho no such interpreter >&2\nexit 3\n")
    program.chmod(0o755)
    status, said = installed_with(program)
    assert status == 1 and "doesn't start" in said and "no such interpreter" in said


def test_a_cell_that_fails_is_reported(installed_with, monkeypatch):
    from holdfast import first_run, install

    lost = "libotf2.so.7: cannot open shared object file: No such file or directory"
    monkeypatch.setattr(
        first_run, "_CELLS", (f"%%execute_with_scorep\nraise ImportError('{lost}')",)
    )
    status, said = installed_with(install.kernel_program())
    assert status == 1 and "apt-get install libotf2-trace-dev\n" in said
    monkeypatch.setattr(first_run, "_CELLS", ("%%execute_with_scorep\n1 / 0",))
    status, said = installed_with(install.kernel_program())
    assert status == 1 and "a recorded cell failed: ZeroDivisionError: division by zero" in said
