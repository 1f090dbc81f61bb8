"""Text of Python's, bytes of C code and of child processes, and displays: as they were written.

What a terminal would show, once Python's text was flushed: lines are, and so are parts of lines
where the cell says so.
"""

import random
import re

import effort
import pytest

CELL = "%%execute_with_scorep\n"
HEADS = {"plain": "", "recorded": CELL}
DIES = CELL + "import os; print('a', flush=True); os.write(1, b'b'); os.kill(os.getpid(), 9)"


def shown(outcome):
    """All that a cell showed, in the order of its messages, whichever stream it was."""
    text = ""
    for message in outcome.messages:
        if message["msg_type"] == "stream":
            text += message["content"]["text"]
        elif message["msg_type"] == "display_data":
            text += f"[{message['content']['data']['text/plain']}]\n"
    return text.partition("Instrumentation results")[0]


WAYS = [*HEADS, "rolled back", "rolled back and recorded"]


@pytest.fixture(params=effort.core(WAYS, [*HEADS, "rolled back and recorded"]))
def run(request):
    head = HEADS.get(request.param, CELL if "recorded" in request.param else "")
    if request.param in HEADS:
        kernel = request.getfixturevalue("shared_isolated_kernel")
        return lambda code: kernel.run(head + code)
    kernel = request.getfixturevalue("shared_in_process_kernel")
    outcome = kernel.run(DIES)  # the main worker is a fork that was woken, from here on
    assert outcome.content["ename"] == "CellDied" and "before the cell" in outcome.content["evalue"]
    assert shown(outcome).startswith("a\nb")
    return lambda code: kernel.run(head + code)


def test_lines_and_parts_of_lines(run):
    outcome = run(
        """import ctypes, os, sys
print("a"); os.write(1, b"b\\n"); print("c"); os.write(1, b"d\\n")
print("e", end="", flush=True); os.write(1, b"f"); print("g")
sys.stdout.write("h"); sys.stdout.flush(); os.write(1, b"i"); sys.stdout.write("j\\n")
print("k"); ctypes.CDLL(None).puts(b"l"); ctypes.CDLL(None).fflush(None); print("m")
"""
    )
    assert shown(outcome) == "a\nb\nc\nd\nefg\nhij\nk\nl\nm\n"


def test_child_processes(run):
    outcome = run(
        """import os, subprocess
print("a"); subprocess.run(["echo", "b"]); print("c"); os.system("echo d; echo e >&2")
print("f", flush=True); subprocess.run("echo g; sleep 0.02; echo h", shell=True); print("i")
"""
    )
    assert re.sub("d\ne\n|e\nd\n", "de\n", shown(outcome)) == "a\nb\nc\nde\nf\ng\nh\ni\n"


def test_both_streams_and_displays(run):
    outcome = run(
        """import os, sys
from IPython.display import display
print("a"); os.write(2, b"b\\n"); print("c", file=sys.stderr); os.write(1, b"d\\n")
display(1); os.write(1, b"e\\n"); display(2); print("f"); os.write(2, b"g\\n"); display(3)
os.write(1, b"h\\n")
"""
    )
    assert shown(outcome) == "a\nb\nc\nd\n[1]\ne\n[2]\nf\ng\n[3]\nh\n"


def test_a_character_in_two_pieces(run):
    """Of what C code writes, with text of Python's between them: no byte is lost, or invented."""
    outcome = run("import os; os.write(1, b'x\\xe2\\x82'); print('y'); os.write(1, b'\\xacz')")
    assert shown(outcome) == "xy\n\N{EURO SIGN}z"


def test_many_pieces(run):
    """By a fixed sequence of draws, with pauses in which the frontend reads, or doesn't."""
    draw = random.Random(3)
    lines, wanted = ["import os, sys, time"], ""
    for number in range(1500):
        end = draw.choice(["\n", "\n", " "])
        wanted += str(number) + end
        lines.append(
            draw.choice(
                (
                    f"print({number}, end={end!r}, flush=True)",
                    f"print({number}, end={end!r}, file=sys.stderr, flush=True)",
                    f"os.write(1, b'{number}' + {end.encode()!r})",
                    f"os.write(1, b'{number}' + {end.encode()!r})",
                )
            )
        )
        if draw.random() < 0.05:
            lines.append(f"time.sleep({draw.choice([0, 0.0002, 0.002, 0.02])})")
    assert shown(run("\n".join(lines))) == wanted


def test_the_user_points_descriptors_elsewhere(shared_kernel, tmp_path):
    """What is written there is the user's, and all else is shown as before."""
    outcome = shared_kernel.run(
        f"""import os
kept, file = os.dup(1), os.open({str(tmp_path / "file")!r}, os.O_RDWR | os.O_CREAT)
print("a"); os.write(1, b"b\\n"); os.dup2(file, 1); os.write(1, b"away"); os.lseek(1, 0, 0)
print("c"); os.dup2(kept, 1); print("d"); os.write(1, b"e\\n"); print("f")
"""
    )
    assert shown(outcome) == "a\nb\nc\nd\ne\nf\n"
    assert (tmp_path / "file").read_text() == "away"
