"""Whatever one function of a module sets and another one reads is carried, or a message names it.

The pairs are derived from the names in the standard library, NumPy, pandas, PyTorch and Arrow: a pair that a new
version adds fails here until it has a line. A line is a statement that sets something and an expression that shows
it, or the reason why there is nothing to carry.
"""

import contextlib
import importlib
import io
import itertools
import sys
import warnings

import effort
import pytest

LIBRARIES = [
    "numpy", "numpy.random", "pandas", "torch", "torch.autograd", "torch.hub", "torch.multiprocessing",
    "torch.random", "torch.serialization", "pyarrow",
]  # fmt: skip
NOT_IMPORTED = {
    "antigravity",
    "this",
    "idlelib",
    "turtledemo",
    "lib2to3",
    "test",
    "tkinter",
    "turtle",
}
GETTERS = ("get_{}", "get{}", "is_{}", "is_{}_enabled", "are_{}_enabled", "{}", "{}_enabled")

AN_OBJECT = "it sets something of an object, which is carried as such"
IDENTITY = "users, groups and sessions of the process, which a fork has as well"
TERMINAL = "a terminal's, which a worker hasn't"
SAME = "another name of one that has a line"
PAIRS = {
    "asyncio.set_child_watcher": "what waits for children, which stay in their process",
    "asyncio.set_event_loop": "the loop is the worker's own",
    "asyncio.set_event_loop_policy": (
        "class Mine(asyncio.DefaultEventLoopPolicy): pass\nasyncio.set_event_loop_policy(Mine())",
        "type(asyncio.get_event_loop_policy()).__name__",
    ),
    "builtins.setattr": AN_OBJECT,
    "calendar.setfirstweekday": ("calendar.setfirstweekday(6)", "calendar.firstweekday() + 0"),
    "ctypes.set_errno": ("_ = ctypes.set_errno(7)", "ctypes.get_errno()"),
    "decimal.setcontext": (
        "decimal.setcontext(decimal.Context(prec=5))", "decimal.getcontext().prec",
    ),
    "gc.set_debug": ("gc.set_debug(gc.DEBUG_SAVEALL); gc.set_debug(0)", "gc.get_debug()"),
    "gc.set_threshold": ("gc.set_threshold(900, 11, 12)", "gc.get_threshold()"),
    "locale.setlocale": (
        "_ = locale.setlocale(locale.LC_ALL, 'C.UTF-8')", "locale.setlocale(locale.LC_ALL)",
    ),
    "logging.setLogRecordFactory": (
        "class Record(logging.LogRecord): pass\nlogging.setLogRecordFactory(Record)",
        "logging.getLogRecordFactory() is Record",
    ),
    "logging.setLoggerClass": (
        "class Logger(logging.Logger): pass\nlogging.setLoggerClass(Logger)",
        "logging.getLoggerClass() is Logger",
    ),
    "multiprocessing.set_start_method": (
        "multiprocessing.set_start_method('spawn', force=True)", "multiprocessing.get_start_method()",
    ),
    "operator.setitem": AN_OBJECT,
    "os.set_blocking": AN_OBJECT,
    "os.set_inheritable": AN_OBJECT,
    "os.setpriority": (
        "os.setpriority(os.PRIO_PROCESS, 0, 3)", "os.getpriority(os.PRIO_PROCESS, 0)",
    ),
    "os.setxattr": AN_OBJECT,
    "random.setstate": ("random.setstate(random.Random(5).getstate())", "hash(random.getstate())"),
    "resource.setrlimit": (
        "resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))",
        "resource.getrlimit(resource.RLIMIT_CORE)[0]",
    ),
    "signal.setitimer": (
        "_ = signal.setitimer(signal.ITIMER_PROF, 5000, 5000)",
        "signal.getitimer(signal.ITIMER_PROF)[1]",
    ),
    "socket.setdefaulttimeout": ("socket.setdefaulttimeout(9.5)", "socket.getdefaulttimeout()"),
    "socket.sethostname": "the machine's",
    "sys.set_asyncgen_hooks": (
        "sys.set_asyncgen_hooks(None, None)", "tuple(sys.get_asyncgen_hooks())",
    ),
    "sys.set_coroutine_origin_tracking_depth": (
        "sys.set_coroutine_origin_tracking_depth(2)", "sys.get_coroutine_origin_tracking_depth()",
    ),
    "sys.set_int_max_str_digits": (
        "sys.set_int_max_str_digits(9000)", "sys.get_int_max_str_digits()",
    ),
    "sys.setdlopenflags": ("sys.setdlopenflags(0x102)", "sys.getdlopenflags()"),
    "sys.setprofile": (
        "def follow(*args): pass\nsys.setprofile(follow)", "sys.getprofile() is not None",
    ),
    "sys.setrecursionlimit": ("sys.setrecursionlimit(2500)", "sys.getrecursionlimit()"),
    "sys.setswitchinterval": ("sys.setswitchinterval(0.006)", "sys.getswitchinterval()"),
    "sys.settrace": (
        "def follow(*args): pass\nsys.settrace(follow)", "sys.gettrace() is not None",
    ),
    "threading.setprofile": (
        "def follow(*args): pass\nthreading.setprofile(follow)", "threading.getprofile() is not None",
    ),
    "threading.settrace": (
        "def follow(*args): pass\nthreading.settrace(follow)", "threading.gettrace() is not None",
    ),
    "numpy.set_printoptions": (
        "numpy.set_printoptions(precision=3)", "numpy.get_printoptions()['precision']",
    ),
    "numpy.setbufsize": ("_ = numpy.setbufsize(4096)", "numpy.getbufsize()"),
    "numpy.seterr": ("_ = numpy.seterr(over='raise')", "numpy.geterr()['over']"),
    "numpy.seterrcall": ("_ = numpy.seterrcall(print)", "numpy.geterrcall() is print"),
    "numpy.random.set_bit_generator": (
        "numpy.random.set_bit_generator(numpy.random.PCG64(1))",
        "type(numpy.random.get_bit_generator()).__name__",
    ),
    "numpy.random.set_state": (
        "numpy.random.set_bit_generator(numpy.random.MT19937())\n"
        "numpy.random.set_state(numpy.random.RandomState(4).get_state())",
        "int(numpy.random.get_state()[1][5])",
    ),
    "pandas.set_option": (
        "pandas.set_option('display.max_rows', 7)", "pandas.get_option('display.max_rows')",
    ),
    "torch.set_anomaly_enabled": (
        "torch.set_anomaly_enabled(True)", "torch.is_anomaly_enabled()",
    ),
    "torch.set_autocast_cache_enabled": (
        "torch.set_autocast_cache_enabled(False)", "torch.is_autocast_cache_enabled()",
    ),
    "torch.set_autocast_dtype": (
        "torch.set_autocast_dtype('cpu', torch.float16)", "torch.get_autocast_dtype('cpu')",
    ),
    "torch.set_autocast_enabled": (
        "torch.set_autocast_enabled('cpu', True)", "torch.is_autocast_enabled('cpu')",
    ),
    "torch.set_default_device": (
        "torch.set_default_device('meta')", "torch.get_default_device()",
    ),
    "torch.set_default_dtype": (
        "torch.set_default_dtype(torch.float64)", "torch.get_default_dtype()",
    ),
    "torch.set_deterministic_debug_mode": (
        "torch.set_deterministic_debug_mode('warn')", "torch.get_deterministic_debug_mode()",
    ),
    "torch.set_float32_matmul_precision": (
        "torch.set_float32_matmul_precision('high')", "torch.get_float32_matmul_precision()",
    ),
    "torch.set_num_interop_threads": (
        "torch.set_num_interop_threads(3)", "torch.get_num_interop_threads()",
    ),
    "torch.set_num_threads": ("torch.set_num_threads(3)", "torch.get_num_threads()"),
    "torch.set_rng_state": (
        "torch.set_rng_state(torch.Generator().manual_seed(3).get_state())",
        "torch.get_rng_state().tolist()[:16]",
    ),
    "torch.set_warn_always": ("torch.set_warn_always(True)", "torch.is_warn_always_enabled()"),
    "torch.hub.set_dir": ("torch.hub.set_dir('/nowhere')", "torch.hub.get_dir()"),
    "torch.multiprocessing.set_sharing_strategy": (
        "torch.multiprocessing.set_sharing_strategy('file_system')",
        "torch.multiprocessing.get_sharing_strategy()",
    ),
    "torch.multiprocessing.set_start_method": SAME,
    "torch.serialization.set_crc32_options": (
        "torch.serialization.set_crc32_options(False)", "torch.serialization.get_crc32_options()",
    ),
    "torch.serialization.set_default_load_endianness": (
        "torch.serialization.set_default_load_endianness(torch.serialization.LoadEndianness.BIG)",
        "torch.serialization.get_default_load_endianness().name",
    ),
    "torch.random.set_rng_state": SAME,
    "pyarrow.set_cpu_count": ("pyarrow.set_cpu_count(3)", "pyarrow.cpu_count()"),
    "pyarrow.set_io_thread_count": ("pyarrow.set_io_thread_count(5)", "pyarrow.io_thread_count()"),
}  # fmt: skip
for _name in "egid euid gid groups pgid pgrp resgid resuid sid uid".split():
    PAIRS[f"os.set{_name}"] = IDENTITY
for _name in "curses.set_escdelay curses.set_tabsize curses.setsyx".split():
    PAIRS[_name] = TERMINAL
for _name in "completer completer_delims history_length".split():
    PAIRS[f"readline.set_{_name}"] = TERMINAL
for _kind in "cpu gpu ipu xla".split():  # older names; of the others no tensor is made here
    for _what in "dtype enabled".split():
        PAIRS[f"torch.set_autocast_{_kind}_{_what}"] = SAME


def derived():
    """Each function that sets something which another one of its module reads."""
    names = sorted(name for name in sys.stdlib_module_names - NOT_IMPORTED if name[0] != "_")
    for name in [*names, *LIBRARIES]:
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                module = importlib.import_module(name)
            except ImportError:  # of another system, or not installed
                continue
        for setter in filter(lambda one: one.startswith("set"), vars(module)):
            stem = setter.removeprefix("set").removeprefix("_")
            getters = {form.format(stem) for form in GETTERS} if stem else ()
            if any(map(callable, _functions(module, getters))) and _functions(module, [setter]):
                yield f"{name}.{setter}"


def _functions(module, names):
    found = [getattr(module, name, None) for name in names]
    return [one for one in found if callable(one) and not isinstance(one, type)]


def test_each_pair_has_a_line():
    found = {name for name in derived() if not name.startswith("posix.")}
    assert len(found) > 40
    assert found - PAIRS.keys() == set()


NAMED = ("couldn't be carried over", "not carried", "in this cell's process alone")


@pytest.mark.parametrize(
    ("way", "library"),
    effort.sample(
        itertools.product(["isolated", "forked"], ["", "numpy", "pandas", "torch", "pyarrow"]), 2
    ),
)
def test_each_is_carried_or_named(start_kernel, way, library):
    """Set in the notebook's process and read in a clean one; or set in a fork, and read in the notebook's."""
    if library:
        pytest.importorskip(library)
    lines = {
        name: line
        for name, line in PAIRS.items()
        if not isinstance(line, str)
        and (name.partition(".")[0] if name.partition(".")[0] in LIBRARIES else "") == library
    }
    kernel = start_kernel(env={"HOLDFAST_RUN": way})
    modules = sorted({name.rpartition(".")[0] for name in lines})
    assert kernel.run("import " + ", ".join(modules)).status == "ok"
    head = "%%execute_with_scorep\n"
    setting, reading = ("", head) if way == "isolated" else (head, "")
    silent = []
    for name, (code, expression) in lines.items():
        first = kernel.run(f"{setting}{code}\n{expression}")
        assert first.status == "ok", (name, first.content)
        second = kernel.run(f"{reading}{expression}")
        said = first.stream("stderr") + second.stream("stderr")
        if second.result != first.result and not any(text in said for text in NAMED):
            silent.append((name, first.result, second.result, second.content))
        if "follow" in code:
            kernel.run(f"{name}(None)")
    assert not silent
