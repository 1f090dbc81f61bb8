"""The debugger, in the assistant: it stands between a client and the processes that it debugs.

A client sends debug_requests: those of the debug adapter protocol, and some of Jupyter's own. Debugged are
the main worker and, while a recorded cell has a process of its own, that process. Each is a `Target`: one end
of a socket pair, with pydevd at the other (debuggee.py). Requests that name a thread or a frame go to the
cell if there is one, since the main worker waits for it. Breakpoints are kept here, and set in each process
that begins: that of a cell, and a new main worker.

For the debugger a cell is a file. Its name is a hash of its text, as the client knows from `debugInfo`.
`dumpCell` writes it, in a directory of mode 0700.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import itertools
import json
import os
import shutil
import socket
import stat
import sys
import typing as t
from pathlib import Path

from ..control import Channel
from ..ipython.shell import DIRECTORY, HASH_SEED, file_name
from .debuggee import is_users

Message = dict[str, t.Any]

_NOT_STOPPED = frozenset(("inspectVariables", "richInspectVariables", "variables", "modules"))
# Requests that are sent again to each new process.
_KEPT = frozenset(("setFunctionBreakpoints", "setExceptionBreakpoints"))
_INTERNAL = ("IPython", "ipykernel", "holdfast", "traitlets", "tornado", "comm", "debugpy")


class Gone(Exception):
    """The debugged process ended."""


class Target:
    """The debug adapter protocol with one process."""

    def __init__(self, name: str, on_event: t.Callable[[Target, Message], None]):
        self.name = name
        self._on_event = on_event
        self._numbers = itertools.count(1)
        self._open: dict[int, asyncio.Future] = {}
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self.attached = False

    async def connect(self, fd: int) -> None:
        """Take this socket."""
        link = socket.socket(fileno=fd)
        self._reader, self._writer = await asyncio.open_connection(sock=link)

    async def listen(self) -> None:
        """Take what comes, until the other end has closed."""
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                self._take(await _read(self._reader))
        self.close()

    def close(self) -> None:
        """Nothing more is asked; those that wait get an answer."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()
        for waiting in self._open.values():
            if not waiting.done():
                waiting.set_exception(Gone())
        self._open.clear()

    async def ask(self, command: str, arguments: Message | None = None) -> Message:
        """The response to one request."""
        if self._writer is None:
            raise Gone
        number = next(self._numbers)
        request: Message = {"type": "request", "seq": number, "command": command}
        if arguments is not None:
            request["arguments"] = arguments
        waiting = asyncio.get_running_loop().create_future()
        self._open[number] = waiting
        data = json.dumps(request).encode()
        self._writer.write(b"Content-Length: %d\r\n\r\n" % len(data) + data)
        return await waiting

    def _take(self, message: Message) -> None:
        if message.get("type") == "event":
            self._on_event(self, message)
            return
        waiting = self._open.pop(message.get("request_seq", 0), None)
        if waiting is not None and not waiting.done():
            waiting.set_result(message)


async def _read(reader: asyncio.StreamReader) -> Message:
    head = await reader.readuntil(b"\r\n\r\n")
    for line in head.splitlines():
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length":
            return json.loads(await reader.readexactly(int(value)))
    raise asyncio.IncompleteReadError(head, None)


class Debugger:
    """The debugger, which answers a client's debug_requests."""

    def __init__(self, channel: Channel):
        self._channel = channel
        self._targets: dict[str, Target] = {}
        self._arrival: asyncio.Event = asyncio.Event()  # of the main worker
        self._tasks: set[asyncio.Task] = set()
        self._started = False
        self._initialize: Message = {}
        self._attach: Message | None = None
        self._breakpoints: dict[str, Message] = {}
        self._kept: dict[str, Message] = {}
        self._stopped: set[int] = set()
        self._header = b"{}"  # of the last request: events answer it

    # ---- processes

    def connect(self, name: str, fd: int) -> None:
        """The frontend connects us with the main worker or a cell."""
        target = Target(name, self._event)
        self._targets[name] = target
        self._spawn(self._follow(target, fd))

    async def _follow(self, target: Target, fd: int) -> None:
        await target.connect(fd)
        listening = asyncio.ensure_future(target.listen())
        if target.name == "main":
            self._arrival.set()
        if self._attach is not None:
            with contextlib.suppress(Gone):
                await self._set_up(target)
        await listening
        self._ended(target)

    async def _set_up(self, target: Target) -> None:
        """Send a process that begins while somebody debugs what the others got."""
        await target.ask("initialize", self._initialize)
        await target.ask("attach", self._attach)
        for command, arguments in self._kept.items():
            await target.ask(command, arguments)
        for arguments in self._breakpoints.values():
            await target.ask("setBreakpoints", arguments)
        await target.ask("configurationDone")
        target.attached = True

    def _ended(self, target: Target) -> None:
        if self._targets.get(target.name) is target:
            del self._targets[target.name]
        if not self._started:
            return
        if self._stopped:
            self._stopped.clear()
            body = {"threadId": 1, "allThreadsContinued": True}
            self._publish({"type": "event", "event": "continued", "seq": 0, "body": body})
        if target.name == "main":
            self._arrival.clear()
            if self._attach is not None:  # it died, and there is another
                self._channel.send("debug", waits=1)
            else:
                self._started = False

    @property
    def _target(self) -> Target:
        """Which process runs code now."""
        cell = self._targets.get("cell")
        target = cell if cell is not None and cell.attached else self._targets.get("main")
        if target is None:
            raise Gone
        return target

    # ---- events

    def _event(self, target: Target, event: Message) -> None:
        kind, body = event.get("event"), event.get("body") or {}
        if kind == "stopped":
            self._spawn(self._stop(target, event))
            return
        if kind == "continued":
            if body.get("allThreadsContinued"):
                self._stopped.clear()
            self._stopped.discard(body.get("threadId"))
        elif target.name != "main":
            return  # the end of a cell's process isn't that of the debugging
        self._publish(event)

    async def _stop(self, target: Target, event: Message) -> None:
        body = event.get("body") or {}
        self._stopped.add(body.get("threadId"))
        if body.get("allThreadsStopped"):
            with contextlib.suppress(Gone):
                threads = await target.ask("threads")
                self._stopped.update(
                    each["id"] for each in threads.get("body", {}).get("threads", ())
                )
        self._publish(event)

    def _publish(self, event: Message) -> None:
        self._channel.send(
            "message",
            channel="iopub",
            type="debug_event",
            content=json.dumps(event).encode(),
            metadata=b"{}",
            parent=self._header,
            buffers=[],
        )

    def _spawn(self, work: t.Coroutine) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # ---- requests

    async def process(self, header: bytes, message: Message) -> Message | None:
        """The response; None if only the main worker can give it."""
        self._header = header
        command = str(message.get("command", ""))
        arguments = message.get("arguments") or {}
        try:
            if command in _NOT_STOPPED and not self._stopped:
                return None
            handler = getattr(self, "_do_" + command, None)
            if handler is None and not self._started:
                return _response(message, "the debugger was not started")
            if handler is None:
                return _as_answer(message, await self._target.ask(command, arguments))
            return _as_answer(message, await handler(arguments))
        except Gone:
            return _response(message, "the process that was debugged ended")
        except Exception as error:  # arguments are whatever a client sent
            return _response(message, f"{type(error).__name__}: {error}")

    async def _do_debugInfo(self, arguments: Message) -> Message:
        points = [
            {"source": path, "breakpoints": kept["breakpoints"]}
            for path, kept in self._breakpoints.items()
        ]
        return _success(
            isStarted=self._started,
            hashMethod="Murmur2",
            hashSeed=HASH_SEED,
            tmpFilePrefix=DIRECTORY + os.sep,
            tmpFileSuffix=".py",
            breakpoints=points,
            stoppedThreads=sorted(self._stopped),
            richRendering=True,
            exceptionPaths=["Python Exceptions"],
            copyToGlobals=True,
        )

    async def _do_initialize(self, arguments: Message) -> Message:
        arguments.setdefault("adapterID", "python")
        self._initialize = arguments
        if not self._started:
            self._started = True
            self._channel.send("debugging", active=1)
            self._channel.send("debug", waits=0)
        await self._arrival.wait()
        # Without debugpy in the main worker's interpreter its end is closed at once.
        return await self._targets["main"].ask("initialize", arguments)

    async def _do_attach(self, arguments: Message) -> Message:
        arguments |= {"connect": {}, "debugOptions": ["DebugStdLib"], "rules": _rules()}
        main = self._targets["main"]
        response = await main.ask("attach", arguments)
        if response.get("success"):
            await main.ask("configurationDone")
            self._attach, main.attached = arguments, True
        return response

    async def _do_configurationDone(self, arguments: Message) -> Message:
        return _success()

    async def _do_setBreakpoints(self, arguments: Message) -> Message:
        response = await self._send_all("setBreakpoints", arguments)
        if response.get("success"):
            # The places of the breakpoints, which may be other lines than those that were asked
            # for.
            asked = arguments.get("breakpoints") or []
            found = response.get("body", {}).get("breakpoints", [])
            set_now = [
                {**old, "line": new.get("line", old.get("line"))}
                for old, new in zip(asked, found, strict=False)
            ]
            self._breakpoints[arguments["source"]["path"]] = {**arguments, "breakpoints": set_now}
        return response

    async def _do_setExceptionBreakpoints(self, arguments: Message) -> Message:
        return await self._send_all("setExceptionBreakpoints", arguments)

    async def _do_setFunctionBreakpoints(self, arguments: Message) -> Message:
        return await self._send_all("setFunctionBreakpoints", arguments)

    async def _send_all(self, command: str, arguments: Message) -> Message:
        """Ask each process; the main worker's response, since it stays."""
        if not self._started:
            return {"success": False, "message": "the debugger was not started"}
        if command in _KEPT:
            self._kept[command] = arguments
        cell = self._targets.get("cell")
        if cell is not None and cell.attached:
            with contextlib.suppress(Gone):
                await cell.ask(command, arguments)
        return await self._targets["main"].ask(command, arguments)

    async def _do_dumpCell(self, arguments: Message) -> Message:
        _make_directory()
        path = file_name(arguments["code"])
        Path(path).write_text(arguments["code"], encoding="utf-8")
        return _success(sourcePath=path)

    async def _do_source(self, arguments: Message) -> Message:
        path = Path(arguments["source"]["path"])
        if not path.is_file():
            return {"success": False, "message": "source unavailable", "body": {}}
        return _success(content=path.read_text(encoding="utf-8", errors="replace"))

    async def _do_variables(self, arguments: Message) -> Message:
        response = await self._target.ask("variables", arguments)
        found = response.get("body", {}).get("variables", [])
        response.setdefault("body", {})["variables"] = [
            each for each in found if is_users(each["name"])
        ]
        return response

    async def _do_inspectVariables(self, arguments: Message) -> Message:
        """The notebook's variables, by the frame of the cell that stopped."""
        target = self._target
        trace = await target.ask("stackTrace", {"threadId": min(self._stopped)})
        frames = trace.get("body", {}).get("stackFrames", [])
        cells = [
            frame
            for frame in frames
            if frame.get("source", {}).get("path", "").startswith(DIRECTORY)
        ]
        if not frames:
            return _success(variables=[])
        scopes = await target.ask("scopes", {"frameId": (cells or frames)[-1]["id"]})
        for scope in reversed(scopes.get("body", {}).get("scopes", [])):
            return await self._do_variables({"variablesReference": scope["variablesReference"]})
        return _success(variables=[])

    async def _do_richInspectVariables(self, arguments: Message) -> Message:
        name = str(arguments.get("variableName", ""))
        if not name.isidentifier():
            return _success(data={}, metadata={})
        shown = f"__import__('IPython').get_ipython().display_formatter.format({name})"
        question = {"expression": shown, "context": "clipboard"}
        if "frameId" in arguments:
            question["frameId"] = arguments["frameId"]
        response = await self._target.ask("evaluate", question)
        if not response.get("success"):
            return response
        data, metadata = ast.literal_eval(response["body"]["result"])
        return _success(
            data=data, metadata={key: part for key, part in metadata.items() if key in data}
        )

    async def _do_copyToGlobals(self, arguments: Message) -> Message:
        source, destination = arguments["srcVariableName"], arguments["dstVariableName"]
        if not source.isidentifier() or not destination.isidentifier():
            return {"success": False, "message": "the names of variables must be identifiers"}
        question = {
            "expression": f"globals()[{destination!r}]",
            "value": source,
            "frameId": arguments["srcFrameId"],
        }
        return await self._target.ask("setExpression", question)

    async def _do_disconnect(self, arguments: Message) -> Message:
        targets, self._started, self._attach = dict(self._targets), False, None
        for target in targets.values():
            with contextlib.suppress(Gone):
                await target.ask("disconnect", {"terminateDebuggee": False})
            target.close()
        self._targets.clear()
        self._breakpoints.clear()
        self._kept.clear()
        self._stopped.clear()
        self._arrival.clear()
        with contextlib.suppress(OSError):
            shutil.rmtree(DIRECTORY)
        self._channel.send("debugging", active=0)
        return _success()


def _success(**body: t.Any) -> Message:
    return {"success": True, "body": body}


def _as_answer(request: Message, response: Message) -> Message:
    """A response with the numbers of the client's request."""
    return {
        **response,
        "type": "response",
        "seq": response.get("seq", request.get("seq", 0)),
        "request_seq": request.get("seq", 0),
        "command": request.get("command", ""),
    }


def _response(request: Message, trouble: str) -> Message:
    return _as_answer(request, {"success": False, "message": trouble, "body": {}})


def _rules() -> list[Message]:
    """Whose frames a client doesn't want to see, nor to step into."""
    roots = set()
    for name in _INTERNAL:
        file = getattr(sys.modules.get(name), "__file__", None)
        if file:
            roots.add(os.path.dirname(os.path.realpath(file)))
    roots.add(os.path.dirname(os.path.realpath(asyncio.__file__)))
    return [{"path": os.path.join(root, "**"), "include": False} for root in sorted(roots)]


def _make_directory() -> None:
    """For the cells' files; somebody else's directory of that name isn't used."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(DIRECTORY, 0o700)
    found = os.lstat(DIRECTORY)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise OSError(f"{DIRECTORY} is not a directory of this user's")
