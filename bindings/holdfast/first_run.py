"""Start an installed kernel once, and name what is missing.

A program is linked to libraries that may be gone, or were never there: the system was upgraded, or a
wheel was built elsewhere. Then the kernel dies before its first answer, or a recorded cell fails
with an ImportError, and Jupyter shows neither. So ``python -m holdfast.install`` runs two cells.
"""

from __future__ import annotations

import os
import queue
import re
import shutil
import subprocess
import tempfile
import typing as t
from importlib import resources
from pathlib import Path

#: Debian's packages of the libraries that we are linked to.
_PACKAGES = {
    "libzmq": "libzmq3-dev",
    "libmsgpackc": "libmsgpack-dev",
    "libmsgpack-c": "libmsgpack-dev",
    "liblz4": "liblz4-dev",
    "libjansson": "libjansson-dev",
    "libcrypto": "libssl-dev",
    "libotf2": "libotf2-trace-dev",
}
_MISSING = re.compile(r"(lib[\w+-]+)\.so[.\d]*(?=.*(?:=> not found|cannot open shared object))")
_TIMEOUT_S = 60
_CELLS = ("%%execute_with_scorep\nx = 1 + 1", "assert x == 2")


def _missing_libraries(text: str) -> list[str]:
    """The libraries and modules that ldd, the dynamic linker or Python report as missing."""
    return sorted(set(_MISSING.findall(text)))


def _linked(program: str) -> str:
    """The output of ldd for the program and our extension modules; "" without ldd."""
    ldd = shutil.which("ldd")
    if ldd is None:
        return ""
    modules = [
        str(one) for one in resources.files("holdfast").iterdir() if one.name.endswith(".so")
    ]
    done = subprocess.run([ldd, program, *modules], capture_output=True, text=True, check=False)
    return done.stdout


def _run_cells(client: t.Any) -> str:
    """Why a cell failed; "" if none did."""
    for cell in _CELLS:
        reply = client.execute_interactive(
            cell, output_hook=lambda message: None, allow_stdin=False, timeout=_TIMEOUT_S
        )
        if reply["content"]["status"] != "ok":
            kind = "a recorded cell" if cell is _CELLS[0] else "the cell after a recorded one"
            content = reply["content"]
            return f"{kind} failed: {content.get('ename')}: {content.get('evalue')}"
    return ""


def _start(directory: Path, place: Path) -> str:
    """Start the kernel in a directory of its own, and run the cells; why that failed, or ""."""
    from jupyter_client.manager import KernelManager

    manager = KernelManager(kernel_name=directory.name)
    manager.kernel_spec_manager.kernel_dirs = [str(directory.parent)]
    manager.connection_file = str(place / "connection.json")
    env = {**os.environ, "HOLDFAST_RECORDER": "builtin", "HOLDFAST_SUMMARY": "off"}
    env["IPYTHONDIR"] = str(place / "ipython")  # nothing goes into the user's
    with open(place / "stderr", "w+") as said:
        try:
            manager.start_kernel(cwd=str(place), env=env, stderr=said)
            client = manager.client()
            client.start_channels()
            try:
                client.wait_for_ready(timeout=_TIMEOUT_S)
                failure = _run_cells(client)
            finally:
                client.stop_channels()
                manager.shutdown_kernel(now=False)
        except (OSError, RuntimeError, TimeoutError, queue.Empty) as error:
            failure = f"the kernel doesn't start: {error}"
        said.seek(0)
        lines = said.read().strip().splitlines()[-20:]
    return "\n".join([failure, *lines]) if failure else ""


def _advise(missing: list[str]) -> str:
    """What to install."""
    message = f"these libraries are missing: {', '.join(missing)}"
    packages = sorted({_PACKAGES[name] for name in missing if name in _PACKAGES})
    if packages:
        message += f"\nOn Debian and Ubuntu: apt-get install {' '.join(packages)}"
    return message


def find_missing(program: str) -> str | None:
    """Look for the libraries that a program and our extension modules are linked to.

    Parameters
    ----------
    program : str
        Its path.

    Returns
    -------
    str or None
        Which are missing, with the command that installs them.
    """
    missing = _missing_libraries(_linked(program))
    return _advise(missing) if missing else None


def find_fault(directory: Path, program: str) -> str | None:
    """Start a kernel as Jupyter would, and run a recorded and a plain cell.

    Parameters
    ----------
    directory : pathlib.Path
        The kernelspec's.
    program : str
        The kernel's program.

    Returns
    -------
    str or None
        What is wrong, with the command that mends it if libraries are missing.
    """
    found = find_missing(program)
    if found is not None:
        return found
    with tempfile.TemporaryDirectory(prefix="holdfast-install-") as place:
        why = _start(directory, Path(place))
    missing = _missing_libraries(why)
    return _advise(missing) if missing else why or None
