"""The work of a Jupyter server before it starts our kernel: it turns encryption on.

Jupyter's kernels talk over TCP ports of the machine, unencrypted, and every user of a login node
can read what a notebook publishes. jupyter_client 8.9 and later can encrypt (CurveZMQ), but
doesn't by default. A kernelspec may name a provisioner, code of the kernel's package that
runs in the server; ours turns encryption on. With ``transport`` "ipc" there are Unix sockets
instead of ports, in a directory that only their owner can enter.

A kernel that is started again continues the notebook of one that was killed. If the server itself
killed it, because the user asked for a restart and it didn't answer, the new kernel starts empty.

The server's own configuration takes precedence. If its jupyter_client or libzmq can't encrypt, the
kernel starts without encryption and reports who may listen.
"""

from __future__ import annotations

import os
import stat
import tempfile
import typing as t
from pathlib import Path

from jupyter_client.provisioning import LocalProvisioner
from traitlets import Enum

__all__ = ["HoldfastProvisioner", "private_directory"]

# A socket's path has 108 bytes on Linux and 104 on macOS: so much for what follows the prefix.
_PREFIX_MAX = 104 - len("-65535") - 1


class HoldfastProvisioner(LocalProvisioner):
    """Start the kernel as a process of this machine, as Jupyter does by itself.

    Jupyter's server makes it from the kernelspec. The interface is that of
    ``jupyter_client.provisioning.KernelProvisionerBase``.

    Attributes
    ----------
    transport : {"tcp", "ipc"}
        From the kernelspec: TCP ports, or Unix sockets in `private_directory`.
    """

    _killed = False  # by us, while it ran

    transport = Enum(["tcp", "ipc"], default_value="tcp", help="from the kernelspec")

    async def pre_launch(self, **kwargs: t.Any) -> dict[str, t.Any]:
        """Choose transport and encryption before the connection file is written.

        Parameters
        ----------
        **kwargs : object
            What the server gives to each provisioner.

        Returns
        -------
        dict
            The arguments for the launch of the kernel.

        Raises
        ------
        OSError
            The directory of the sockets can't be made, or its path is too long.
        """
        manager = self.parent
        if manager is not None:
            if self.transport == "ipc" and manager.transport != "ipc":
                manager.transport = "ipc"
                manager.ip = _socket_prefix(self.kernel_id)
            _encrypt(manager)
        launch = await super().pre_launch(**kwargs)
        if self._killed:
            launch["env"] = {**launch.get("env", os.environ), "HOLDFAST_TAKE_UP": "0"}
        self._killed = False
        return launch

    async def kill(self, restart: bool = False) -> None:
        """Kill the kernel, and remember whether it ran until then.

        Parameters
        ----------
        restart : bool
            Whether the kernel is started again.
        """
        self._killed = self.has_process and await self.poll() is None
        await super().kill(restart)


def _encrypt(manager: t.Any) -> None:
    """Let the manager make keys, if it can and isn't configured otherwise."""
    if manager.transport != "tcp" or not manager.has_trait("transport_encryption"):
        return
    if manager.transport_encryption != "disabled" or _is_configured(manager):
        return
    import zmq

    if zmq.has("curve"):
        manager.transport_encryption = "auto"


def _is_configured(manager: t.Any) -> bool:
    classes = (kind.__name__ for kind in type(manager).mro())
    return any("transport_encryption" in manager.config.get(name, {}) for name in classes)


def _socket_prefix(kernel_id: str) -> str:
    prefix = str(private_directory() / kernel_id)
    if len(os.fsencode(prefix)) > _PREFIX_MAX:
        raise OSError(f"{prefix}-1 is too long for the name of a socket")
    return prefix


def private_directory() -> Path:
    """Make the directory of this user's sockets, which nobody else can enter.

    It is in ``XDG_RUNTIME_DIR`` if that exists, otherwise in the directory of temporary files.

    Returns
    -------
    pathlib.Path
        The directory.

    Raises
    ------
    PermissionError
        Something else has that name, or others can enter it.
    """
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if os.path.isdir(runtime) and os.access(runtime, os.W_OK):
        directory = Path(runtime) / "holdfast"
    else:
        directory = Path(tempfile.gettempdir()) / f"holdfast-{os.getuid()}"
    try:
        directory.mkdir(mode=0o700)
    except FileExistsError:
        found = directory.lstat()
        alone = found.st_uid == os.getuid() and not stat.S_IMODE(found.st_mode) & 0o077
        if not alone or not stat.S_ISDIR(found.st_mode):
            raise PermissionError(
                f"{directory} is not a directory that only you can enter"
            ) from None
    return directory
