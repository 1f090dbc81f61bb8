"""Notebooks in ipykernel and in Holdfast, mode by mode: which cells put out something else.

    python bench/oracle.py [NAME|FILE.ipynb ...] [--all] [--listed] [--generate N --seed S]
                           [--modes plain,clean,...] [--mode NAME=HEADS]
                           [--jobs N] [--report FILE] [--relist] [--check]

A NAME is a notebook of tests/oracle/notebooks/, or the beginning of some names. --all takes all of
them, --listed those with known differences. An .ipynb file is taken as it is, and its cells run
beside it. --generate makes random notebooks. Each notebook runs once in ipykernel and once in each
mode, always in a new kernel.

Differences that tests/oracle/differences.txt lists are counted, others are shown. The exit status is
1 if there is one, or if a listed one has vanished. --relist writes that list anew for the notebooks
and modes that ran: vanished entries are removed, and new ones are marked "new" and need a reason.

--mode adds a way to run cells that the table (tests/support/differential/modes.py) hasn't, for
example --mode 'mine=%%isolated --run=isolated;HOLDFAST_X=1' or --mode 'turns=plain;%%isolated'. --check
runs each notebook in ipykernel twice, and reports those whose output isn't the same.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))
from differential import inventions, kernels, known, modes, notebooks  # noqa: E402
from differential.examine import Outcome, examine  # noqa: E402

FOLDER = ROOT / "tests" / "oracle"


def choose(options: argparse.Namespace, entries: list[known.Known]) -> list[notebooks.Notebook]:
    """The notebooks that the command line names."""
    of_folder = notebooks.read_folder(FOLDER / "notebooks")
    listed = {entry.notebook for entry in entries}
    chosen = [one for one in of_folder if options.all or options.listed and one.name in listed]
    for name in options.names:
        if name.endswith(".ipynb"):
            found = [notebooks.read_ipynb(Path(name))]
        else:
            found = [one for one in of_folder if one.name.startswith(name)]
        if not found:
            raise SystemExit(f"there is no notebook {name}")
        chosen = chosen + [one for one in found if one not in chosen]
    return chosen


def choose_modes(options: argparse.Namespace) -> list[modes.Mode]:
    """The modes that the command line names, those of --mode among them."""
    if options.modes is not None:
        named = [modes.MODES[name] for name in options.modes.split(",") if name]
    elif options.mode:
        named = []
    else:
        is_random = bool(options.generate)
        named = [mode for mode in modes.MODES.values() if is_random or not mode.at_random]
    return named + options.mode


def show(outcome: Outcome, is_long: bool) -> str:
    """A line for a notebook, and its unlisted differences."""
    if outcome.skipped:
        return f"{outcome.notebook.name}: skipped, {outcome.skipped}"
    different = [mode for mode, cells in outcome.differing.items() if cells]
    text = (
        f"{outcome.notebook.name}: {'differs in ' + ' '.join(different) if different else 'equal'}"
    )
    for mode, trouble in outcome.troubles.items():
        text += f"\n    {mode}: not as listed"
        if is_long:
            text += "\n" + "\n".join("        " + line for line in trouble.splitlines())
    return text


def summary(outcomes: list[Outcome], chosen: list[modes.Mode]) -> str:
    """For each mode how many notebooks differ and which."""
    lines = [f"{len(outcomes)} notebooks"]
    for mode in chosen:
        names = [one.notebook.name for one in outcomes if one.differing.get(mode.name)]
        not_listed = sum(mode.name in one.troubles for one in outcomes)
        lines.append(f"{mode.name}: {len(names)} differ, {not_listed} not as listed")
        lines.append("    " + " ".join(names))
    return "\n".join(lines)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--listed", action="store_true", help="those of the list of differences")
    parser.add_argument("--modes", help="default: all, and mixed for random notebooks")
    parser.add_argument("--mode", action="append", default=[], type=modes.parse)
    parser.add_argument("--generate", type=int, default=0, metavar="N")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=120, help="seconds for a cell")
    parser.add_argument("--relist", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--brief", action="store_true", help="no diffs")
    parser.add_argument("--report", type=Path, help="write the summary and all diffs to a file")
    return parser.parse_args()


def report(outcomes: list[Outcome], chosen: list[modes.Mode]) -> str:
    """All differences, listed or not."""
    lines = [summary(outcomes, chosen), ""]
    for outcome in outcomes:
        for mode, cells in outcome.differing.items():
            for number, diff in cells.items():
                lines += [f"=== {outcome.notebook.name}, {mode}, cell {number}", diff, ""]
    return "\n".join(lines)


def relist(entries: list[known.Known], outcomes: list[Outcome]) -> None:
    """Write the list of differences as this run found them."""
    of_folder = {notebook.name for notebook in notebooks.read_folder(FOLDER / "notebooks")}
    ran = [one for one in outcomes if one.notebook.name in of_folder and not one.skipped]
    kept = [entry for entry in entries if entry.notebook not in {one.notebook.name for one in ran}]
    for outcome in ran:
        kept += known.revised(entries, outcome.notebook.name, outcome.differing)
    known.write(FOLDER / "differences.txt", kept)


def run(options, wanted, chosen, entries) -> list[Outcome]:
    """Run the notebooks, some at a time. After an interrupt those that are done are the outcome."""
    outcomes: list[Outcome] = []
    with (
        contextlib.closing(kernels.Reference()) as reference,
        concurrent.futures.ThreadPoolExecutor(options.jobs) as pool,
    ):
        tasks = [
            pool.submit(examine, one, chosen, entries, reference, options.timeout, options.check)
            for one in wanted
        ]
        try:
            for task in concurrent.futures.as_completed(tasks):
                outcomes.append(task.result())
                if outcomes[-1].troubles or not options.brief:
                    print(show(outcomes[-1], not options.brief), flush=True)
        except KeyboardInterrupt:
            pool.shutdown(cancel_futures=True)
    names = [notebook.name for notebook in wanted]
    return sorted(outcomes, key=lambda outcome: names.index(outcome.notebook.name))


def main() -> None:
    options = arguments()
    chosen = choose_modes(options)
    entries = known.read(FOLDER / "differences.txt")
    wanted = choose(options, entries)
    wanted += [inventions.notebook(options.seed + n) for n in range(options.generate)]
    if not wanted:
        raise SystemExit("which notebooks? --all, --listed, --generate N, names, .ipynb files")
    outcomes = run(options, wanted, chosen, entries)
    print(summary(outcomes, chosen))
    if options.relist:
        relist(entries, outcomes)
    if options.report:
        options.report.write_text(report(outcomes, chosen) + "\n", encoding="utf-8")
    raise SystemExit(any(outcome.troubles for outcome in outcomes))


if __name__ == "__main__":
    main()
