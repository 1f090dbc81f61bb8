"""Save a namespace in one process, restore it in a new one, touch one element.

    python bench/handover.py [--systems a,b] [--works x,y] [--repeat N] [--quick] [--json F]

Every way that a user could choose to carry a notebook's variables, over the same values,
in one run. Two processes for each measurement, both started and with their imports done
before the clock runs: the one that has the namespace saves it and stays alive, as a
notebook does; the other restores it and reads and writes one element (where a way gives
read-only data, reads it). What peers write goes to /dev/shm, so that no disk slows them.
A way whose package isn't installed is named and left out.

Columns: save and restore in ms (medians), and how much of the restore was the touch, in which
a new process also pays for what the library does at its first use; bytes that went through a copy on the way
(Holdfast: as its commit counts them; peers: bytes written and read), and the peak of
the memory of both processes together with everything in /dev/shm.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import measure  # noqa: E402
from measure import GIB, MIB  # noqa: E402
from systems import SYSTEMS  # noqa: E402

# ---- values: name -> (make, touch) ------------------------------------------------


def _array(size):
    def make():
        import numpy as np

        return {"x": np.ones(size // 8)}

    return make


def _touch_array(names):
    names["x"][len(names["x"]) // 2] += 1


def _tensor():
    import torch

    return {"x": torch.ones(256 * MIB // 4)}


def _tensor_of_tensorflow():
    import tensorflow as tf

    return {"x": tf.ones(256 * MIB // 4)}


def _array_of_jax():
    import jax.numpy as jnp

    return {"x": jnp.ones(256 * MIB // 4).block_until_ready()}


def _column_of_polars():
    import numpy as np
    import polars as pl

    return {"x": pl.Series("u", np.ones(256 * MIB // 8))}


def _read_one(names):
    """Of what can't be written."""
    assert names["x"][len(names["x"]) // 2] == 1


def _frame():
    import numpy as np
    import pandas as pd

    rows = 1_000_000
    rng = np.random.default_rng(1)
    columns = {f"f{i}": rng.random(rows) for i in range(8)}
    columns["i"] = np.arange(rows)
    # As a Series of this dtype: pandas 3 makes texts of an array Arrow's.
    columns["s"] = pd.Series([f"row {i % 1000}" for i in range(rows)], dtype=object)
    return {"x": pd.DataFrame(columns)}


def _touch_frame(names):
    names["x"].iat[500_000, 0] = 1.0


def _arrow_frame():
    frame = _frame()["x"]
    return {"x": frame.astype({"s": "string"}).convert_dtypes(dtype_backend="pyarrow")}


def _polars_frame():
    import polars as pl

    columns = {name: series.to_numpy() for name, series in _frame()["x"].items()}
    return {"x": pl.DataFrame(columns | {"s": columns["s"].tolist()})}


def _read_arrow_frame(names):
    """Arrow's data can't be written: pandas would make the column anew, 8 MB of new memory."""
    assert 0 <= names["x"].iat[500_000, 0] < 1


def _touch_polars(names):
    names["x"][500_000, 0] = 1.0


def _dict():
    return {"x": {f"key {i}": i for i in range(1_000_000)}}


def _touch_dict(names):
    names["x"]["key 500000"] += 1


def _list():
    return {"x": [(i, f"item {i}") for i in range(1_000_000)]}


def _touch_list(names):
    names["x"][500_000] = (0, "")


def _thousand():
    makers = [
        lambda i: i,
        lambda i: i / 3,
        lambda i: f"value {i}",
        lambda i: [i, i + 1],
        lambda i: {"i": i},
        lambda i: (i, str(i)),
        lambda i: None,
        lambda i: bytes([i % 256]) * 20,
    ]
    return {f"v{i}": makers[i % len(makers)](i) for i in range(1000)}


def _touch_thousand(names):
    names["v3"][0] += 1


WORKS = {
    "array 8 MiB": (_array(8 * MIB), _touch_array),
    "array 64 MiB": (_array(64 * MIB), _touch_array),
    "array 256 MiB": (_array(256 * MIB), _touch_array),
    "array 1 GiB": (_array(GIB), _touch_array),
    "array 4 GiB": (_array(4 * GIB), _touch_array),
    "torch 256 MiB": (_tensor, _touch_array),
    "TensorFlow 256 MiB": (_tensor_of_tensorflow, _read_one),
    "JAX 256 MiB": (_array_of_jax, _read_one),
    "Polars 256 MiB": (_column_of_polars, _read_one),
    "DataFrame 1e6 x 10": (_frame, _touch_frame),
    "Arrow 1e6 x 10": (_arrow_frame, _read_arrow_frame),
    "Polars 1e6 x 10": (_polars_frame, _touch_polars),
    "dict of 1e6": (_dict, _touch_dict),
    "list of 1e6": (_list, _touch_list),
    "1000 small": (_thousand, _touch_thousand),
}
# By the first word of a work: what a notebook that has it has imported.
_IMPORTS = {
    "array": ["numpy"],
    "DataFrame": ["pandas"],
    # pandas imports the last one with its first column of Arrow's, so the process that made it has it.
    "Arrow": ["pandas", "pyarrow", "pyarrow.pandas_compat", "pyarrow.vendored.version"],
    "Polars": ["polars", "pyarrow"],
    "torch": ["torch"],
    "TensorFlow": ["tensorflow"],
    "JAX": ["jax", "jax.numpy"],
}


def _import_for(work):
    for module in _IMPORTS.get(work.partition(" ")[0], ()):
        __import__(module)


QUICK = ["array 8 MiB", "1000 small"]

# ---- the two processes ----------------------------------------------------------------


def _report(record):
    print(json.dumps(record), flush=True)


def _await_line():
    line = sys.stdin.readline()
    if not line:
        raise SystemExit(0)
    return line.strip()


def role_save(system, work, place):
    make, _ = WORKS[work]
    way = SYSTEMS[system]()
    _import_for(work)
    try:
        way.prepare_save(place)
    except ImportError as error:
        _report({"missing": str(error)})
        return None
    names = make()
    way.warm(names)
    _report({"ready": True})
    _await_line()
    start = time.perf_counter()
    copied = way.save(names, place)
    _report({"seconds": time.perf_counter() - start, "copied": copied})
    _await_line()
    way.finish()
    return way, names


def role_restore(system, work, place):
    make, touch = WORKS[work]
    way = SYSTEMS[system]()
    way.make = make
    _await_line()  # the imports that a warm standby has done; the place exists by now
    _import_for(work)
    way.prepare_restore(place)
    gc.collect()  # of what the imports made, as a standby's fork server does
    gc.freeze()
    _report({"ready": True})
    _await_line()
    start = time.perf_counter()
    names, copied = way.restore(place)
    restored = time.perf_counter()
    if names is not None:
        try:
            touch(names)
        except ValueError:  # it has read the element, and may not write it
            if not way.read_only:
                raise
    end = time.perf_counter()
    _report({"seconds": end - start, "touch": end - restored, "copied": copied})
    _await_line()
    return way, names


class Child:
    def __init__(self, role, system, work, place):
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--role", role, system, work, place],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"a process of the measurement ended: {self.process.wait()}")
        return json.loads(line)

    def go(self):
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def end(self):
        try:
            self.process.stdin.write("end\n")
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        if self.process.wait(timeout=120) != 0:
            raise RuntimeError("a process of the measurement failed at its end")


def once(system, work, directory):
    place = os.path.join(directory, "state")
    shmem = measure.shmem_bytes()
    saver = Child("save", system, work, place)
    restorer = Child("restore", system, work, place)
    try:
        missing = saver.read().get("missing")
        if missing:
            raise ImportError(missing)
        pids = (saver.process.pid, restorer.process.pid)
        with measure.PeakMemory(lambda: pids, shmem) as memory:
            saver.go()
            saved = saver.read()
            restorer.go()
            restorer.read()
            restorer.go()
            restored = restorer.read()
        restorer.end()
        saver.end()
    finally:
        for child in (saver, restorer):
            child.process.kill()
            child.process.wait()
        for path in Path(directory).iterdir():
            path.unlink()
    return {
        "save_s": saved["seconds"],
        "restore_s": restored["seconds"],
        "touch_s": restored["touch"],
        "copied_bytes": (saved["copied"] or 0) + (restored["copied"] or 0),
        "peak_bytes": memory.peak,
    }


def run(systems, works, repeat):
    results = []
    for work in works:
        rows = []
        for system in systems:
            if not work.startswith(SYSTEMS[system]().works or ""):
                continue
            with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
                try:
                    runs = [once(system, work, directory) for _ in range(repeat)]
                except ImportError as error:
                    print(f"{system}: not here ({error})", file=sys.stderr)
                    continue
                except RuntimeError as error:
                    print(f"{system}, {work}: {error}", file=sys.stderr)
                    results.append({"system": system, "work": work, "error": str(error)})
                    continue
            result = {"system": system, "work": work, "repeat": repeat}
            for key in runs[0]:
                result[key] = measure.median(run[key] for run in runs)
            if system in ("limit: memcpy", "limit: pwrite, fresh"):
                result["restore_s"] = result["touch_s"] = None
            if system in ("limit: map and touch", "limit: touch, born there"):
                result["save_s"] = result["copied_bytes"] = None
            results.append(result)
            rows.append(
                [
                    system,
                    measure.show_ms(result["save_s"]),
                    measure.show_ms(result["restore_s"]),
                    measure.show_ms(result["touch_s"]),
                    measure.show_mib(result["copied_bytes"]),
                    measure.show_mib(result["peak_bytes"]),
                ]
            )
        head = [work, "save ms", "restore+touch ms", "of it touch", "copied MiB", "peak MiB"]
        print(measure.table(head, rows), end="\n\n", flush=True)
    return results


def begin_with(names, wanted):
    """Those of `names` that begin with a word of the comma-separated `wanted`."""
    if not wanted:
        return list(names)
    words = [word.strip() for word in wanted.split(",")]
    return [name for name in names if name.startswith(tuple(words))]


def main():
    if sys.argv[1:2] == ["--role"]:
        role = {"save": role_save, "restore": role_restore}[sys.argv[2]]
        kept = role(*sys.argv[3:6])  # noqa: F841 - peers' objects export memory that
        os._exit(0)  # they would complain about at an ordinary end
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--systems", help="comma-separated beginnings of names")
    parser.add_argument("--works", help="comma-separated beginnings of names")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="small values, once each")
    parser.add_argument("--json", help="write the results to this file")
    args = parser.parse_args()
    systems = begin_with(SYSTEMS, args.systems)
    works = begin_with(WORKS, args.works)
    if args.quick and not args.works:
        works = QUICK
    if not systems or not works:
        parser.error("no such system or work")
    record = {
        "program": "bench/handover",
        "machine": measure.machine("numpy", "pandas", "dill", "cloudpickle", "joblib", "holdfast"),
    }
    print(json.dumps(record["machine"]), end="\n\n")
    record["results"] = run(systems, works, 1 if args.quick else args.repeat)
    measure.write_json(args.json, record)
    if any("error" in result for result in record["results"]):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
