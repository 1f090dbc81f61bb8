"""Open files, sockets and pipes on their way between the main worker and a cell, over the real kernel."""

import os

import pytest

CELL = "%%execute_with_scorep --run=isolated\n"
RUNS = {"forked": "%%execute_with_scorep --run=forked\n", "isolated": CELL}


def fds(pid):
    return {os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}


def test_a_cell_reads_on_and_the_main_worker_after_it(kernel, tmp_path):
    (tmp_path / "lines").write_text("".join(f"line {i}\n" for i in range(5000)))
    kernel.run("f = open('lines'); f.readline(), f.readline()")
    assert kernel.run(CELL + "[f.readline() for _ in range(3)][-1]").result == r"'line 4\n'"
    assert kernel.run("f.readline(), f.mode, f.name").result == r"('line 5\n', 'r', 'lines')"
    assert kernel.run(CELL + "next(f)").result == r"'line 6\n'"
    assert kernel.run("next(f), f.fileno() > 2").result == r"('line 7\n', True)"
    assert kernel.run(CELL + "len(f.readlines())").result == "4992"
    assert kernel.run("f.read()").result == "''"


def test_commits_in_between_move_nothing(kernel, tmp_path):
    """What came from a cell is compared with its entry at the next commits."""
    (tmp_path / "lines").write_text("".join(f"{i:07}\n" for i in range(5000)))
    kernel.run(CELL + "f = open('lines'); f.readline()")
    for i in range(3):
        kernel.run("import time; seen = [f.readline() for _ in range(1200)][-1]; time.sleep(0.1)")
        kernel.run(CELL + "1")  # commits, and doesn't decode it
        assert kernel.run("seen").result == rf"'{1200 * (i + 1):07}\n'"


def test_what_a_cell_only_looks_at_stays_the_same_object(kernel, tmp_path):
    (tmp_path / "lines").write_text("one\ntwo\nthree\n" * 4000)
    kernel.run("f = open('lines'); f.readline(); known = id(f)")
    assert kernel.run(CELL + "f.name").result == "'lines'"
    assert kernel.run(CELL + "at = f.tell(); f.readline(); f.seek(at)").result == "4"
    assert kernel.run("id(f) == known, f.readline()").result == r"(True, 'two\n')"


def test_writes_of_both_come_one_after_the_other(kernel, tmp_path):
    kernel.run("f = open('out', 'w'); _ = f.write('home ')")
    kernel.run(CELL + "_ = f.write('cell ')")
    kernel.run("f.write('home again'); f.close()")
    assert (tmp_path / "out").read_text() == "home cell home again"


def test_a_file_that_has_no_name_any_more(kernel):
    kernel.run(
        "import tempfile, os\nf = tempfile.TemporaryFile('w+')\n"
        "f.write('abc'); g = open('gone', 'wb+', buffering=0); os.remove('gone')"
    )
    kernel.run(CELL + "f.write('def'); f.seek(1); g.write(b'xyz')")
    assert kernel.run("f.read(), g.seek(0), g.read()").result == "('bcdef', 0, b'xyz')"


def test_files_that_a_cell_makes_come_back(kernel, tmp_path):
    kernel.run(
        CELL + "import os, socket\nr, w = os.pipe()\nr, w = os.fdopen(r, 'r'), os.fdopen(w, 'w')\n"
        "w.write('early\\nlate\\n'); w.flush(); r.readline()\n"
        "one, other = socket.socketpair(); one.send(b'hello'); other.settimeout(7)\n"
        "out = open('out', 'a')"
    )
    assert kernel.run("other.recv(9), other.gettimeout()").result == "(b'hello', 7.0)"
    assert kernel.run("r.readline()").result == r"'late\n'"
    kernel.run("w.write('end'); w.close(); out.write('x'); out.close()")
    assert kernel.run("r.read()").result == "'end'"  # nobody else holds the pipe open
    assert (tmp_path / "out").read_text() == "x"


def test_pipes_and_sockets_of_the_main_worker(kernel):
    kernel.run(
        "import multiprocessing, os, socket, threading\n"
        "server = socket.create_server(('127.0.0.1', 0)); port = server.getsockname()[1]\n"
        "near, far = multiprocessing.Pipe()\n"
        "r, w = os.pipe(); r, w = os.fdopen(r, 'rb'), os.fdopen(w, 'wb', 0)\n"
        "w.write(b'abcdef'); r.read(2)"
    )
    outcome = kernel.run(
        CELL + "client = socket.create_connection(('127.0.0.1', port))\n"
        "served, _ = server.accept(); served.send(b'hi'); near.send({'a': 1})\n"
        "(r.read(2), client.recv(2))"
    )
    assert outcome.result == "(b'cd', b'hi')"
    assert kernel.run("far.recv(), r.read(2)").result == "({'a': 1}, b'ef')"
    kernel.run("client.send(b'back')")
    assert kernel.run("served.recv(9)").result == "b'back'"
    assert kernel.run("w.close(); r.read()").result == "b''"
    assert kernel.run("served.close(); client.recv(1)").result == "b''"


def test_the_frontend_keeps_no_descriptor(kernel, tmp_path):
    kernel.run("f = open('kept', 'w')")
    kernel.run(CELL + "g = open('made', 'w')\nf.write('1')")
    kernel.run("(f, g)")
    held = fds(kernel.pid)
    assert not {str(tmp_path / "kept"), str(tmp_path / "made")} & held
    kernel.run("f.close(); g.close()")


def test_a_cell_that_dies_leaves_files_where_they_were(kernel, tmp_path):
    (tmp_path / "lines").write_text("".join(f"{i:06}\n" for i in range(5000)))
    kernel.run("f = open('lines'); f.readline()")
    kernel.run(CELL + "f.seek(0, 2)\nimport os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    assert kernel.run("[f.readline() for _ in range(2500)][-1]").result == r"'002500\n'"


def test_a_closed_file_and_the_standard_streams(kernel):
    kernel.run("import sys; f = open('x', 'w', newline='\\r\\n'); f.close(); out = sys.stdout")
    outcome = kernel.run(
        CELL + "print('said', file=out); (f.closed, f.name, f.mode, out is sys.stdout)"
    )
    assert outcome.result == "(True, 'x', 'w', True)"
    assert "said" in outcome.stream("stdout")


def test_a_main_worker_that_died_opens_its_files_anew(kernel, tmp_path):
    (tmp_path / "lines").write_text("1\n2\n3\n")
    kernel.run("import os, socket\nf = open('lines'); s = socket.socket(); f.readline()")
    kernel.run(CELL + "f.readline()")
    kernel.settle()
    kernel.run("import signal; os.kill(os.getpid(), signal.SIGKILL)")
    assert kernel.run("f.readline()").result == r"'3\n'"
    assert kernel.run("s").content["ename"] == "QuarantinedError"


HOLDERS = """
import csv, functools, gzip, logging, os, random, socket
import numpy as np
def writes(file):
    while True: yield file.write("g\\n")
def calls(*functions):
    while True: yield [function() for function in functions]
"""
# What a value that can't be carried holds, too: it is made, used by a cell, and used by both afterwards.
HELD = {
    "a writer of csv": (
        "f = open('out', 'w', newline=''); w = csv.writer(f, lineterminator=' '); w.writerow([1])",
        "f.write('cell ')",
        "w.writerow([2]); f.write('3'); f.flush(); open('out').read()",
        "'1 cell 2 3'",
    ),
    "a generator, a method and a partial function": (
        "f = open('out', 'w+'); g = writes(f); next(g)\n"
        "raw, write, p = f.buffer.raw, f.write, functools.partial(f.write, 'p')",
        "f.write('cell'); f.seek(2); f.write('CELL')",
        "next(g), write('w'), p(), f.write('f'); f.seek(0), f.read(), raw is f.buffer.raw",
        r"(0, 'g\nCELLg\nwpf', True)",
    ),
    "a compressed file": (
        "f = open('out', 'wb'); z = gzip.GzipFile(fileobj=f, mode='wb'); z.write(b'1')",
        "f.tell(), f.flush()",
        "z.write(b'2'); z.close(); f.close(); gzip.open('out').read()",
        "b'12'",
    ),
    "a handler of logging": (
        "f = open('out', 'w'); h = logging.StreamHandler(f); log = logging.Logger('x')\n"
        "log.addHandler(h); g = writes(f); next(g)",
        "log.error('cell')",
        "log.error('home'); next(g); f.flush(); open('out').read(), h.stream is f",
        r"('g\ncell\nhome\ng\n', True)",
    ),
    "a file that is read ahead and changed": (
        "open('out', 'w').write('0123456\\n' * 999); f = open('out', 'r+'); g = calls(f.readline); next(g)",
        "f.readline(); at = f.tell(); f.seek(at); f.write('cell'); f.seek(at)",
        "next(g), f.readline()",
        r"(['cell456\n'], '0123456\n')",
    ),
    "an encoding with a mark at its start": (
        "f = open('out', 'w', encoding='utf-16'); g = writes(f)",
        "f.write('cell'); f.reconfigure(line_buffering=True)",
        "next(g); f.line_buffering, open('out', encoding='utf-16').read()",
        r"(True, 'cellg\n')",
    ),
    "a pipe that was read ahead": (
        "r, w = os.pipe(); f, w = os.fdopen(r), os.fdopen(w, 'w', 1); w.write('1\\n2\\n3\\n4\\n5\\n')\n"
        "g = calls(f.readline); next(g)",
        "f.readline()",
        "w.close(); next(g), f.read()",
        r"(['3\n'], '4\n5\n')",
    ),
    "a file that the cell closes": (
        "f = open('out', 'w'); g = writes(f); next(g)",
        "f.write('cell'); f.close()",
        "g.gi_frame.f_locals['file'] is f, f.closed, open('out').read()",
        r"(True, True, 'g\ncell')",
    ),
    "another file": (
        "f = open('out', 'w'); g = writes(f); next(g)",
        "f = open('other', 'w')",
        "next(g); del g; f.name, open('out').read()",
        r"('other', 'g\ng\n')",
    ),
    "a socket": (
        "a, b = socket.socketpair(); g = calls(functools.partial(a.recv, 1), a.gettimeout); b.send(b'123')",
        "a.recv(1); a.settimeout(7)",
        "next(g), a.recv(1)",
        "([b'2', 7.0], b'3')",
    ),
    "a file of a socket": (
        "a, b = socket.socketpair(); f = a.makefile(); g = calls(f.readline)\n"
        "b.send(b'1\\n2\\n3\\n4\\n'); next(g)",
        "f.readline()",
        "next(g), f.readline(), f.buffer.raw._sock is a",
        r"(['3\n'], '4\n', True)",
    ),
    "a socket that the cell closes": (
        "a, b = socket.socketpair(); g = calls(a.fileno)",
        "a.close()",
        "next(g), a.fileno()",
        "([-1], -1)",
    ),
    "generators of random numbers": (
        "new = lambda: [random.Random(5), np.random.default_rng(5), np.random.RandomState(5)]\n"
        "d, n, s = new(); g = calls(d.random, n.random, s.random_sample)",
        "d.random(), n.random(), s.random_sample()",
        "here = [next(g), [one.random() for one in (d, n, s)]]\n"
        "them = new(); _, *there = [[one.random() for one in them] for _ in '123']; here == there",
        "True",
    ),
}


@pytest.mark.parametrize("run", RUNS)
def test_what_an_unserializable_value_holds_stays_one_object(kernel, run):
    pytest.importorskip("numpy")
    kernel.run(HOLDERS)
    for name, (made, cell, after, wanted) in HELD.items():
        assert kernel.run(made).status == "ok", name
        outcome = kernel.run(RUNS[run] + cell)
        assert outcome.status == "ok" and "still use the old" not in outcome.stream("stderr"), name
        assert kernel.run(after).result == wanted, name


@pytest.mark.parametrize("run", RUNS)
def test_what_cannot_stay_one_object_is_named(kernel, run):
    kernel.run("f = open('out', 'w'); m = map(f.write, 'abc'); g = (one for one in (m, f))")
    assert kernel.run(RUNS[run] + "next(m)").stream("stderr").count("use the old m:") == 1
