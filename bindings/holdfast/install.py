"""Install or remove the kernelspec: ``python -m holdfast.install``.

A kernelspec is the directory by which Jupyter's programs find a kernel: a ``kernel.json``
with the command to start, and logos. It names the program ``holdfast-kernel`` and the
Python interpreter by absolute paths, because Jupyter may run in another environment than
the one whose packages the notebook is to see. That is also why it names a provisioner
(provisioner.py), which must be installed where Jupyter is, only where that is sure or asked for.

Only directories that Holdfast wrote are replaced or removed: ``--name python3`` must
not take somebody else's kernel away.
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

__all__ = ["install", "kernel_program", "kernel_spec", "main", "uninstall"]

LOGOS = ("logo-32x32.png", "logo-64x64.png", "logo-svg.svg")
PROVISIONER = "holdfast-provisioner"  # an entry point: see pyproject.toml
PROTOCOL_VERSION = "5.5"  # that of kernel/wire/message.h
NAME_PATTERN = re.compile(r"[a-zA-Z0-9._-]+\Z")


class InstallError(Exception):
    """What went wrong, in words for the person who called the command."""


def kernel_program() -> str:
    """Absolute path of ``holdfast-kernel``.

    First beside this interpreter, where pip puts a package's programs; then in pip's
    place for ``pip install --user``; then on PATH.

    Raises
    ------
    InstallError
        Where there is none.
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
    told = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    return "CurveZMQ" in told.stdout


def kernel_spec(
    display_name: str | None = None,
    run_mode: str | None = None,
    *,
    encrypt: bool = False,
    ipc: bool = False,
) -> dict:
    """The contents of ``kernel.json`` for this interpreter.

    See "Kernel specs" in jupyter_client's documentation for what each key means.
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


def _is_ours(directory: Path) -> bool:
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
    if os.path.lexists(directory) and not _is_ours(directory):
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
    """Write the kernelspec and return its directory.

    Parameters
    ----------
    name
        By which Jupyter knows the kernel.
    user, sys_prefix, prefix
        Where: for this user, in this Python environment, or under a directory (its
        ``share/jupyter/kernels``). Without any: in the environment where this
        interpreter belongs to one, else for the user.
    display_name
        What menus show.
    run_mode
        Where instrumented cells run that choose nothing else: ``in-process``, in the
        notebook's own process; ``forked``, in a fork of it; ``isolated``, in a clean one;
        ``auto``, the default, as suits each.
    encrypt
        Let the server encrypt what it and the kernel say, where it can. Servers of other
        environments can't use such a kernelspec unless Holdfast is installed there, too: so by
        default only where the kernelspec is for this environment alone.
    ipc
        Unix sockets that only this user can reach, instead of TCP ports; the same holds.

    Raises
    ------
    InstallError
        A name that Jupyter wouldn't take, a directory of another kernel, or no
        ``holdfast-kernel`` to point at.
    OSError
        The directory can't be written.
    """
    directory = _spec_directory(_data_directory(user, sys_prefix, prefix), name)
    if encrypt is None:
        encrypt = _in_environment(user, sys_prefix, prefix)
    contents = kernel_spec(display_name, run_mode, encrypt=encrypt, ipc=ipc)
    spec = json.dumps(contents, indent=2) + "\n"
    directory.parent.mkdir(parents=True, exist_ok=True)
    # Filled beside its place and then renamed: nobody reads half a kernelspec.
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
    """Remove what :func:`install` with the same arguments wrote.

    Directories above it that are empty after that go too. Returns the directory that
    was removed, or None where there was none.
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


def main(argv: list[str] | None = None) -> int:
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
        help="where instrumented cells run: in the notebook's process, in a fork of it, in a clean "
        "one, or as suits each (the default)",
    )
    parser.add_argument(
        "--encrypt",
        action=argparse.BooleanOptionalAction,
        help="let the server encrypt what it and the kernel say (default: where the kernelspec is "
        "for this environment alone; Holdfast must be installed where the server is)",
    )
    parser.add_argument(
        "--ipc",
        action="store_true",
        help="Unix sockets that only you can reach, instead of TCP ports; for the same servers",
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
            print(f"installed the kernel {options.name} in {made}")
    except (InstallError, OSError) as error:
        print(f"holdfast.install: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
