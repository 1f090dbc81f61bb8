"""JupyterLab and Notebook 7 on a server of their own, and what a person does in them.

Used by the tests and by docs/pictures/make.py. Nothing is fetched: the pages come from the
server that is started here. Needs JupyterLab, the Python package playwright (its browsers not)
and Chromium, in PATH or named by HOLDFAST_CHROMIUM.

All waiting is for something to be seen on the page; no step sleeps for a time.
"""

import contextlib
import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))
import ports  # noqa: E402

del sys.path[0]
WAIT_MS = 60_000
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
]
SERVER_OPTIONS = [
    "--no-browser",
    "--allow-root",
    "--ServerApp.ip=127.0.0.1",
    "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    "--LabApp.extension_manager=readonly",
    "--LabApp.expose_app_in_browser=True",
]


def chromium_program():
    return (
        os.environ.get("HOLDFAST_CHROMIUM")
        or shutil.which("chromium")
        or shutil.which("chromium-browser")
    )


class Server:
    """A Jupyter server with our kernel, which `holdfast.install` has installed for it."""

    def __init__(self, directory):
        self.directory = Path(directory)
        self.work = self.directory / "work"
        self.work.mkdir()
        install = [sys.executable, "-m", "holdfast.install", "--no-check"]
        install += ["--prefix", str(self.directory)]
        subprocess.run(install, check=True, timeout=60, stdout=subprocess.DEVNULL)
        self._set("apputils-extension/notification", fetchNews="false")
        port = ports.free_port()
        self.address = f"http://127.0.0.1:{port}"
        self.log = self.directory / "server.log"
        self.token = secrets.token_hex(16)
        environment = {
            **os.environ,
            "JUPYTER_TOKEN": self.token,
            "HOME": str(self.directory),
            "JUPYTER_PATH": str(self.directory / "share" / "jupyter"),
            "JUPYTER_CONFIG_DIR": str(self.directory / "config"),
            "JUPYTER_RUNTIME_DIR": str(self.directory / "runtime"),
        }
        command = [sys.executable, "-m", "jupyterlab", *SERVER_OPTIONS]
        command += [f"--ServerApp.port={port}", f"--ServerApp.root_dir={self.work}"]
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        self._wait()

    def _set(self, plugin, **values):
        """A setting of JupyterLab's, as its settings editor writes it."""
        path = self.directory / f"config/lab/user-settings/@jupyterlab/{plugin}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values))

    def _wait(self):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            assert self.process.poll() is None, self.log.read_text()
            try:
                self.ask("/api")
                return
            except OSError:
                time.sleep(0.1)
        raise AssertionError(self.log.read_text())

    def ask(self, path, method="GET"):
        """The answer of the server's REST interface."""
        header = {"Authorization": f"token {self.token}"}
        request = urllib.request.Request(self.address + path, method=method, headers=header)
        with urllib.request.urlopen(request, timeout=60) as answer:
            body = answer.read()
        return json.loads(body) if body else None

    def session_of(self, name):
        """A notebook's session as the server knows it, with its kernel."""
        (session,) = (one for one in self.ask("/api/sessions") if one["path"] == name)
        return session

    def connection_file(self, name):
        kernel = self.session_of(name)["kernel"]["id"]
        return self.directory / "runtime" / f"kernel-{kernel}.json"

    def close(self):
        self.process.terminate()
        self.process.wait(timeout=60)


def notebook_of(cells):
    """A notebook of such codes, or pairs of a code and its outputs."""
    parts = [one if isinstance(one, tuple) else (one, []) for one in cells]
    return {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {
            "kernelspec": {
                "name": "holdfast",
                "display_name": "Holdfast (Python 3)",
                "language": "python",
            }
        },
        "cells": [
            {
                "cell_type": "code",
                "id": f"cell-{number}",
                "metadata": {},
                "source": code,
                "outputs": outputs,
                "execution_count": None,
            }
            for number, (code, outputs) in enumerate(parts)
        ],
    }


@contextlib.contextmanager
def browser_context(directory, width=1100, height=800):
    """Chromium with a profile of its own."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        context = play.chromium.launch_persistent_context(
            str(directory),
            executable_path=chromium_program(),
            headless=True,
            args=FLAGS,
            viewport={"width": width, "height": height},
        )
        context.set_default_timeout(WAIT_MS)
        yield context
        context.close()


# What is open in JupyterLab is closed, unsaved, and another notebook opened.
OPEN = """path => {
  for (const widget of [...jupyterapp.shell.widgets("main")]) widget.dispose();
  return jupyterapp.commands.execute("docmanager:open", {path}).then(() => null);
}"""


class Notebook:
    """A notebook in a page, by what is seen there: cells are counted from 0.

    In a page that has JupyterLab it takes the place of the one that is open.
    """

    def __init__(self, server, page, name, cells, view="lab"):
        self.server, self.page, self.name, self.view = server, page, name, view
        (server.work / name).write_text(json.dumps(notebook_of(cells)))
        stem = Path(name).stem
        paths = {"lab": f"/lab/workspaces/{stem}/tree/{name}", "notebook": f"/notebooks/{name}"}
        page.bring_to_front()  # a page behind others is drawn once a second
        if view == "lab" and page.evaluate("window.jupyterapp !== undefined"):
            page.evaluate(OPEN, name)
        else:
            page.goto(f"{server.address}{paths[view]}?token={server.token}")
        self.cell(len(cells) - 1).wait_for()
        kernel = page.locator(".jp-Toolbar-kernelName, .jp-KernelName", has_text="Holdfast")
        kernel.first.wait_for(state="attached")  # a narrow page hides it
        self.wait_idle()

    def end_kernel(self):
        with contextlib.suppress(ValueError):  # it has none
            self.server.ask(f"/api/sessions/{self.server.session_of(self.name)['id']}", "DELETE")

    def wait_idle(self):
        idle = self.page.locator(".jp-Notebook-ExecutionIndicator[data-status='idle']")
        idle.wait_for(state="attached")

    def cell(self, number):
        return self.page.locator(".jp-Notebook .jp-CodeCell").nth(number)

    def editor(self, number):
        return self.cell(number).locator(".cm-content").first

    def prompt(self, number):
        return self.cell(number).locator(".jp-InputPrompt").first.inner_text()

    def outputs(self, number):
        return self.cell(number).locator(".jp-OutputArea-output")

    def shown(self, number, text):
        """Wait until an output of a cell has the text."""
        self.outputs(number).filter(has_text=text).first.wait_for()

    def run(self, number):
        """Run one cell by Shift-Enter, after what runs: an error drops what is queued behind it."""
        self.wait_idle()
        self.editor(number).click()
        self.page.keyboard.press("Shift+Enter")

    def finished(self, number):
        """Wait until a cell that was begun has its number."""
        self.cell(number).locator(".jp-InputPrompt", has_text=re.compile(r"\[\d+\]")).wait_for()
        self.wait_idle()

    def write(self, number, code):
        """Type the code at the end of a cell, in which the cursor stays."""
        self.editor(number).click()
        self.page.keyboard.press("Control+End")
        self.page.keyboard.type(code)

    def complete(self, number, code):
        """Type the code and press Tab. Returns what is offered.

        JupyterLab drops what comes later than a second after Tab, and the first answer may:
        it waits for jedi to be imported.
        """
        from playwright.sync_api import TimeoutError

        offered = self.page.locator(".jp-Completer-item")
        self.write(number, code)
        for _ in range(40):
            self.page.keyboard.press("Tab")
            with contextlib.suppress(TimeoutError):
                offered.first.wait_for(timeout=1500)
                return offered
        raise AssertionError("nothing is offered")

    def menu(self, menu, item):
        self.page.get_by_role("menuitem", name=menu, exact=True).click()
        self.page.get_by_role("menuitem", name=re.compile(f"^{item}")).click()

    def run_all(self):
        self.menu("Run", "Run All Cells")

    def restart(self, item="Restart Kernel and Clear Outputs"):
        self.menu("Kernel", item)
        self.page.locator(".jp-Dialog .jp-mod-accept").click()

    def press(self, command):
        """The toolbar's button of a command such as `notebook:interrupt-kernel`."""
        self.page.locator(f".jp-NotebookPanel-toolbar [data-command='{command}']").first.click()

    def debug(self):
        """Turn the debugger on.

        While a notebook opens, JupyterLab asks the kernel for the debugger's state several
        times. It may drop a click that comes meanwhile: no request is sent for it. The debugger's
        side bar, once open, may leave the toolbar no room for the button that was pressed.
        """
        from playwright.sync_api import TimeoutError

        pressed = self.page.locator(".jp-DebuggerBugButton[aria-pressed='true']").first
        for _ in range(12):
            self.page.locator(".jp-DebuggerBugButton").first.click()
            with contextlib.suppress(TimeoutError):
                pressed.wait_for(state="attached", timeout=5_000)
                return
        raise AssertionError("the debugger isn't turned on")

    def breakpoint(self, number, line):
        """Click beside a line, counted from 1, of a cell that is debugged."""
        before = self.page.locator(".jp-DebuggerBreakpoint").count()
        text = self.cell(number).locator(".cm-line").nth(line - 1).bounding_box()
        gutter = self.cell(number).locator(".cm-gutter.cm-breakpoint-gutter").bounding_box()
        self.page.mouse.click(gutter["x"] + gutter["width"] / 2, text["y"] + text["height"] / 2)
        self.page.locator(".jp-DebuggerBreakpoint").nth(before).wait_for()

    def dialogs(self):
        return self.page.locator(".jp-Dialog").count()

    def kernel_info(self):
        """The kernel's own answer, from a client of its own."""
        from jupyter_client import BlockingKernelClient

        client = BlockingKernelClient(connection_file=str(self.server.connection_file(self.name)))
        client.load_connection_file()
        client.start_channels()
        try:
            return client.kernel_info(reply=True, timeout=60)["content"]
        finally:
            client.stop_channels()
