"""A notebook in JupyterLab, in a real browser: cells of both kinds, a restart.

Needs JupyterLab, the Python package playwright (its browsers not) and Chromium, in PATH or
named by HOLDFAST_CHROMIUM. Nothing is fetched: the page comes from the server started here.
"""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request

import pytest

from tests.conftest import write_kernelspec

pytest.importorskip("jupyterlab")
sync_api = pytest.importorskip("playwright.sync_api")

CHROMIUM = os.environ.get("HOLDFAST_CHROMIUM") or shutil.which("chromium")
if not CHROMIUM:
    pytest.skip("Chromium is not installed", allow_module_level=True)

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
WAIT_MS = 60_000
CELLS = [
    "import numpy as np\nx = np.arange(6)\nprint('sum', x.sum())",
    "%%execute_with_scorep\nx[0] = 100\nprint('instrumented', x.sum())",
    "print('plain again', x.sum())",
]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def notebook_of(cells):
    return {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {"kernelspec": {"name": "holdfast", "display_name": "Holdfast"}},
        "cells": [
            {
                "cell_type": "code",
                "id": f"cell-{number}",
                "metadata": {},
                "source": code,
                "outputs": [],
                "execution_count": None,
            }
            for number, code in enumerate(cells)
        ],
    }


@pytest.fixture
def server(tmp_path):
    """The address of a JupyterLab with only our kernel, and its directory."""
    write_kernelspec(tmp_path / "share" / "jupyter" / "kernels")
    (tmp_path / "work").mkdir()
    port = free_port()
    environment = {
        **os.environ,
        "HOME": str(tmp_path),
        "JUPYTER_PATH": str(tmp_path / "share" / "jupyter"),
        "JUPYTER_CONFIG_DIR": str(tmp_path / "config"),
        "JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime"),
    }
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"]
    command += [f"--ServerApp.port={port}", "--ServerApp.ip=127.0.0.1"]
    command += [
        "--IdentityProvider.token=",
        f"--ServerApp.root_dir={tmp_path / 'work'}",
    ]
    command += [
        "--LabApp.news_url=",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    ]
    with open(tmp_path / "server.log", "w") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    address = f"http://127.0.0.1:{port}"
    try:
        wait_for(address + "/api", process, tmp_path / "server.log")
        yield address, tmp_path / "work"
    finally:
        process.terminate()
        process.wait(timeout=30)


def wait_for(address, process, log):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text()
        try:
            urllib.request.urlopen(address, timeout=2)
            return
        except OSError:
            time.sleep(0.2)
    raise AssertionError(log.read_text())


@pytest.fixture
def page(tmp_path):
    with sync_api.sync_playwright() as play:
        context = play.chromium.launch_persistent_context(
            str(tmp_path / "profile"),
            executable_path=CHROMIUM,
            headless=True,
            args=FLAGS,
            viewport={"width": 1100, "height": 800},
        )
        context.set_default_timeout(WAIT_MS)
        yield context.pages[0] if context.pages else context.new_page()
        context.close()


def run_all(page):
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name=re.compile("^Run All Cells")).click()


def shown(page, number, text):
    """Wait until the output of a cell has the text."""
    cell = page.locator(".jp-Notebook .jp-CodeCell").nth(number)
    cell.locator(".jp-OutputArea-output", has_text=text).first.wait_for()


def prompt(page, number):
    return page.locator(".jp-Notebook .jp-CodeCell .jp-InputPrompt").nth(number).inner_text()


def test_cells_of_both_kinds_and_a_restart(server, page, tmp_path):
    address, work = server
    (work / "first.ipynb").write_text(json.dumps(notebook_of(CELLS)))
    page.goto(f"{address}/lab/tree/first.ipynb")
    page.locator(".jp-Notebook .jp-CodeCell").nth(2).wait_for()
    page.locator(".jp-Toolbar-kernelName", has_text="Holdfast").wait_for()
    page.locator(".jp-Notebook-ExecutionIndicator[data-status='idle']").wait_for()
    run_all(page)
    shown(page, 0, "sum 15")
    shown(page, 1, "instrumented 115")
    shown(page, 1, "Instrumentation results can be found in")
    shown(page, 2, "plain again 115")
    assert [prompt(page, number) for number in range(3)] == ["[1]:", "[2]:", "[3]:"]
    page.screenshot(path=str(tmp_path / "cells.png"))

    page.get_by_role("menuitem", name="Kernel", exact=True).click()
    page.get_by_role("menuitem", name=re.compile("^Restart Kernel and Clear Outputs")).click()
    page.get_by_role("button", name=re.compile("^Confirm")).or_(
        page.locator(".jp-Dialog .jp-mod-accept")
    ).first.click()
    page.locator(".jp-Notebook .jp-OutputArea-output").first.wait_for(state="detached")
    run_all(page)
    shown(page, 2, "plain again 115")
    assert prompt(page, 0) == "[1]:"
