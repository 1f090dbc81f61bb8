"""A session and a main worker namespace for the tests of the bindings."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))


@pytest.fixture
def session():
    from holdfast.store import Session

    session = Session.create(label="test")
    yield session
    session.destroy()
    session.close()


@pytest.fixture
def main(session, request):
    """A namespace. Its second process is a fork of `server` in modules that name LIBRARIES."""
    from holdfast.store import Names
    from store_process import Main

    main = Main(session, Names(session))
    if hasattr(request.module, "LIBRARIES"):
        server = request.getfixturevalue("server")
        main.other = lambda source: server.run(session, source)
    return main


@pytest.fixture(scope="session")
def servers():
    """Those of all modules of tests, by their LIBRARIES: to start one with TensorFlow takes five seconds."""
    servers = {}
    yield servers
    for server in servers.values():
        server.close()


@pytest.fixture(scope="module")
def server(request, servers):
    """A process that has imported the LIBRARIES of the module of tests, and forks for each source.

    Forking works as long as nothing of them ran there: the threads of PyTorch, TensorFlow and
    JAX start with their first operation.
    """
    from store_process import ForkServer

    libraries = request.module.LIBRARIES
    if libraries not in servers:
        servers[libraries] = ForkServer("holdfast.store", *libraries)
    return servers[libraries]


@pytest.fixture
def library_main(main, server, request):
    """A main worker that ran IMPORTS of the module of tests; the second process is a fork of `server`."""
    imports = request.module.IMPORTS + "\n"
    main.execute(imports)
    main.other = lambda source: server.run(main.session, imports + source)
    return main


@pytest.fixture
def main_arena(library_main):
    """The same, where both processes have the libraries' large blocks in the arena."""
    from holdfast.store import disable_numpy_allocator
    from holdfast.worker.arrays import be_born_in

    finders = sys.meta_path[:]
    be_born_in(library_main.session)
    sys.meta_path[:] = finders  # of libraries that aren't there now
    plain, begin = library_main.other, "from holdfast.worker import arrays\n"
    library_main.other = lambda source: plain(f"{begin}arrays.be_born_in(session)\n{source}")
    yield library_main
    library_main.ns.clear()
    disable_numpy_allocator()


@pytest.fixture
def record(tmp_path):
    """Run a program under the prelude; the trace, and what it printed in ``.output``."""
    from recorded_program import record_in

    return lambda program, name="trace": record_in(tmp_path, program, name)


@pytest.fixture
def python(tmp_path):
    """Run python with these arguments in tmp_path; SCOREP_... set anew."""

    def run(*arguments, **variables):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("SCOREP_")}
        environment |= {"SCOREP_EXPERIMENT_DIRECTORY": "experiment", **variables}
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            check=False,
            text=True,
            timeout=120,
        )

    return run


@pytest.fixture
def record_script(tmp_path, python):
    """Record a script by the command line; the trace, and what it did in ``.done``."""
    from trace_reader import Trace

    def run(program, *options, arguments=(), status=0, **variables):
        (tmp_path / "script.py").write_text(textwrap.dedent(program))
        done = python("-m", "holdfast.scorep", *options, "script.py", *arguments, **variables)
        assert done.returncode == status, done.stderr
        trace = Trace(tmp_path / "experiment")
        trace.done = done
        return trace

    return run
