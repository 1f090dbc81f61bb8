"""What gets Score-P into a process, as far as it can be seen without a Score-P."""

import ctypes
import os

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
        (["--io=posix"], ["--user", "--compiler", "--thread=pthread", "--io=runtime:posix"]),
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


def test_a_process_looks_once(monkeypatch, tmp_path):
    looks = []
    look = loading.find_config
    monkeypatch.setattr(loading, "find_config", lambda: looks.append(1) or look())
    monkeypatch.setenv("HOLDFAST_RECORDER", "auto")
    for folder in "one", "two":
        monkeypatch.setenv("PATH", str(tmp_path / folder))
        assert not any([loading.is_chosen() for _ in range(3)])
    assert len(looks) == 2


@pytest.mark.parametrize(
    ("version", "adapters", "options", "needed"),
    [
        ("8.4", "user_event posix_io_event_runtime", ["--io=posix"], True),
        ("8.4", "user_event pthread_event compiler_event", [], False),
        ("9.1", "user_event posix_io_event memory_event", ["--io=posix"], False),
        ("9.1", "user_event posix_io_event mpi_event", ["--mpp=mpi"], True),
    ],
)
def test_what_must_be_there_when_a_process_starts(
    monkeypatch, tmp_path, version, adapters, options, needed
):
    """By what scorep-config says, in the words of its version."""
    names = [f"scorep_adapter_{name}" for name in adapters.split()]
    for name in names:
        (tmp_path / f"lib{name}.so").touch()
    program = tmp_path / "scorep-config"
    libraries = " ".join(f"-l{name}" for name in names)
    program.write_text(
        f"#!/bin/sh\ncase $1 in --version) echo {version};; --ldflags) echo -L{tmp_path};; "
        f"--libs) echo {libraries};; esac\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    monkeypatch.setenv("SCOREP_IO_POSIX", "")
    monkeypatch.delenv("SCOREP_IO_POSIX")
    loading.configure(options)
    assert loading.needs_start() is needed
    is_new = version.startswith("9") and "--io=posix" in options
    assert os.environ.get("SCOREP_IO_POSIX") == ("true" if is_new else None)
    assert ("--io=runtime:posix" in loading.options()) == (version < "9" and bool(options))


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


@pytest.mark.parametrize("says", ["exit 1", "echo"])
def test_a_score_p_without_shared_libraries_is_named(monkeypatch, tmp_path, says):
    for folder in ("bin", "lib"):
        (tmp_path / folder).mkdir()
    (tmp_path / "lib" / "libscorep_measurement.a").touch()
    program = tmp_path / "bin" / "scorep-config"
    folder = tmp_path / "lib"
    words = {"exit 1": "exit 1", "echo": f"echo -L{folder} -lscorep_measurement"}[says]
    program.write_text(f"#!/bin/sh\n{words}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/bin:/usr/bin")
    loading.configure([])
    with pytest.raises(RuntimeError, match="--enable-shared.*HOLDFAST_RECORDER=builtin"):
        loading.find()
