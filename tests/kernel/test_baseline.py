"""What a process is before the notebook's code runs, which the fork server has looked at for its forks."""

import json
import subprocess
import sys

import pytest

ISOLATED = "%%isolated\n"

# What runs in each fork of the fork server: it writes down what it inherits differently from what it would find. It imports nothing.
LOOK = """
import os, sys

def look_in_fork():
    if "holdfast.worker.settings.baseline" in sys.modules and "done" not in vars(look_in_fork):
        look_in_fork.done = True
        exec(CODE, {{}})

os.register_at_fork(after_in_child=look_in_fork)

CODE = '''
import os, sys

def inner(slot):
    "What a slot compares with."
    read = getattr(slot.read, "_read", slot.read)  # of what is read again only if it may have changed
    holder = getattr(read, "__self__", None)
    if holder is not None:
        return vars(holder) if hasattr(holder, "__dict__") else holder._asdict()
    names = getattr(read, "__code__", inner.__code__).co_freevars
    return {{name: cell.cell_contents for name, cell in zip(names, read.__closure__ or ())}}

def same(one, other):
    if type(one) is not type(other):
        return False
    if type(one) is dict:
        return list(one) == list(other) and all(map(same, one.values(), other.values()))
    if type(one) in (list, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if hasattr(one, "entries"):  # a snapshot, or an attribute of a library as it was
        return same(one.entries, other.entries)
    return one is other or callable(one) or one == other

def differing(what, found, anew):
    return [f"{{what}} {{name}}" for name in {{**found, **anew}}
            if not same(found.get(name), anew.get(name))]

baseline = sys.modules["holdfast.worker.settings.baseline"]
asked = sys.modules["holdfast.worker.settings.plain_settings"].plain_settings
begin = baseline.begin

def look(shell, is_as_built):
    inherited = begin(shell, True)
    rows = dict(asked._fresh)
    compared = {{name: dict(inner(slot)) for name, slot in inherited.slots.items()}}
    anew = baseline.Baseline(shell)
    found = differing("row", rows, asked._fresh)
    for name, parts in compared.items():
        found += differing(name, parts, inner(anew.slots[name]))
    for part in ("_libraries", "_inside"):
        old, new = (getattr(one.differences, part) for one in (inherited, anew))
        found += differing(part, old, new)
    about = is_as_built, inherited is baseline._ahead, "pandas" in sys.modules, found
    with open(f"{place}/{{os.getpid()}}", "w") as file:
        file.write(sys.modules["json"].dumps(about))
    return inherited

baseline.begin = look
'''
"""


@pytest.fixture
def looking(start_kernel, tmp_path):
    """A kernel whose workers look, and a function that gives what one has found."""
    place = tmp_path / "found"
    place.mkdir()
    (tmp_path / "sitecustomize.py").write_text(LOOK.format(place=place))
    kernel = start_kernel(env={"PYTHONPATH": str(tmp_path), "HOLDFAST_RUN": "isolated"})

    def found_by(cell):
        return json.loads((place / kernel.run(cell).result).read_text())

    return kernel, found_by


@pytest.mark.parametrize("way", ["", ISOLATED])
def test_what_a_process_inherits_is_what_it_would_find(looking, way):
    """So it is in the main worker and in a clean process."""
    _, found_by = looking
    is_as_built, inherits, _, found = found_by(way + "import os; os.getpid()")
    assert inherits and is_as_built
    assert found == []


def test_it_is_so_after_the_fork_server_has_imported(looking):
    pytest.importorskip("pandas")
    kernel, found_by = looking
    kernel.run("import pandas, decimal, matplotlib.pyplot")
    has_pandas = False
    while not has_pandas:  # standbys from before the imports come first
        _, inherits, has_pandas, found = found_by(ISOLATED + "import os; os.getpid()")
        assert inherits and found == []


# What the fork server does when a fork is asked for amid its imports.
AMID_IMPORTS = """
import sys
from holdfast.worker import fork_server
fork_server.import_own()
fork_server.import_rest()
import numpy
fork_server._look_ahead(anew=False)
from holdfast.worker.settings import baseline
assert "holdfast.libraries.numpy" in sys.modules
assert baseline.is_known()
"""


def test_a_look_counts_the_files_that_it_imports_itself():
    """Else the next fork looks anew at everything."""
    pytest.importorskip("numpy")
    subprocess.run([sys.executable, "-c", AMID_IMPORTS], check=True)
