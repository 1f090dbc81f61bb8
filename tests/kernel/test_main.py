"""The command line of holdfast-kernel."""

import subprocess

import pytest


@pytest.fixture
def command(plain_kernel):
    return plain_kernel.manager.kernel_spec.argv[0]


def call(*argv):
    return subprocess.run(argv, capture_output=True, text=True, timeout=20)


def test_help_and_version(command):
    said = call(command, "--help").stdout
    assert "--connection-file" in said and "HOLDFAST_READY_SECONDS" in said
    assert call(command, "--version").stdout.startswith("holdfast-kernel ")


@pytest.mark.parametrize(
    "bad", [[], ["-f"], ["--capacity", "-1"], ["--road", "nowhere"], ["--nonsense"]]
)
def test_misuse(command, bad):
    done = call(command, *bad)
    assert done.returncode == 2 and done.stderr


def test_a_missing_connection_file_is_named(command, tmp_path):
    done = call(command, "-f", str(tmp_path / "none.json"))
    assert done.returncode == 1 and "none.json" in done.stderr
