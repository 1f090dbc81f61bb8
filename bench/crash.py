"""What a crash loses: "Run All" of quick cells, with the main worker killed at random moments.

    python bench/crash.py [--rows plain,recorded] [--kills N] [--milliseconds M] [--seconds S]
                          [--seed I] [--json F]

A run of each row has as many cells as take S seconds, which are sent at once. Each sleeps for M ms,
and appends its number to a list. At a random moment, S seconds after the first reply at most, the
main worker gets a SIGKILL. Then the list has the cells whose changes are left. A cell is lost if its
reply was "ok" and the list doesn't have it; the cell that died isn't counted. `ran` is how many
cells had a reply (median), `lost` the seconds that the lost ones ran, and `over 1 s` how many of the
kills lost more than the rule's second. `named` is how many of the kills that lost anything had an
error or a line that named cells to run again.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
from client import CELL, TIMEOUT_S, Kernel  # noqa: E402

RULE_S = 1.0


ROWS = {"plain": "", "recorded": CELL}


def run_all(
    kernel: Kernel, head: str, arguments: argparse.Namespace, after_s: float
) -> tuple[set[int], str]:
    """Send cells at once and kill the main worker: the cells with a reply "ok", and what was said."""
    cell_s = arguments.milliseconds / 1000
    kernel.run("kept = []")
    _, _ = kernel.run("print(os.getpid())")
    pid = int(kernel.printed)
    time.sleep(0.3)  # a pause: all is protected
    count = int(arguments.seconds / cell_s) + 20
    code = f"{head}kept.append({{}}); time.sleep({cell_s})"
    killer = threading.Timer(after_s, os.kill, (pid, signal.SIGKILL))
    requests = {kernel.client.execute(code.format(i)): i for i in range(count)}
    left, done, said = set(requests), set(), ""
    while left:
        reply = kernel.client.get_shell_msg(timeout=TIMEOUT_S)
        number = requests.get(reply["parent_header"].get("msg_id"))
        left.discard(reply["parent_header"].get("msg_id"))
        if number is not None and reply["content"]["status"] == "ok":
            done.add(number)
            if len(done) == 1:  # what the first cell loads is no part of a run of quick cells
                killer.start()
        said += reply["content"].get("evalue", "")
    killer.join()
    last = kernel.client.execute("pass")  # what was sent to iopub before it is there then
    while True:
        message = kernel.client.get_iopub_msg(timeout=TIMEOUT_S)
        said += message["content"].get("text", "") if message["msg_type"] == "stream" else ""
        is_last = message["parent_header"].get("msg_id") == last
        if is_last and message["content"].get("execution_state") == "idle":
            break
    kernel.client.get_shell_msg(timeout=TIMEOUT_S)
    return done, said


def lose(head: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """The distribution of what the kills lost."""
    draw = random.Random(arguments.seed)
    seconds, named, losses, ran = [], 0, 0, []
    with Kernel("holdfast") as kernel:
        kernel.run("import os, time")
        for _ in range(arguments.kills):
            after_s = draw.uniform(0.05, arguments.seconds)
            done, said = run_all(kernel, head, arguments, after_s)
            kernel.run("import os, time; print(kept if 'kept' in globals() else [])")
            lost = done - set(json.loads(kernel.printed))
            seconds.append(len(lost) * arguments.milliseconds / 1000)
            losses += bool(lost)
            ran.append(len(done))
            named += bool(lost) and "(run In[" in said
    seconds.sort()
    at = [seconds[int(share * (len(seconds) - 1))] for share in (0.5, 0.9, 1)]
    return {
        "kills": len(seconds),
        "ran": sorted(ran)[len(ran) // 2],
        "median": at[0],
        "p90": at[1],
        "most": at[2],
        "over": sum(one > RULE_S for one in seconds),
        "losses": losses,
        "named": named,
        "seconds": seconds,
    }


def main() -> None:
    """Run the program from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", default=",".join(ROWS), help="some, by name")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--milliseconds", type=float, default=10)
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    found = {}
    print("cells      kills  ran  lost: median   90 %    most   over 1 s   lost anything   named")
    for name in arguments.rows.split(","):
        found[name] = row = lose(ROWS[name], arguments)
        print(
            f"{name:10} {row['kills']:5} {row['ran']:4} {row['median']:13.2f} {row['p90']:6.2f} {row['most']:7.2f}"
            f" {row['over']:10} {row['losses']:15} {row['named']:7}",
            flush=True,
        )
    if arguments.json:
        arguments.json.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
