"""Install or remove the kernelspec: ``python -m holdfast.install``.

A kernelspec is the directory by which Jupyter's programs find a kernel: a ``kernel.json``
with the command to start, and logos. Ours names the program ``holdfast-kernel`` and the
Python interpreter by absolute paths, because Jupyter may run in another environment than
the one whose packages the notebook uses. For the same reason it names a provisioner
(provisioner.py) only if the user asks for it or Jupyter's environment is this one: it must be
installed there.

Only directories that Holdfast wrote are replaced or removed: ``--name python3`` must
not remove another kernel.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import typing as t
from importlib import resources
from pathlib import Path

from jupyter_core.paths import jupyter_data_dir

from holdfast.base import program

__all__ = ["install", "kernel_program", "kernel_spec", "main", "uninstall"]

LOGOS = ("logo-32x32.png", "logo-64x64.png", "logo-svg.svg")
PROVISIONER = "holdfast-provisioner"  # an entry point: see pyproject.toml
PROTOCOL_VERSION = "5.5"  # that of kernel/wire/message.h
NAME_PATTERN = re.compile(r"[a-zA-Z0-9._-]+\Z")


class InstallError(Exception):
    """The kernelspec can't be installed. The text is for the person who called the command."""


def kernel_program() -> str:
    """Find the program ``holdfast-kernel``.

    It is looked for beside this interpreter, where pip puts a package's programs; then in pip's
    place for ``pip install --user``; then on PATH.

    Returns
    -------
    str
        Its absolute path.

    Raises
    ------
    InstallError
        There is none.
    """
    user_scheme = sysconfig.get_preferred_scheme("user")
    places = (
        sysconfig.get_path("scripts"),
        os.path.dirname(sys.executable),
        sysconfig.get_path("scripts", user_scheme),
    )
    found = shutil.which("holdfast-kernel", path=os.pathsep.join(places))
    found = found or shutil.which("holdfast-kernel")
    if found is None:
        raise InstallError(
            "the program holdfast-kernel is neither beside this interpreter "
            f"({sys.executable}) nor on PATH; is the package installed?"
        )
    return os.path.abspath(found)


def _can_encrypt(program: str) -> bool:
    """Whether the kernel's libzmq has CurveZMQ."""
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    return "CurveZMQ" in done.stdout


def kernel_spec(
    display_name: str | None = None,
    run_mode: str | None = None,
    *,
    encrypt: bool = False,
    ipc: bool = False,
) -> dict:
    """Make the contents of ``kernel.json`` for this interpreter.

    The keys are those of "Kernel specs" in the documentation of jupyter_client.

    Parameters
    ----------
    display_name : str, optional
        What menus show. If it is left out: "Holdfast (Python 3)".
    run_mode : {"auto", "in-process", "forked", "isolated"}, optional
        See `install`.
    encrypt : bool
        Whether the spec names our provisioner, which turns encryption on.
    ipc : bool
        Whether the kernel uses Unix sockets; this needs our provisioner, too.

    Returns
    -------
    dict
        What is written as JSON.

    Raises
    ------
    InstallError
        There is no program ``holdfast-kernel``.
    """
    program = kernel_program()
    metadata: dict[str, t.Any] = {"holdfast": True, "debugger": True}
    if _can_encrypt(program):
        metadata["supported_encryption"] = ["curve"]
    if encrypt or ipc:
        transport = {"transport": "ipc"} if ipc else {}
        metadata["kernel_provisioner"] = {"provisioner_name": PROVISIONER, "config": transport}
    return {
        "argv": [
            program,
            "-f",
            "{connection_file}",
            "--python",
            sys.executable,
            "--python-version",
            platform.python_version(),
            *(["--run", run_mode] if run_mode else []),
        ],
        "display_name": display_name or "Holdfast (Python 3)",
        "language": "python",
        "interrupt_mode": "message",
        "kernel_protocol_version": PROTOCOL_VERSION,
        "metadata": metadata,
    }


def _in_environment(user: bool, sys_prefix: bool, prefix: str | None) -> bool:
    """Whether the options name this interpreter's own environment."""
    return sys_prefix or (sys.prefix != sys.base_prefix and not user and prefix is None)


def _data_directory(user: bool, sys_prefix: bool, prefix: str | None) -> Path:
    """Jupyter's data directory that the options name."""
    if prefix is not None:
        return Path(prefix).expanduser().absolute() / "share" / "jupyter"
    if _in_environment(user, sys_prefix, prefix):
        return Path(sys.prefix) / "share" / "jupyter"
    return Path(jupyter_data_dir())


def is_ours(directory: Path) -> bool:
    """Whether Holdfast wrote a kernelspec.

    Parameters
    ----------
    directory : pathlib.Path
        The kernelspec's.

    Returns
    -------
    bool
        Whether it says so.
    """
    try:
        spec = json.loads((directory / "kernel.json").read_text("utf-8"))
        return bool(spec["metadata"]["holdfast"])
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _spec_directory(data: Path, name: str) -> Path:
    if not NAME_PATTERN.match(name):
        raise InstallError(f"{name!r}: a kernel's name has letters, digits, '-', '_' and '.' only")
    # Jupyter reads the names of kernels in lower case.
    directory = data / "kernels" / name.lower()
    if os.path.lexists(directory) and not is_ours(directory):
        raise InstallError(f"{directory} belongs to another kernel: left as it is")
    return directory


def install(
    name: str = "holdfast",
    *,
    user: bool = False,
    sys_prefix: bool = False,
    prefix: str | None = None,
    display_name: str | None = None,
    run_mode: str | None = None,
    encrypt: bool | None = None,
    ipc: bool = False,
) -> Path:
    """Write the kernelspec.

    Parameters
    ----------
    name : str
        The name by which Jupyter knows the kernel.
    user, sys_prefix : bool
        Install for this user, or in this Python environment. At most one of `user`, `sys_prefix` and
        `prefix` is given. Without any: in the environment if this interpreter belongs to one, otherwise
        for the user.
    prefix : str, optional
        Install below this directory, in its ``share/jupyter/kernels``.
    display_name : str, optional
        What menus show.
    run_mode : {"auto", "in-process", "forked", "isolated"}, optional
        Where recorded cells run that choose nothing else: ``in-process``, in the
        notebook's own process; ``forked``, in a fork of it; ``isolated``, in a clean one;
        ``auto``, the default, chooses for each cell.
    encrypt : bool, optional
        Whether the server encrypts the connection, if it can. A server in another environment can
        use such a kernelspec only if Holdfast is installed there, too. So the default is to encrypt
        only if the kernelspec is for this environment alone.
    ipc : bool
        Use Unix sockets that only this user can reach, instead of TCP ports. The same limit applies.

    Returns
    -------
    pathlib.Path
        The directory that was written.

    Raises
    ------
    InstallError
        Jupyter wouldn't accept the name, the directory belongs to another kernel, or there is no
        ``holdfast-kernel``.
    OSError
        The directory can't be written.
    """
    directory = _spec_directory(_data_directory(user, sys_prefix, prefix), name)
    if encrypt is None:
        encrypt = _in_environment(user, sys_prefix, prefix)
    contents = kernel_spec(display_name, run_mode, encrypt=encrypt, ipc=ipc)
    spec = json.dumps(contents, indent=2) + "\n"
    directory.parent.mkdir(parents=True, exist_ok=True)
    # Filled beside its place and then renamed, so that no program reads half a kernelspec.
    fresh = Path(tempfile.mkdtemp(prefix=".holdfast-", dir=directory.parent))
    try:
        (fresh / "kernel.json").write_text(spec, "utf-8")
        artwork = resources.files("holdfast").joinpath("kernelspec")
        for logo in LOGOS:
            (fresh / logo).write_bytes(artwork.joinpath(logo).read_bytes())
        fresh.chmod(0o755)
        shutil.rmtree(directory, ignore_errors=True)
        fresh.rename(directory)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    return directory


def uninstall(
    name: str = "holdfast",
    *,
    user: bool = False,
    sys_prefix: bool = False,
    prefix: str | None = None,
) -> Path | None:
    """Remove what `install` wrote with the same arguments.

    Directories above it are removed if they are empty then.

    Parameters
    ----------
    name : str
        The name of the kernel.
    user, sys_prefix : bool
        As for `install`.
    prefix : str, optional
        As for `install`.

    Returns
    -------
    pathlib.Path or None
        The directory that was removed, or None if there was none.

    Raises
    ------
    InstallError
        Jupyter wouldn't accept the name, or the directory belongs to another kernel.
    OSError
        The directory can't be removed.
    """
    data = _data_directory(user, sys_prefix, prefix)
    directory = _spec_directory(data, name)
    if not directory.exists():
        return None
    shutil.rmtree(directory)
    for parent in (data / "kernels", data, data.parent):
        try:
            parent.rmdir()
        except OSError:  # not empty, or not ours to remove
            break
    return directory


def _check(directory: Path) -> None:
    from . import first_run  # which imports more

    fault = first_run.find_fault(directory, kernel_program())
    if fault is not None:
        raise InstallError(f"it is installed, but it doesn't run: {fault}")


def main(argv: list[str] | None = None) -> int:
    """Run the command ``python -m holdfast.install``.

    Parameters
    ----------
    argv : list of str, optional
        The arguments. If they are left out: those of the process.

    Returns
    -------
    int
        The exit status: 0, or 1 after an error, which is printed.
    """
    parser = argparse.ArgumentParser(
        prog="python -m holdfast.install",
        description="Make Holdfast known to Jupyter as a kernel, or remove it again.",
    )
    place = parser.add_mutually_exclusive_group()
    place.add_argument("--user", action="store_true", help="for this user")
    place.add_argument("--sys-prefix", action="store_true", help="in this Python environment")
    place.add_argument("--prefix", metavar="P", help="under P/share/jupyter/kernels")
    parser.add_argument("--name", default="holdfast", help="default: %(default)s")
    parser.add_argument("--display-name", metavar="TEXT", help="what menus show")
    parser.add_argument(
        "--run",
        choices=("auto", "in-process", "forked", "isolated"),
        help="where recorded cells run: in the notebook's process, in a fork of it, in a clean "
        "process, or chosen for each cell (the default)",
    )
    parser.add_argument(
        "--encrypt",
        action=argparse.BooleanOptionalAction,
        help="let the server encrypt its messages with the kernel (default: if the kernelspec is "
        "for this environment alone; Holdfast must be installed in the server's environment)",
    )
    parser.add_argument(
        "--ipc",
        action="store_true",
        help="Unix sockets that only you can reach, instead of TCP ports; for the same servers",
    )
    parser.add_argument(
        "--no-check",
        action="store_true",
        help="don't start the kernel once to see whether it runs",
    )
    parser.add_argument("--uninstall", action="store_true", help="remove it again")
    options = parser.parse_args(argv)
    where = {
        "user": options.user,
        "sys_prefix": options.sys_prefix,
        "prefix": options.prefix,
    }
    try:
        if options.uninstall:
            gone = uninstall(options.name, **where)
            print(f"removed {gone}" if gone else f"no kernel {options.name} there")
        else:
            made = install(
                options.name,
                display_name=options.display_name,
                run_mode=options.run,
                encrypt=options.encrypt,
                ipc=options.ipc,
                **where,
            )
            print(f"installed the kernel {options.name} in {made}", flush=True)
            if not options.no_check:
                _check(made)
                subprocess.run(
                    [sys.executable, "-P", "-m", "holdfast.doctor", "--short"], check=False
                )
    except (InstallError, OSError) as error:
        print(f"holdfast.install: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(program.run("holdfast.install", main))
