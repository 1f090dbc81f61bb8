"""What encoding and decoding small objects costs, without the store.

    python bench/plain_codec.py [--count N] [--repeat N] [--works x,y] [--json F]

The plain codec beside pickle 5, marshal (which keeps no identity across processes and
knows fewer types) and the floor: the same objects made by the shortest calls of the C
API, from a layout that says nothing of types (bench/plain_floor.c; left out where there
is no compiler). Each work in a process of its own, the systems in turn.

Columns: encode and decode in ms of processor time (the least of the repetitions, for
neighbours only add), bytes of the encoding, and by how much the process's peak memory grew
at the first encoding, beyond the encoding itself.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import json
import marshal
import pickle
import resource
import shlex
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import measure  # noqa: E402
from measure import MIB  # noqa: E402


def _objects(count):
    import numpy as np

    return np.array([f"row {i % 1000}" for i in range(count)], dtype=object)


WORKS = {
    "dict {str: int}": lambda count: {f"key {i}": i for i in range(count)},
    "list of (int, str)": lambda count: [(i, f"item {i}") for i in range(count)],
    "list of float": lambda count: [i / 3 for i in range(count)],
    "list of one str": lambda count: ["a repeated text"] * count,
    "list of [int]": lambda count: [[i] for i in range(count)],
    "set of str": lambda count: {f"element {i}" for i in range(count)},
    "array of str objects": _objects,
}


def floor_module(directory):
    """bench/plain_floor.c, compiled for this interpreter; None without a compiler."""
    source = Path(__file__).with_name("plain_floor.c")
    target = Path(directory, "plain_floor" + sysconfig.get_config_var("EXT_SUFFIX"))
    command = [*shlex.split(sysconfig.get_config_var("CC") or "cc"), "-O2", "-shared", "-fPIC"]
    if sys.platform == "darwin":
        command += ["-undefined", "dynamic_lookup"]
    command += ["-I" + sysconfig.get_path("include"), str(source), "-o", str(target)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    spec = importlib.util.spec_from_file_location("plain_floor", target)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def systems(work, value, directory):
    """Name -> (dumps, loads, size of what dumps gave)."""
    from holdfast import _store

    def size(encoding):
        return len(encoding[2]) + sum(len(view) for view, _ in encoding[3])

    found = {"plain": (_store._encode, lambda encoding: _store._decode(*_parts(encoding)), size)}
    found["pickle 5"] = (lambda value: pickle.dumps(value, 5), pickle.loads, len)
    if not work.startswith("array"):
        found["marshal"] = (marshal.dumps, marshal.loads, len)
    floor = floor_module(directory) if work.startswith(("dict", "list of (")) else None
    if floor is not None:
        count = -len(value) if isinstance(value, dict) else len(value)
        room = sum(len(text) for text in _texts(value)) + 12 * len(value)
        found["floor"] = (
            lambda value: floor.dumps(value, room),
            lambda data: floor.loads(data, count),
            len,
        )
    return found


def _parts(encoding):
    codec, meta, payload, buffers = encoding
    return codec, meta, payload, [view for view, _ in buffers]


def _texts(value):
    return value if isinstance(value, dict) else (text for _, text in value)


def peak_bytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def timed(call, *args):
    start = time.process_time()
    result = call(*args)
    return time.process_time() - start, result


def role_measure(work, count, repeat):
    value = WORKS[work](count)
    gc.collect()
    rows = {}
    with tempfile.TemporaryDirectory() as directory:
        ways = systems(work, value, directory)
        for _ in range(repeat):
            for name, (dumps, loads, size) in ways.items():
                before = peak_bytes()
                encode_s, data = timed(dumps, value)
                grown = peak_bytes() - before - size(data)
                decode_s, back = timed(loads, data)
                row = rows.setdefault(name, {"bytes": size(data), "grown_bytes": max(grown, 0)})
                row["encode_s"] = min(encode_s, row.get("encode_s", encode_s))
                row["decode_s"] = min(decode_s, row.get("decode_s", decode_s))
                del data, back
    print(json.dumps(rows))


def main():
    if sys.argv[1:2] == ["--role"]:
        role_measure(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1_000_000, help="objects in each value")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--works", help="comma-separated beginnings of names")
    parser.add_argument("--json", help="write the results to this file")
    args = parser.parse_args()
    wanted = tuple((args.works or "").split(","))
    record = {"program": "bench/plain_codec", "machine": measure.machine("numpy", "holdfast")}
    record["results"] = []
    print(json.dumps(record["machine"]), end="\n\n")
    for work in filter(lambda name: name.startswith(wanted), WORKS):
        command = [sys.executable, __file__, "--role", work, str(args.count), str(args.repeat)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        rows = json.loads(done.stdout)
        record["results"] += [{"work": work, "system": name, **row} for name, row in rows.items()]
        head = [work, "encode ms", "decode ms", "MiB", "grown MiB"]
        shown = [
            [
                name,
                measure.show_ms(row["encode_s"]),
                measure.show_ms(row["decode_s"]),
                measure.show_mib(row["bytes"]),
                f"{row['grown_bytes'] / MIB:.0f}" if name == "plain" else "",
            ]
            for name, row in rows.items()
        ]
        print(measure.table(head, shown), end="\n\n", flush=True)
    measure.write_json(args.json, record)


if __name__ == "__main__":
    main()
