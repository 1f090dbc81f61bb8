"""What an instrumented cell costs, as the client sees it.

    python bench/cell.py [--sizes 8MiB,1GiB] [--repeat N] [--memory] [--json F]

Starts the kernels, makes one NumPy array of each size in them, and times cells that touch
one element, from the execute_request to the idle status: a plain cell in ipykernel, a
plain cell in Holdfast, and an instrumented cell in Holdfast with the standby warm. `added`
is the instrumented cell minus ipykernel's plain cell. Then, with the array in place, the
memory of all of the kernel's processes together, as a ratio to the array.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from jupyter_client.manager import KernelManager

sys.path.insert(0, str(Path(__file__).resolve().parent))
import measure  # noqa: E402
from measure import GIB, MIB  # noqa: E402

TIMEOUT_S = 300
UNITS = {"GiB": GIB, "MiB": MIB}


class Kernel:
    def __init__(self, name):
        self.directory = tempfile.TemporaryDirectory()  # traces go here
        self.manager = KernelManager(kernel_name=name)
        self.manager.start_kernel(cwd=self.directory.name)
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=TIMEOUT_S)

    def run(self, code):
        """Seconds from request to idle, and the metadata of the reply."""
        start = time.perf_counter()
        request = self.client.execute(code)
        while True:
            message = self.client.get_iopub_msg(timeout=TIMEOUT_S)
            if message["parent_header"].get("msg_id") != request:
                continue
            if message["msg_type"] == "error":
                raise RuntimeError("\n".join(message["content"]["traceback"]))
            if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                break
        seconds = time.perf_counter() - start
        while True:
            reply = self.client.get_shell_msg(timeout=TIMEOUT_S)
            if reply["parent_header"].get("msg_id") == request:
                return seconds, reply["metadata"]

    def pids(self):
        return measure.descendants(self.manager.provisioner.process.pid)

    def end(self):
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=False)
        self.directory.cleanup()


def parse_size(text):
    for unit, factor in UNITS.items():
        if text.endswith(unit):
            return int(text[: -len(unit)]) * factor
    raise argparse.ArgumentTypeError(f"{text}: write 8MiB or 1GiB")


def time_cells(kernel, code, repeat, pause_s):
    times, last = [], {}
    for _ in range(repeat):
        time.sleep(pause_s)
        seconds, metadata = kernel.run(code)
        times.append(seconds)
        last = metadata.get("holdfast", {})
    return times, last


def measure_size(kernel_name, size, repeat, pause_s):
    make = f"import numpy as np\nx = np.ones({size // 8})"
    read = "x[len(x) // 2]"
    write = "x[len(x) // 2] += 1"
    result = {"size_bytes": size, "repeat": repeat}
    peer = Kernel("python3")
    try:
        peer.run(make)
        result["ipykernel_s"] = measure.median(time_cells(peer, write, repeat, 0.05)[0])
    finally:
        peer.end()
    shmem = measure.shmem_bytes()
    ours = Kernel(kernel_name)
    try:
        ours.run("import numpy as np")
        ours.run("%%execute_with_scorep\npass")
        time.sleep(2)  # the next standby has NumPy by then
        memory = measure.PeakMemory(ours.pids, shmem)
        empty = memory.sample()
        ours.run(make)
        result["plain_s"] = measure.median(time_cells(ours, write, repeat, 0.05)[0])
        magic = "%%execute_with_scorep\n"
        times, _ = time_cells(ours, magic + read, repeat, pause_s)
        result["read_first_s"], result["read_s"] = times[0], measure.median(times)
        times, last = time_cells(ours, magic + write, repeat, pause_s)
        result["write_s"], result["write_max_s"] = measure.median(times), max(times)
        result["last"] = last
        time.sleep(2)
        full = memory.sample()
        result["memory_ratio"] = (full - empty) / size
        result["memory_whole_ratio"] = full / size
    finally:
        ours.end()
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="8MiB,64MiB,256MiB,1GiB,4GiB")
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--kernel", default="holdfast", help="name of the kernelspec")
    parser.add_argument("--pause", type=float, default=0.5, help="s between cells")
    parser.add_argument("--json", help="write the results to this file")
    args = parser.parse_args()
    record = {
        "program": "bench/cell",
        "machine": measure.machine("numpy", "ipykernel", "jupyter_client", "holdfast"),
    }
    print(json.dumps(record["machine"]), end="\n\n")
    record["results"] = results = []
    for text in args.sizes.split(","):
        results.append(measure_size(args.kernel, parse_size(text), args.repeat, args.pause))
        print(f"measured: {text}", file=sys.stderr)
    head = [
        "one element of",
        "ipykernel ms",
        "plain ms",
        "first read ms",
        "read ms",
        "write ms",
        "added ms",
        "memory / array",
    ]
    rows = [
        [
            f"{measure.show_mib(r['size_bytes'])} MiB",
            measure.show_ms(r["ipykernel_s"]),
            measure.show_ms(r["plain_s"]),
            measure.show_ms(r["read_first_s"]),
            measure.show_ms(r["read_s"]),
            measure.show_ms(r["write_s"]),
            measure.show_ms(r["write_s"] - r["ipykernel_s"]),
            f"{r['memory_ratio']:.3f}",
        ]
        for r in results
    ]
    print(measure.table(head, rows))
    measure.write_json(args.json, record)


if __name__ == "__main__":
    main()
