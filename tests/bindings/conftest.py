"""A session and a home namespace for the tests of the bindings."""

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
def home(session, request):
    """A namespace. Its second process is a fork of `template` in modules that name LIBRARIES."""
    from holdfast.store import Names
    from store_process import Home

    home = Home(session, Names(session))
    if hasattr(request.module, "LIBRARIES"):
        template = request.getfixturevalue("template")
        home.other = lambda source: template.run(session, source)
    return home


@pytest.fixture(scope="module")
def template(request):
    """A process that has imported the LIBRARIES of the module of tests, and forks for each source.

    Forking works as long as nothing of them ran there: the threads of PyTorch, TensorFlow and
    JAX start with their first operation.
    """
    from store_process import Template

    template = Template("holdfast.store", *request.module.LIBRARIES)
    yield template
    template.close()


@pytest.fixture
def library_home(home, template, request):
    """A home that ran IMPORTS of the module of tests; the second process is a fork of `template`."""
    imports = request.module.IMPORTS + "\n"
    home.execute(imports)
    home.other = lambda source: template.run(home.session, imports + source)
    return home


@pytest.fixture
def arena_home(library_home):
    """The same, where both processes have the libraries' large blocks in the arena."""
    from holdfast.store import disable_numpy_allocator
    from holdfast.worker.arrays import be_born_in

    finders = sys.meta_path[:]
    be_born_in(library_home.session)
    sys.meta_path[:] = finders  # of libraries that aren't there now
    plain, begin = library_home.other, "from holdfast.worker import arrays\n"
    library_home.other = lambda source: plain(f"{begin}arrays.be_born_in(session)\n{source}")
    yield library_home
    library_home.ns.clear()
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
