"""What the notebook writes while commits, forks and adoptions run is kept: a model checks each element.

test_privatizing.py does so for the memory of arrays. Here it is dicts, lists and sets, whose objects a commit walks,
and in turn cells of all ways to run them, each of which changes some elements.
"""

import ast
import random
import subprocess

import effort
import pytest

HEADS = {
    "plain": "",
    "in-process": "%%execute_with_scorep --run=in-process\n",
    "forked": "%%execute_with_scorep --run=forked\n",
    "clean": "%%execute_with_scorep --run=isolated\n",
}
SIZE = 50

# A writer adds one to the elements in turn and counts what it added in a list of its own.
BEGIN = f"""
import array, asyncio, collections, itertools, threading, time
import numpy as np
by_key, in_list, rows = {{n: 0 for n in range({SIZE})}}, [0] * {SIZE}, np.zeros(({SIZE}, 512))
numbers, nested = array.array("q", [0] * {SIZE}), [[0] for n in range({SIZE})]
queue, members = collections.deque(maxlen={SIZE}), set()
written, places, going = [0] * {SIZE}, itertools.cycle(range({SIZE})), [True]

def write():
    place = next(places)
    by_key[place] += 1
    in_list[place] += 1
    numbers[place] += 1
    nested[place][0] += 1
    rows[place] += 1
    queue.append(place)
    members.add((place, written[place]))
    written[place] += 1

def wrong():
    return [
        place
        for place, count in enumerate(written)
        if not by_key[place] == in_list[place] == numbers[place] == nested[place][0] == count
        or (rows[place] != count).any()
        or {{one for at, one in members if at == place}} != set(range(count))
    ]
"""
READS = "seen = [sum(by_key.values()), sum(in_list), sum(numbers), sum(n for n, in nested), len(members)]\nseen"
WRITERS = {
    "thread": (
        "def work():\n"
        "    while going[0]: write(); time.sleep(0.0005)\n"
        "thread = threading.Thread(target=work); thread.start()",
        "going[0] = False; thread.join()",
    ),
    "task": (
        "async def beat():\n"
        "    while going[0]: write(); await asyncio.sleep(0)\n"
        "task = asyncio.get_running_loop().create_task(beat())",
        "going[0] = False; await task",
    ),
}


def written_while(kernel, turn):
    """Cells in clean processes and plain ones, between which the notebook rests; how much was written."""
    last = 0
    for number in range(effort.examples(6)):
        outcome = kernel.run(HEADS["clean"] + READS)
        assert outcome.status == "ok", outcome.content
        seen = ast.literal_eval(outcome.result)
        # A commit is of one moment: of no element more was written than has been counted since then.
        assert min(seen) >= last, (seen, last)
        last = max(seen)
        turn(number)
    return last


@pytest.mark.parametrize("writer", effort.core(WRITERS, ["thread"]))
def test_a_writer_beside_clean_cells(kernel, writer):
    begin, end = WRITERS[writer]
    assert kernel.run(BEGIN).status == "ok"
    assert kernel.run(begin).status == "ok"

    def turn(number):
        if number % 2:
            kernel.settle()
        else:
            assert kernel.run("len(members)").status == "ok"

    assert written_while(kernel, turn) > 0
    assert kernel.run(end).status == "ok"
    assert kernel.run("wrong()").result == "[]"
    assert kernel.run(HEADS["clean"] + "wrong()").result == "[]"


def test_a_subshell_beside_clean_cells(kernel):
    reply = kernel.control("create_subshell_request")["content"]
    session, socket = kernel.client.session, kernel.client.shell_channel.socket
    assert kernel.run(BEGIN).status == "ok"

    def write(count):
        content = {"code": f"for _ in range({count}): write()", "silent": False}
        content |= {"store_history": False, "allow_stdin": False}
        message = session.msg("execute_request", content)
        message["header"]["subshell_id"] = reply["subshell_id"]
        session.send(socket, message)
        return message["header"]["msg_id"]

    for number in range(effort.examples(5)):
        sent = write(200)
        assert kernel.run(HEADS["clean"] + READS).status == "ok"
        assert kernel.run("len(members)").status == "ok"
        assert kernel.finish(write(1)).status == "ok", sent  # in its own order: the first has ended
    assert kernel.run("wrong(), sum(written)").result == f"([], {effort.examples(5) * 201})"
    assert kernel.run(HEADS["clean"] + "wrong()").result == "[]"


IN_C = r"""
#include <pthread.h>
#include <unistd.h>
static long long *rows, *counts;
static volatile int going;
static pthread_t thread;
static void *work(void *unused) {
    for (long place = 0; going; place = (place + 1) % PLACES) {
        for (int i = 0; i < WIDTH; i++)
            rows[place * WIDTH + i]++;
        counts[place]++;
        if (place == 0)
            usleep(100);
    }
    return unused;
}
int begin(long long *to_rows, long long *to_counts) {
    rows = to_rows, counts = to_counts, going = 1;
    return pthread_create(&thread, NULL, work, NULL);
}
int end(void) { going = 0; return pthread_join(thread, NULL); }
"""
ROWS = (400, 1024)


def test_a_thread_of_c_beside_clean_cells(kernel, tmp_path):
    """It writes to committed arrays at any moment, without the interpreter's lock."""
    source, library = tmp_path / "writer.c", tmp_path / "writer.so"
    source.write_text(IN_C.replace("PLACES", str(ROWS[0])).replace("WIDTH", str(ROWS[1])))
    subprocess.run(["cc", "-shared", "-fPIC", "-pthread", "-o", library, source], check=True)
    begin = (
        f"import ctypes, numpy as np; library = ctypes.CDLL({str(library)!r})\n"
        f"rows, counts = np.zeros({ROWS}, np.int64), np.zeros({ROWS[0]}, np.int64)\n"
        "places = [ctypes.c_void_p(one.ctypes.data) for one in (rows, counts)]\n"
        "library.begin(*places)"
    )
    assert kernel.run(begin).result == "0"
    last = 0
    for number in range(effort.examples(6)):
        head = HEADS["clean" if number % 3 else "in-process"]
        outcome = kernel.run(head + "int(rows.sum())")
        assert outcome.status == "ok", outcome.content
        assert int(outcome.result) >= last
        last = int(outcome.result)
        if number % 2:
            kernel.settle()
    assert kernel.run("library.end()").result == "0"
    wrong = "int((rows != counts[:, None]).sum()), bool(counts.min() > 0)"
    assert kernel.run(wrong).result == "(0, True)"
    assert kernel.run(HEADS["clean"] + wrong).result == "(0, True)"


SHARED = f"""
import array, collections
import numpy as np
by_key, in_list, rows = {{n: 0 for n in range({SIZE})}}, [0] * {SIZE}, np.zeros(({SIZE}, 512))
same, view, members, queue = in_list, rows[::2], set(), collections.deque()
class Node: pass
nodes = [Node() for n in range({SIZE})]
for n, node in enumerate(nodes): node.number, node.next = 0, nodes[n - 1]
"""


class Model:
    """What the variables have to be."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.by_key, self.in_list = dict.fromkeys(range(SIZE), 0), [0] * SIZE
        self.rows, self.nodes = [0] * SIZE, [0] * SIZE
        self.members, self.queue = set(), []

    def step(self):
        """The code of a cell that changes some elements, which the model then has."""
        code = []
        for _ in range(self.random.randrange(1, 6)):
            place, value = self.random.randrange(SIZE), self.random.randrange(1000)
            kind = self.random.choice("by_key in_list rows nodes members queue gone".split())
            if kind == "by_key":
                self.by_key[place] = value
                code.append(f"by_key[{place}] = {value}")
            elif kind == "gone":
                self.by_key.pop(place, None)
                code.append(f"_ = by_key.pop({place}, None)")
            elif kind == "in_list":
                self.in_list[place] += value
                code.append(f"same[{place}] += {value}")
            elif kind == "rows":
                place -= place % 2
                self.rows[place] += value
                code.append(f"view[{place // 2}] += {value}")
            elif kind == "nodes":
                self.nodes[place - 1] += value
                code.append(f"nodes[{place}].next.number += {value}")
            elif kind == "members":
                (self.members.discard if value % 2 else self.members.add)(place)
                code.append(f"members.{'discard' if value % 2 else 'add'}({place})")
            else:
                self.queue.append(value)
                code.append(f"queue.append({value})")
        return "\n".join(code)

    def shown(self):
        return [
            list(self.by_key.items()), self.in_list, self.rows, self.nodes,
            sorted(self.members), self.queue, True,
        ]  # fmt: skip


SHOWS = (
    "[list(by_key.items()), in_list, [int(row[-1]) for row in rows], [node.number for node in nodes], "
    "sorted(members), list(queue), same is in_list and view.base is not None and "
    "all(node.next is nodes[n - 1] for n, node in enumerate(nodes))]"
)


@pytest.mark.parametrize("seed", range(effort.examples(2)))
def test_cells_of_all_ways_in_turn(kernel, seed):
    model = Model(seed)
    assert kernel.run(SHARED).status == "ok"
    for _ in range(effort.examples(10)):
        way = model.random.choice(list(HEADS))
        code = model.step()
        outcome = kernel.run(f"{HEADS[way]}{code}\n{SHOWS}")
        assert outcome.status == "ok", (way, code, outcome.content)
        assert not outcome.stream("stderr"), (way, code, outcome.stream("stderr"))
        assert ast.literal_eval(outcome.result) == model.shown(), (way, code)
        if model.random.random() < 0.3:
            kernel.settle()
    assert ast.literal_eval(kernel.run(SHOWS).result) == model.shown()
