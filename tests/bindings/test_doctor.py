"""`holdfast doctor`: what works here is said as it is, with what to do about the rest.

Parts are real: a small /dev/shm, a limit of addresses, a library without an attribute. Where this machine can't lack
something, it is pretended, and the test says so.
"""

import importlib.util
import json
import os
import shutil
import subprocess
import sys

import pytest
from holdfast import _store, doctor, install
from holdfast.scorep import loading
from nvml import pretended_nvml

STATES = {"ok", "absent", "limited", "broken"}
HERE = [sys.executable, "-m", "holdfast.doctor", "--json", "--notebook"]
PROGRAM = shutil.which("holdfast", path=os.path.dirname(sys.executable))


def call(command, **environment):
    return subprocess.run(
        command, env=os.environ | environment, text=True, capture_output=True, timeout=100
    )


def parts(command, **environment):
    """The findings by the part's name, and the exit status."""
    done = call(command, **environment)
    assert done.stderr == ""
    return {one["name"]: one for one in json.loads(done.stdout)}, done.returncode


def tried(part):
    return {name: (state, *rest) for name, state, *rest in part()}


@pytest.mark.skipif(PROGRAM is None, reason="the package isn't installed here")
def test_here(tmp_path):
    """All parts are there, in a directory whose modules aren't Python's, and nothing is left behind."""
    (tmp_path / "json.py").write_text("raise SystemExit('not this one')")
    before = {row["name"] for row in _store.sessions()}
    done = subprocess.run([PROGRAM, "doctor"], cwd=tmp_path, text=True, capture_output=True)
    lines = [line for line in done.stdout.splitlines() if not line.startswith(" ")]
    assert {line.split()[0] for line in lines} <= STATES
    for name in "versions kernel recorder Score-P OTF2 MPI Slurm GPU libraries".split():
        assert any(line[9:].startswith(name) for line in lines), name
    for name in ("shared memory", "huge pages", "written pages", "perf events", "time per line"):
        assert any(line[9:].startswith(name) for line in lines), name
    assert done.returncode == any(line.startswith("broken") for line in lines)
    assert [path.name for path in tmp_path.iterdir()] == ["json.py"]
    assert {row["name"] for row in _store.sessions() if row["label"] == "holdfast doctor"} <= before


def unshared(*commands):
    """The command, with a /dev/shm of its own."""
    script = " && ".join(["mount -t tmpfs -o size=16m tmpfs /dev/shm", *commands, 'exec "$@"'])
    if call(["unshare", "-rm", "sh", "-c", script, "sh", "true"]).returncode:
        pytest.skip("no mount namespace can be made here")
    return parts(["unshare", "-rm", "sh", "-c", script, "sh", *HERE])


def test_a_small_shared_memory():
    found, status = unshared()
    assert found["shared memory"]["state"] == "limited" and status == 0
    assert found["shared memory"]["text"].startswith("/dev/shm has 16.0 MiB")
    assert "memfd" in found["shared memory"]["text"]
    assert "--shm-size" in found["shared memory"]["advice"]


def test_a_limit_of_addresses():
    found, _ = parts(["sh", "-c", 'ulimit -v 4000000 && exec "$@"', "sh", *HERE])
    assert found["shared memory"]["state"] == "limited"
    assert "a process may map 3.8 GiB" in found["shared memory"]["text"]
    assert found["shared memory"]["advice"] == "ulimit -v unlimited"


@pytest.mark.parametrize("huge, way, states", [(1 << 21, 1, "ok ok"), (0, 3, "limited limited")])
def test_pages(monkeypatch, huge, way, states):
    """Pretended: a machine without huge pages, which can't look at its page tables."""
    monkeypatch.setattr(_store, "_means", lambda session: (huge, way))
    found = tried(doctor._memory)
    assert [found[name][0] for name in ("huge pages", "written pages")] == states.split()


def test_the_machine_is_asked():
    with _store.Session.create("means") as session:
        huge, way = _store._means(session)
        session.destroy()
    assert huge & (huge - 1) == 0 and way in (1, 2, 3)


@pytest.mark.parametrize(
    "says, recorder, state",
    [
        (None, "", "absent"),
        (None, "scorep", "broken"),
        ("exit 1", "", "broken"),
        ("exit 1", "builtin", "limited"),
    ],
)
def test_score_p(monkeypatch, tmp_path, says, recorder, state):
    """A PATH without it; and a scorep-config that is pretended, of one with static libraries."""
    for folder in ("bin", "lib"):
        (tmp_path / folder).mkdir()
    if says is not None:
        (tmp_path / "lib/libscorep_measurement.a").touch()
        (program := tmp_path / "bin/scorep-config").write_text(f"#!/bin/sh\n{says}\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin")
    monkeypatch.setenv("HOLDFAST_RECORDER", recorder)
    monkeypatch.setattr(loading, "_options", loading.options())
    found = tried(doctor._scorep)["Score-P"]
    assert found[0] == state
    assert ("--enable-shared" if says else "no scorep-config on PATH") in found[1]


def test_gpus(monkeypatch, tmp_path):
    """Pretended: NVIDIA's library. Not CUDA's, which it can be without."""
    monkeypatch.setenv("HOLDFAST_NVML", pretended_nvml(tmp_path))
    monkeypatch.setenv("SLURM_JOB_ID", "77")
    found = tried(doctor._machine)
    assert found["GPU"][0] in ("ok", "limited") and "GiB), " in found["GPU"][1]
    assert found["Slurm"][0] == "limited" and "job 77" in found["Slurm"][1]


def test_a_sampler_that_is_not_installed(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert tried(doctor._machine)["monitor"][0] == "broken"


def test_a_kernel_whose_program_is_gone(monkeypatch, tmp_path):
    directory = tmp_path / "kernels/gone"
    directory.mkdir(parents=True)
    spec = {"argv": ["/nowhere/holdfast-kernel", "--python", sys.executable]}
    spec |= {"display_name": "Gone", "language": "python", "metadata": {"holdfast": True}}
    (directory / "kernel.json").write_text(json.dumps(spec))
    assert install.is_ours(directory)
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    found = [one for one in doctor._examine([doctor._kernel]) if one.state == "broken"]
    assert ["gone" in one.text and "/nowhere/holdfast-kernel isn't" in one.text for one in found]
    done = call([*HERE[:-2], "--short"], JUPYTER_PATH=str(tmp_path))
    assert done.returncode == 1 and "/nowhere/holdfast-kernel" in done.stdout


def test_sessions_of_the_dead():
    """One that this process has open isn't removed by kernels that start meanwhile."""
    command = (
        "from holdfast import _store; import os; left = _store.Session.create('left')\n"
        "print(left.name, flush=True); input(); os._exit(0)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        with _store.Session.open(child.stdout.readline().strip()) as session:
            child.communicate("\n")
            state, text, advice = tried(doctor._sessions)["sessions"]
            session.destroy()
    assert state == "limited" and "of dead kernels" in text and "holdfast gc" in advice


def test_a_part_that_fails_is_broken():
    def _fails():
        raise ImportError("libotf2.so.10: cannot open shared object file")
        yield

    (found,) = doctor._examine([_fails])
    assert (found.name, found.state) == ("fails", "broken") and "libotf2.so.10" in found.text


# ---- libraries


def needs(package):
    there = importlib.util.find_spec(package) is not None
    return pytest.mark.skipif(not there, reason=f"{package} isn't installed")


def of_package(package, before="pass"):
    """What the command finds, after this code."""
    code = f"{before}\nimport sys\nfrom holdfast import doctor\nsys.exit(doctor.main(sys.argv[1:]))"
    done = call([sys.executable, "-c", code, "--json", "--package", package])
    return [(one["state"], one["text"]) for one in json.loads(done.stdout)]


@needs("scipy")
def test_a_library_without_an_attribute():
    assert [state for state, _ in of_package("scipy")] == ["ok"]
    (found,) = of_package("scipy", "import scipy.special; del scipy.special.geterr")
    assert found[0] == "limited" and found[1].startswith("scipy: errors of special functions: ")
    assert "geterr" in found[1]


@pytest.mark.parametrize(
    "code, state, text",
    [
        ("print('hello')\nraise RuntimeError('no licence')", "limited", "RuntimeError: no licence"),
        ("import os; os.kill(os.getpid(), 9)", "broken", "--package mpmath: exit status -9"),
        ("print('hello')", "limited", "mpmath: numbers: "),
    ],
)
def test_a_library_that_cannot_be_imported(monkeypatch, tmp_path, code, state, text):
    """Pretended: another version of mpmath."""
    (tmp_path / "mpmath.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    found = doctor._child("--package", "mpmath")
    assert {one.state for one in found} == {state} and any(text in one.text for one in found)


@needs("seaborn")
def test_what_is_installed_is_not_imported():
    code = "import sys; from holdfast import doctor as d; print('seaborn' in d._installed())"
    done = call([sys.executable, "-c", f"{code}; print('seaborn' in sys.modules)"])
    assert done.stdout.split() == ["True", "False"]
