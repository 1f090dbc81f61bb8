"""An ordinary tutorial notebook gives the same outputs as ipykernel.

The cells below run on ipykernel and on Holdfast through jupyter_client, and every output is
compared: kinds, order, texts, mime types, tracebacks, payloads. Only what differs between
two runs of ipykernel itself is made equal first: addresses, process numbers in file
names, times, and the way in which a stream is cut into messages.
"""

import difflib
import json
import queue
import sys
import time

import pytest
from jupyter_client.manager import KernelManager
from normal import normal, normal_tree

TIMEOUT = 120.0

# name: (code, answers to input())
CELLS = {
    "expression": ("6 * 7", ()),
    "previous result": ("_ + 1", ()),
    "out": ("Out[1], In[1], _1, _i", ()),
    "print": ("print('a', 1, [2])\nprint('no end', end='')", ()),
    "both streams": (
        "import sys\nprint('out'); sys.stdout.flush()\nprint('err', file=sys.stderr)\n"
        "sys.stderr.flush()\nprint('out again')",
        (),
    ),
    "several displays": (
        "for i in range(3):\n    display(i)\n    print('then', i)",
        (),
    ),
    "semicolon": ("5;", ()),
    "function": (
        "def mean(xs):\n    'The mean.'\n    return sum(xs) / len(xs)\nmean([1, 2])",
        (),
    ),
    "class repr": ("class A:\n    pass\nA()", ()),
    "rich display": (
        "from IPython.display import HTML, Markdown\nHTML('<b>bold</b>')",
        (),
    ),
    "rich object": (
        "class Rich:\n    def _repr_html_(self): return '<i>r</i>'\n"
        "    def _repr_png_(self): return b'\\x89PNG\\r\\n'\nRich()",
        (),
    ),
    "display id": (
        "handle = display('first', display_id='fixed')\nhandle.update('second')",
        (),
    ),
    "clear output": (
        "from IPython.display import clear_output\nprint('gone')\nclear_output()\nprint('left')",
        (),
    ),
    "exception": ("def f(x):\n    return 1 / x\n\nf(0)", ()),
    # On one line: of the first error ipykernel shows the line where the second was raised.
    "chained exception": (
        "class Turn:\n    def __enter__(self): pass\n    def __exit__(self, kind, error, trace):\n"
        "        raise ValueError('no k') from error\n\nwith Turn(): {}['k']",
        (),
    ),
    "exception group": (
        "raise ExceptionGroup('two', [ValueError(1), TypeError(2)])",
        (),
    ),
    "after an exception": ("'still here'", ()),
    "syntax error": ("x = (1,\n  y = 2", ()),
    "indentation error": ("if True:\nx = 1", ()),
    "name error": ("undefined_name", ()),
    "import error": ("import no_such_module_anywhere", ()),
    "exit": ("import sys\nsys.exit(2)", ()),
    "assertion": ("assert 1 == 2, 'not equal'", ()),
    "input": ("name = input('Your name? ')\nprint('Hello', name)\nlen(name)", ("Ada",)),
    "getpass": ("import getpass\nlen(getpass.getpass('Secret: '))", ("pw",)),
    "two inputs": ("input('a') + input('b')", ("1", "2")),
    "await": ("import asyncio\nawait asyncio.sleep(0.01)\n'waited'", ()),
    "gather": (
        "async def double(x):\n    await asyncio.sleep(0.001)\n    return 2 * x\n"
        "await asyncio.gather(*(double(i) for i in range(4)))",
        (),
    ),
    "async for": (
        "async def count():\n    for i in range(3):\n        yield i\n"
        "async for i in count():\n    print(i)",
        (),
    ),
    "exception in await": (
        "async def fails():\n    await asyncio.sleep(0)\n    raise RuntimeError('later')\n"
        "await fails()",
        (),
    ),
    "magic": ("%env HOLDFAST_TUTORIAL=1", ()),
    "environment": ("import os\nos.environ['HOLDFAST_TUTORIAL']", ()),
    "time": ("%time sum(range(10))", ()),
    "cell time": ("%%time\ntotal = sum(range(10))\ntotal", ()),
    "timeit": ("%timeit -n1 -r2 pass", ()),
    "capture": ("%%capture captured\nprint('kept')\ndisplay(1)", ()),
    "captured": ("captured.stdout, len(captured.outputs)", ()),
    "bash": ("%%bash\necho one\necho two >&2\n", ()),
    "failing bash": ("%%bash\nexit 3", ()),
    "shell": ("!echo shell", ()),
    "shell result": ("lines = !printf 'a\\nb\\n'\nlines", ()),
    "shell expansion": ("!echo {name} $name", ()),
    "exit code": ("!exit 3\n_exit_code", ()),
    "who": ("%who_ls function", ()),
    "help": ("mean?", ()),
    "source": ("mean??", ()),
    "unknown magic": ("%no_such_magic", ()),
    "unknown cell magic": ("%%no_such_magic\n1", ()),
    "set next input": ("get_ipython().set_next_input('next')", ()),
    "pprint off": ("%pprint", ()),
    "pprint on": ("%pprint", ()),
    "warnings": ("import warnings\nwarnings.warn('careful')", ()),
    "logging": (
        "import logging\nlogging.getLogger('tutorial').warning('watch out')\n"
        "logging.getLogger('tutorial').info('not shown')",
        (),
    ),
    "thread": (
        "import threading\nthread = threading.Thread(target=print, args=('in a thread',))\n"
        "thread.start(); thread.join()",
        (),
    ),
    "excepthook of a thread": (
        "thread = threading.Thread(target=lambda: 1 / 0, name='fails')\n"
        "thread.start(); thread.join()",
        (),
    ),
    "subprocess": (
        "import subprocess\n"
        "subprocess.run(['echo', 'captured'], capture_output=True, text=True).stdout",
        (),
    ),
    "pandas": (
        "import pandas as pd\nframe = pd.DataFrame({'x': [1, 2], 'y': [3.5, None]})\nframe",
        (),
    ),
    "describe": ("frame.describe()", ()),
    "matplotlib": (
        "%matplotlib inline\nimport matplotlib.pyplot as plt\nfigure, axes = plt.subplots()\n"
        "axes.plot([1, 2, 3])\nplt.show()",
        (),
    ),
    "figure at the end of a cell": ("plt.plot([3, 1, 2]);", ()),
    "format": ("plt.rcParams['figure.figsize']", ()),
    "ipykernel is recognised": (
        "shell = get_ipython()\n(type(shell).__name__, 'IPKernelApp' in shell.config,\n"
        " shell.kernel.shell is shell, __name__, shell.user_module.__name__)",
        (),
    ),
    "comm": (
        "from comm import create_comm\ncomm = create_comm(target_name='t', data={'a': 1},"
        " comm_id='c')\ncomm.send({'b': 2}, buffers=[b'xyz'])\ncomm.close()",
        (),
    ),
    "stdout is no terminal": (
        "sys.stdout.isatty(), sys.stdin is None, sys.stdout.encoding",
        (),
    ),
    "write returns": ("sys.stdout.write('abc\\n')", ()),
    "wrong write": (
        "try:\n    sys.stdout.write(5)\nexcept TypeError as error:\n    print(error)",
        (),
    ),
    "cell of nothing": ("   \n", ()),
    "unicode": ("print('ü → 𝄞')\n'𝄞'", ()),
    "long": ("print('x' * 100_000)", ()),
    "history": ("%history -l 2", ()),
    "recursion": (
        "def deep(n): return deep(n + 1)\ntry:\n    deep(0)\nexcept RecursionError as error:\n"
        "    print(error)",
        (),
    ),
    "doctest mode": ("sorted(x for x in globals() if x.startswith('mean'))", ()),
}


def run(client, code, answers):
    """Run one cell; its outputs in order and its reply, both made comparable."""
    answers = list(answers)
    msg_id = client.execute(code, allow_stdin=True)
    outputs, asked, reply, idle = [], [], None, False
    deadline = time.monotonic() + TIMEOUT
    while reply is None or not idle:
        assert time.monotonic() < deadline, f"no end of {code!r}"
        try:
            message = client.get_stdin_msg(timeout=0)
            if message["msg_type"] == "input_request":
                # Another socket: its order among the outputs isn't defined.
                asked.append(["input_request", "", normal_tree(message["content"])])
                client.input(answers.pop(0))
        except queue.Empty:
            pass
        try:
            message = client.get_shell_msg(timeout=0)
            if message["parent_header"].get("msg_id") == msg_id:
                reply = message["content"]
        except queue.Empty:
            pass
        try:
            message = client.get_iopub_msg(timeout=0.02)
        except queue.Empty:
            continue
        if message["parent_header"].get("msg_id") != msg_id:
            continue
        kind, content = message["msg_type"], message["content"]
        if kind == "status":
            idle = content["execution_state"] == "idle"
        elif kind == "stream" and outputs and outputs[-1][:2] == ["stream", content["name"]]:
            outputs[-1][2] += content["text"]
        elif kind == "stream":
            outputs.append(["stream", content["name"], content["text"]])
        else:
            buffers = [bytes(buffer) for buffer in message["buffers"]]
            outputs.append([kind, normal_tree(content), buffers])
    assert not answers, f"{code!r} asked for less input than expected"
    for output in outputs:
        if output[0] == "stream":
            output[2] = normal(output[2])
    outputs += asked
    reply = {key: value for key, value in reply.items() if key != "engine_info"}
    return outputs, normal_tree(reply)


def run_all(client):
    return {name: run(client, code, answers) for name, (code, answers) in CELLS.items()}


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """What ipykernel gives."""
    manager = KernelManager()
    manager.kernel_spec.argv[:] = [
        sys.executable,
        "-m",
        "ipykernel_launcher",
        "-f",
        "{connection_file}",
    ]
    manager.start_kernel(cwd=str(tmp_path_factory.mktemp("ipykernel")))
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=TIMEOUT)
        yield run_all(client)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def dump(value):
    """One line for each piece, so that a difference is readable."""
    return json.dumps(value, indent=1, default=repr, ensure_ascii=False).splitlines()


@pytest.mark.fresh
@pytest.mark.long
def test_same_outputs_as_ipykernel(kernel, expected):
    got = run_all(kernel.client)
    differences = []
    for name in CELLS:
        for part, ours, theirs in zip(("outputs", "reply"), got[name], expected[name], strict=True):
            lines = difflib.unified_diff(dump(theirs), dump(ours), "ipykernel", "holdfast", n=2)
            difference = "\n".join(list(lines)[:40])
            if difference:
                differences.append(f"{name}, {part}:\n{difference}")
    assert not differences, "\n\n".join(differences)


def test_the_comparison_sees_differences(expected):
    # Normalising must not make everything equal.
    texts = {json.dumps(outputs, default=repr) for outputs, _ in expected.values()}
    assert len(texts) > 50
    assert normal("took 1.5 ms at 0x7f00deadbeef") == "took TIME at 0xADDRESS"
    assert normal("total: 1e+03 ns") == "total: TIME"
    assert normal("3 apples") == "3 apples"
