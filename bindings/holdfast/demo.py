"""The command ``holdfast demo``: a notebook that shows Holdfast in a minute.

It is written into the current directory, beside what is there already, and needs nothing but this
package. ``--run`` runs it as well, as ``python -m holdfast.report`` does.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from pathlib import Path

from holdfast.base import program

__all__ = ["main", "write"]

_NOTEBOOK = Path(__file__).with_name("demo.ipynb")


def write(directory: Path) -> Path:
    """Write the notebook under a name that is free.

    Parameters
    ----------
    directory : pathlib.Path
        Where to.

    Returns
    -------
    pathlib.Path
        The new file: holdfast-demo.ipynb, or holdfast-demo-2.ipynb and so on.

    Raises
    ------
    OSError
        It can't be written.
    """
    content = _NOTEBOOK.read_bytes()
    for number in itertools.count(1):
        path = directory / ("holdfast-demo" + (f"-{number}" if number > 1 else "") + ".ipynb")
        try:
            with open(path, "xb") as file:
                file.write(content)
        except FileExistsError:
            continue
        return path
    raise AssertionError("itertools.count ended")


def main(argv: list[str] | None = None) -> int:
    """Run the command.

    Parameters
    ----------
    argv : list of str, optional
        The arguments. If they are left out: those of the process.

    Returns
    -------
    int
        The exit status: 1 if the notebook can't be written, or a cell failed.
    """
    parser = argparse.ArgumentParser(
        prog="holdfast demo",
        description="Write a notebook that shows Holdfast in a minute.",
    )
    parser.add_argument(
        "--run", action="store_true", help="run it, too, and show the cost of each cell"
    )
    parser.add_argument(
        "--kernel", default="holdfast", help="the kernel for --run; default: %(default)s"
    )
    options = parser.parse_args(argv)
    try:
        path = write(Path.cwd())
    except OSError as error:
        print(f"holdfast demo: can't write the notebook: {error}", file=sys.stderr)
        return 1
    print(f"wrote {path.name}")
    if not options.run:
        print(f"Open it: jupyter lab {path.name}")
        print("Choose the kernel Holdfast, and run its cells from the first to the last.")
        return 0
    return _run(path, options.kernel)


def _run(path: Path, kernel: str) -> int:
    """Run it, into a directory of its own name."""
    from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel

    from . import report

    try:
        KernelSpecManager().get_kernel_spec(kernel)
    except NoSuchKernel:
        print(
            f"holdfast demo: there is no kernel {kernel}; install it:"
            " python -m holdfast.install --sys-prefix",
            file=sys.stderr,
        )
        return 1
    return report.main([str(path), "--kernel", kernel, "--output", path.stem])


if __name__ == "__main__":
    sys.exit(program.run("holdfast demo", main))
