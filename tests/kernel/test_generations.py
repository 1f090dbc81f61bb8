"""%holdfast undo, checkout, diff and history in the real kernel."""

import os
import random
import re
import signal

import effort
import pytest
from waiting import at_rest, until

CELL = "%%execute_with_scorep --run=isolated\n"
DIGEST = """
import sys
sys.path.insert(0, {support!r})
from digest import digest as _digest
"""
WRONG = ["undo 1", "checkout", "checkout x", "checkout 1 2", "diff a", "diff 1 2 3", "history x"]


@pytest.fixture
def kernel(kernel):
    """With one step at most."""
    kernel.settle()
    for limit in ("0", "1G"):
        outcome = kernel.run(f"%holdfast history {limit}", store_history=False)
        assert outcome.status == "ok", outcome.content
    kernel.codes.clear()  # others may use it
    return kernel


def cells(kernel, *codes):
    for code in codes:
        outcome = kernel.run(code)
        assert outcome.status == "ok", outcome.content
        kernel.settle()  # a step for each cell


def history(kernel, line):
    outcome = kernel.run(f"%holdfast {line}")
    assert outcome.status == "ok", outcome.content
    return outcome.stream()


def steps(kernel):
    """The rows of the history by the number of the step, once all is committed."""
    kernel.settle()
    text = history(kernel, "history")
    assert "Not committed yet" not in text
    rows = re.findall(r"^ *(\d+)  \d\d:\d\d:\d\d(.*)$", text, re.M)
    return {int(number): rest for number, rest in rows}


def test_undo_takes_the_last_cell_back(kernel):
    cells(kernel, "x = 1; y = [1]", "y.append(2); x = 2; z = 3", "print(x)")
    text = history(kernel, "undo")
    assert f"Cell {kernel.before + 2} is undone" in text
    assert "Changed: x, y." in text and "Gone: z." in text
    assert kernel.run("(x, y, 'z' in globals())").result == "(1, [1], False)"


def test_undo_of_an_instrumented_cell(isolated_kernel):
    cells(isolated_kernel, "import numpy as np\na = np.zeros(100_000); view = a[:10]")
    cells(isolated_kernel, "%%execute_with_scorep\na += 1; made = 5")
    assert isolated_kernel.run("float(a.sum() + view[0])").result == "100001.0"
    assert "Gone: made." in history(isolated_kernel, "undo")
    assert isolated_kernel.run("float(a.sum() + view[0]), view.base is a").result == "(0.0, True)"
    assert isolated_kernel.run(CELL + "float(view.sum())").result == "0.0"


@pytest.mark.fresh
def test_undo_goes_on_and_checkout_comes_back(kernel):
    cells(kernel, "x = 1", "x = 2", "x = 3")
    text = history(kernel, "undo")
    back = re.search(r"%holdfast checkout (\d+) takes it back", text)[1]
    history(kernel, "undo")
    assert kernel.run("print(x)").stream() == "1\n"
    outcome = kernel.run("%holdfast undo")
    assert outcome.content["ename"] == "HistoryError"
    assert "there is no step before" in outcome.content["evalue"]
    history(kernel, f"checkout {back}")
    assert kernel.run("print(x)").stream() == "3\n"
    cells(kernel, "x = 4")
    history(kernel, "undo")
    assert kernel.run("print(x)").stream() == "3\n"
    history(kernel, "undo")
    assert kernel.run("print(x)").stream() == "2\n"


def test_what_is_not_committed_is_kept_by_a_checkout(kernel):
    cells(kernel, "x = 1", "x = 2")
    first, _ = list(steps(kernel))[-2:]
    kernel.run("x = 'not committed'")
    text = history(kernel, f"checkout {first}")
    back = re.search(r"checkout (\d+) takes it back", text)[1]
    assert kernel.run("print(x)").stream() == "1\n"
    history(kernel, f"checkout {back}")
    assert kernel.run("print(x)").stream() == "not committed\n"


def test_random_generators_go_back(kernel):
    cells(kernel, "import random; random.seed(7); x = 0", "x = random.random()")
    first = kernel.run("print(x)").stream()
    history(kernel, "undo")
    cells(kernel, "x = random.random()")
    assert kernel.run("print(x)").stream() == first


def test_results_stay(kernel):
    cells(kernel, "x = [1]", "x.append(2); len(x) * 100")
    history(kernel, "undo")
    number = kernel.before + 2
    assert kernel.run(f"(_{number}, Out[{number}], x)").result == "(200, 200, [1])"


@pytest.mark.fresh
def test_declined_objects_stay_and_are_named(kernel):
    cells(kernel, "x = 1", "x = 2; g = iter(n for n in range(9)); next(g)")
    text = history(kernel, "undo")
    assert "g stays as it is: generator" in text
    assert kernel.run("next(g)").result == "1"
    cells(kernel, "del g; x = 3")
    (number, *_) = [number for number, row in steps(kernel).items() if row.endswith("x")]
    text = history(kernel, f"checkout {number}")
    assert "g can't be brought back: generator" in text
    assert kernel.run("print(x, 'g' in globals())").stream() == "2 False\n"


def test_diff_shows_names_and_small_values(kernel):
    cells(kernel, "x = 1; gone = 'old'; same = 2; import numpy as np", "x = 'two'; del gone")
    cells(kernel, "big = np.ones(100_000)")
    first, second, third = list(steps(kernel))[-3:]
    text = history(kernel, f"diff {first} {second}")
    assert re.search(r"^~  x +.* 1 → 'two'$", text, re.M)
    assert re.search(r"^-  gone +.* 'old'$", text, re.M)
    assert "same" not in text and "big" not in text
    assert re.search(r"^\+  big +numpy.ndarray +781.2 KiB", history(kernel, "diff"), re.M)
    assert history(kernel, f"diff {second}") == history(kernel, f"diff {second} {third}")
    assert "No variable differs" in history(kernel, f"diff {third} {third}")


def test_members_of_a_group_stay_apart(kernel):
    cells(kernel, "a = [1]; b = [a]; c = 5", "a.append(2)")
    text = history(kernel, "diff")
    assert re.search(r"^~  a +list +.* \[1\] → \[1, 2\]$", text, re.M)
    assert "\n~  b" in text and "c" not in text.split()


def test_wrong_words(kernel):
    for words in WRONG:
        outcome = kernel.run(f"%holdfast {words}")
        assert outcome.content["ename"] == "UsageError"
        assert f"%holdfast {words.split()[0]}" in outcome.content["evalue"]


def test_not_in_other_cells(kernel):
    for code in ("x = 1\n%holdfast undo", CELL + "%holdfast undo", "%holdfast history\n%time 1"):
        outcome = kernel.run(code)
        assert "must be the only line of a plain cell" in outcome.content["evalue"]
    assert kernel.run("x").result == "1"
    assert "Session" in kernel.run("x = 1\n%holdfast").stream()


@pytest.mark.fresh
def test_steps_that_are_not_there(kernel):
    for words in ("checkout 3", "diff 7"):
        outcome = kernel.run(f"%holdfast {words}")
        assert outcome.content["ename"] == "HistoryError"
        assert "there is no step" in outcome.content["evalue"]
    assert "No step is kept yet" in history(kernel, "history")
    assert kernel.run("1 + 1").result == "2"


def test_only_steps_that_are_there_are_named(isolated_kernel):
    """Commits between them are none."""
    for code in ("x = 1", "pass", "x = 2", "x = 3"):
        isolated_kernel.run(f"%%execute_with_scorep\n{code}")
    listed = [line.split()[0] for line in history(isolated_kernel, "history").splitlines()[1:-1]]
    assert [int(one) for one in listed] != list(range(int(listed[0]), int(listed[-1]) + 1))
    words = f"{', '.join(listed[:-1])} and {listed[-1]}"
    for command in ("diff 900 901", "checkout 900"):
        said = isolated_kernel.run(f"%holdfast {command}").content["evalue"]
        assert said == f"there is no step 900; kept are the steps {words} (%holdfast history)"
    assert f"History: {len(listed)} steps" in isolated_kernel.run("%holdfast").stream()


def test_names_of_our_own_are_not_shown(isolated_kernel):
    pytest.importorskip("ipywidgets")
    isolated_kernel.run("%%execute_with_scorep\nx = 1")
    isolated_kernel.run("%%execute_with_scorep\nimport ipywidgets\nbox = ipywidgets.HBox([])")
    for words in ("history", "diff", ""):
        shown = isolated_kernel.run(f"%holdfast {words}").stream()
        assert "_holdfast_" not in shown and "box" in shown


def session_of(kernel):
    from pathlib import Path

    from holdfast.store import Session

    maps = Path(f"/proc/{kernel.pid}/maps").read_text().splitlines()
    (path,) = {line.split()[5] for line in maps if "/dev/shm/holdfast-" in line}
    return Session.open("/" + Path(path).name)


@pytest.mark.fresh
def test_the_oldest_steps_are_dropped_beyond_the_limit(kernel):
    mib = 1 << 20
    history(kernel, "history 5M")
    cells(kernel, "import numpy as np; a = np.zeros(1 << 17)")
    with session_of(kernel) as session:
        for number in range(12):
            cells(kernel, f"a = np.full(1 << 17, {number})")
            info = session.info()
            assert info["allocated_bytes"] - info["free_bytes"] < 12 * mib
    text = history(kernel, "history")
    assert re.search(r"of at most 5.0 MiB; [5-9] older steps dropped", text), text
    assert len(steps(kernel)) in (5, 6)
    history(kernel, "undo")
    assert kernel.run("int(a[0])").result == "10"
    assert "0 B kept" in history(kernel, "history 0")
    assert len(steps(kernel)) == 1


def test_the_number_of_steps_is_bounded(kernel):
    for number in range(30):
        cells(kernel, f"x = {number}")
    assert len(steps(kernel)) == 28
    history(kernel, "undo")
    assert kernel.run("print(x)").stream() == "28\n"


def test_history_gives_way_where_the_arena_is_full(start_kernel):
    kernel = start_kernel(arguments=("--capacity", str(24 << 20), "--history", str(24 << 20)))
    cells(kernel, "import numpy as np")
    for number in range(5):
        cells(kernel, f"a = np.full(1 << 19, {number})")  # 4 MiB each
    kept = len(steps(kernel))
    cells(kernel, CELL + "b = np.ones(1 << 20)")  # 8 MiB, of which four are left
    assert kernel.run("float(b.sum()), int(a[0])").result == "(1048576.0, 4)"
    assert len(steps(kernel)) <= kept
    assert "dropped" in history(kernel, "history")


@pytest.mark.fresh
def test_a_shell_command_is_no_step(kernel):
    cells(kernel, "x = 1", "!true", "!false")
    assert len(steps(kernel)) == 1
    cells(kernel, "!true\nx = 2")
    assert "_exit_code" not in "".join(steps(kernel).values())


def test_a_dead_cell_is_no_step(isolated_kernel):
    cells(isolated_kernel, "x = 1", "x = 2")
    before = steps(isolated_kernel)
    isolated_kernel.run("%%execute_with_scorep\nimport os; x = 3; os._exit(1)")
    assert list(steps(isolated_kernel)) == list(before)
    history(isolated_kernel, "undo")
    assert isolated_kernel.run("print(x)").stream() == "1\n"


def test_history_survives_the_main_worker(kernel):
    cells(kernel, "x = 1; import os", "x = 2")
    kernel.run("x = 3; os.kill(os.getpid(), 9)")
    assert kernel.run("print(x)").stream() == "2\n"
    text = history(kernel, "undo")
    assert f"Cell {kernel.before + 2} is undone" in text
    assert kernel.run("print(x)").stream() == "1\n"


def test_the_main_worker_dies_while_it_goes_back(kernel):
    cells(kernel, "x = 1; import os, signal")
    cells(kernel, "class Trap:\n    def __reduce__(self): return (os.kill, (os.getpid(), 9))")
    main = int(kernel.run("print(os.getpid())").stream())
    os.kill(main, signal.SIGSTOP)
    sent = kernel.client.execute("%holdfast undo")
    at_rest(lambda: [kernel.pid])  # it has been asked
    os.kill(main, signal.SIGKILL)
    outcome = kernel.finish(sent)
    assert outcome.content["ename"] == "CellDied"
    assert kernel.run("print(x)").stream() == "1\n"
    assert kernel.run("%holdfast history").status == "ok"


def test_an_interrupt_before_it_begins(kernel):
    cells(kernel, "x = 1", "x = 2; import os")
    main = int(kernel.run("print(os.getpid())").stream())
    kernel.settle()
    os.kill(main, signal.SIGSTOP)
    kernel.run_later = kernel.client.execute("x = 3")
    sent = kernel.client.execute("%holdfast undo")
    at_rest(lambda: [kernel.pid])
    os.kill(main, signal.SIGCONT)
    kernel.finish(kernel.run_later)
    assert kernel.finish(sent).status == "ok"
    assert kernel.run("print(x)").stream() == "2\n"


@pytest.mark.parametrize("seed", effort.core(range(3), [0]))
def test_any_step_is_what_it_was(kernel, seed):
    """Random edits, then returns to random steps: each has the digest taken then."""
    from pathlib import Path

    chooser = random.Random(seed)
    support = str(Path(__file__).parents[1] / "support")
    cells(kernel, DIGEST.format(support=support))
    cells(kernel, "import numpy as np\nx = 0; y = []; a = np.zeros(1000); b = a[::2]; d = {}")
    edits = [
        "x += 1",
        "y.append(x)",
        "a[{n}] = x",
        "b = a[{n}:]",
        "d['k{n}'] = y",
        "c = [y, d]",
        "y = [x, {n}]",
        "a = np.full(70_000, {n}.0); b = a[:5]",
        "f = lambda: x + {n}",
        "class C:\n    number = {n}\no = C(); o.y = y",
        "globals().pop('c', None)",
        CELL + "x += 10; y.append(-x); a[:3] = x",
        CELL + "d = {{'new': {n}}}; e = y",
    ]
    look = "print(_digest(globals(), 'xyabcdefoC'))"
    known = {}
    for _ in range(14):
        cells(kernel, chooser.choice(edits).format(n=chooser.randrange(100)))
        known[max(steps(kernel))] = kernel.run(look).stream()
    for _ in range(8):
        kept = sorted(known.keys() & steps(kernel))  # each way back is a step, and the oldest go
        assert len(kept) >= 5
        number = chooser.choice(kept)
        history(kernel, f"checkout {number}")
        assert kernel.run(look).stream() == known[number], number
        if chooser.random() < 0.5:
            cells(kernel, chooser.choice(edits).format(n=chooser.randrange(100)))


def test_save_and_load_in_another_kernel(kernel, isolated_kernel, tmp_path):
    path = tmp_path / "saved session"
    first, second = kernel, isolated_kernel
    cells(
        first,
        "import numpy as np; a = np.arange(300_000.0); b = a[:9]; y = [b, 'text']; g = (n for n in y)",
    )
    cells(first, "class C:\n    number = 7\nf = lambda: C.number + len(y)\no = C()")
    text = history(first, f"save {path}")
    assert "7 variables saved to " in text and os.stat(path).st_mode & 0o777 == 0o600
    assert "g isn't in it: generator" in text
    cells(second, "a = 'mine'; only = 1; import os; os.environ['HERE'] = 'yes'")
    text = history(second, f"load '{path}'")
    assert f"The variables are those of {path}, saved on" in text
    look = "float(a.sum()), b.base is a, y[0] is b, f(), isinstance(o, C), 'only' in globals()"
    assert second.run(look).result == "(44999850000.0, True, True, 9, True, False)"
    assert second.run("import os; os.environ['HERE']").result == "'yes'"
    assert second.run(CELL + "a += 1; float(b[0])").result == "1.0"
    history(second, "undo")
    assert second.run("float(a[0]), float(b[0])").result == "(0.0, 0.0)"


def test_undo_of_a_load(kernel, tmp_path):
    cells(kernel, "x = 1")
    history(kernel, f"save {tmp_path}/file")
    cells(kernel, "x = 2; y = 3")
    kernel.run("x = 'not committed'")
    history(kernel, f"load {tmp_path}/file")
    assert kernel.run("print(x, 'y' in globals())").stream() == "1 False\n"
    history(kernel, "undo")
    assert kernel.run("print(x, y)").stream() == "not committed 3\n"


def test_a_broken_file_changes_nothing(kernel, tmp_path):
    path = tmp_path / "file"
    cells(kernel, "x = list(range(1000))")
    history(kernel, f"save {path}")
    cells(kernel, "x = 2")
    path.write_bytes(path.read_bytes()[:-50])
    outcome = kernel.run(f"%holdfast load {path}")
    assert "UsageError: %holdfast load: " in outcome.stream("stderr")
    assert "cut short" in outcome.stream("stderr") and not outcome.content.get("traceback")
    for command in "load /nowhere", "save /nowhere/file":
        outcome = kernel.run(f"%holdfast {command}")
        assert outcome.status == "error"
        assert outcome.stream("stderr").count("/nowhere") == 1 and "error" not in outcome.types
    assert kernel.run("print(x)").stream() == "2\n"
    assert kernel.run(CELL + "x + 1").result == "3"


def test_a_kernel_that_is_killed_while_it_saves_leaves_the_older_file(kernel, tmp_path):
    path = tmp_path / "file"
    cells(kernel, "import os; x = 1")
    history(kernel, f"save {path}")
    before = path.read_bytes()
    main = int(kernel.run("print(os.getpid())").stream())
    cells(kernel, "import numpy as np; a = np.random.default_rng(1).random(10_000_000)")
    sent = kernel.client.execute(f"%holdfast save {path}")
    until(lambda: list(tmp_path.glob("file.*")), pause=0.001)
    os.kill(main, signal.SIGKILL)
    outcome = kernel.finish(sent)
    assert outcome.content.get("ename", "CellDied") == "CellDied"
    if outcome.status == "error":
        assert path.read_bytes() == before
    assert kernel.run("print(x)").stream() == "1\n"
