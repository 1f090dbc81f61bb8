"""A cell closes the number of the session's descriptor and opens a file, which gets it: none of the
notebook's data goes there, and the notebook goes on."""

import effort
import pytest

HEADS = [f"%%execute_with_scorep --run={run}\n" for run in ("forked", "isolated")]
pytestmark = pytest.mark.fresh  # a session that lost its descriptor is opened again
MIB = 1 << 20
STEAL = """
import os, numpy as np
def steal(path):
    for number in os.listdir("/proc/self/fd"):
        try:
            link = os.readlink(f"/proc/self/fd/{number}")
        except OSError:
            continue
        if "/holdfast-" in link:
            break
    else:
        raise LookupError("the session's descriptor")
    number = int(number)
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    os.dup2(fd, number)  # at once: the thread that writes the history opens files, too
    os.close(fd)
    os.write(number, b"mine")
    return number
"""


def ok(kernel, code):
    outcome = kernel.run(code)
    assert outcome.status == "ok", (code, outcome.content)
    return outcome


@pytest.mark.parametrize(
    "kind", effort.core(["%%execute_with_scorep --run=isolated", "%%isolated"], ["%%isolated"])
)
def test_a_file_with_the_sessions_number_is_left_alone(kernel, tmp_path, kind):
    path = tmp_path / "mine"
    ok(kernel, STEAL + f"a = np.ones({18 * MIB})")  # 144 MB
    ok(kernel, f"steal({str(path)!r})")
    ok(kernel, f"b = np.full({18 * MIB}, 2.0); c = list(range(100_000))")
    ok(kernel, f"{kind}\na += b; c[-1] = 'last'")
    ok(kernel, f"{kind}\nsteal({str(tmp_path / 'its')!r}); d = a * 2")
    kernel.settle()
    assert ok(kernel, "float(a.min()), float(d.max()), c[-1]").result == "(3.0, 6.0, 'last')"
    assert path.read_bytes() == b"mine"
    assert (tmp_path / "its").read_bytes() == b"mine"


@pytest.mark.parametrize("head", HEADS)
def test_a_number_of_a_descriptor_that_ends_with_its_process_is_named(kernel, head):
    """In the notebook it would be another file's, which may be one of ours."""
    ok(kernel, "import os, tempfile\nclass Device: pass\ndevice, own = Device(), open(os.devnull)")
    made = {
        "read, write": "read, write = os.pipe()",
        "device": "device.fd = os.open(os.devnull, os.O_RDWR)",
        "made": "made = tempfile.mkstemp()",
    }
    for names, code in made.items():
        said = ok(kernel, head + code).stream("stderr")
        assert f"valid only in this cell's process: the descriptors in {names} (" in said
    carried = "file = open(os.devnull); fd = file.fileno(); small = 12, own.fileno()"
    assert "descriptors" not in ok(kernel, head + carried).stream("stderr")


def test_one_in_a_module_is_named_in_words(kernel, tmp_path):
    """Not by the key of its attribute."""
    (tmp_path / "its_ends.py").write_text("NUMBER = None")
    ok(kernel, f"import os, sys; sys.path.insert(0, {str(tmp_path)!r}); import its_ends")
    said = ok(kernel, HEADS[1] + "its_ends.NUMBER, other = os.pipe()").stream("stderr")
    assert "the descriptors in its_ends:NUMBER, other (" in said
