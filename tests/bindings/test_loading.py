"""What gets Score-P into a process, as far as it can be seen without a Score-P."""

import ctypes

import pytest
from holdfast import _recorder
from holdfast.scorep import loading


@pytest.fixture(autouse=True)
def options_kept(monkeypatch):
    monkeypatch.setattr(loading, "_options", loading.options())


@pytest.mark.parametrize(
    ("given", "options"),
    [
        ([], ["--user", "--compiler", "--thread=pthread"]),
        (
            ["--mpp=mpi", "--nocompiler"],
            ["--user", "--thread=pthread", "--mpp=mpi", "--nocompiler"],
        ),
        (["--user", "--thread=omp"], ["--user", "--compiler", "--thread=omp"]),
    ],
)
def test_options_have_the_defaults_of_the_bindings(given, options):
    loading.configure(given)
    assert sorted(loading.options()) == sorted(options)
    assert loading.is_mpi() == ("--mpp=mpi" in given)


def test_choice(monkeypatch, tmp_path, capsys):
    program = tmp_path / "scorep-config"
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    for choice, chosen in {"scorep": True, "builtin": False, "auto": True, "": True}.items():
        monkeypatch.setenv("HOLDFAST_RECORDER", choice)
        assert loading.is_chosen() is chosen
    monkeypatch.setenv("HOLDFAST_RECORDER", "vampire")
    assert loading.is_chosen() and loading.is_chosen()
    assert capsys.readouterr().err.count("'vampire'") == 1
    with pytest.raises(RuntimeError, match="refuses --user"):
        loading.find()
    program.unlink()
    assert not loading.is_chosen()
    with pytest.raises(RuntimeError, match="no scorep-config"):
        loading.find()


@pytest.fixture
def dlopen(tmp_path):
    def load(image):
        path = tmp_path / "bundle.so"
        path.write_bytes(image)
        return ctypes.CDLL(str(path))

    return load


def test_bundle_brings_its_libraries(dlopen):
    bundle = dlopen(loading._bundle(["libm.so.6", _recorder.__file__]))
    bundle.cos.restype, bundle.cos.argtypes = ctypes.c_double, [ctypes.c_double]
    assert bundle.cos(0.0) == 1.0
    assert bundle.PyInit__recorder


def test_bundle_of_a_library_that_is_not_there(dlopen):
    with pytest.raises(OSError, match="libnowhere"):
        dlopen(loading._bundle(["/nowhere/libnowhere.so"]))


def test_a_score_p_without_its_functions_is_an_error(tmp_path):
    bundle = tmp_path / "other.so"
    bundle.write_bytes(loading._bundle(["libm.so.6"]))
    with pytest.raises(OSError, match="no subsystem SCOREP_Subsystem_Nothing"):
        _recorder.load_scorep(loading._table(), str(bundle), "SCOREP_Subsystem_Nothing ")


def test_environment_of_a_restart_is_undone(monkeypatch):
    monkeypatch.setattr(loading, "_preloaded", False)
    found = loading.Installation(("/a.so",), ("/b.so",), frozenset(), "One Two ")
    monkeypatch.setattr(loading, "find", lambda: found)
    for before in ({}, {"LD_PRELOAD": "/mine.so"}):
        environ = dict(before)
        loading.restart(environ)
        assert environ["LD_PRELOAD"].split()[-3:] == ["/b.so", "/a.so", loading._table()]
        assert loading.restarted(environ)
        assert environ == before
    assert not loading.restarted({})
