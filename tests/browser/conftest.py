"""One server for all tests here; each test has a notebook, and so a kernel, of its own.

The browser ends with each module: playwright runs an event loop, beside which no other test could have one. Each
test leaves a picture of what was seen, `NAME.png` in the server's directory. Where there is no JupyterLab,
playwright or Chromium, the tests are skipped.
"""

import re

import pytest

from tests.browser import lab


@pytest.fixture(autouse=True)
def no_thread_is_left():
    """Playwright's loop has threads of its own, which end with the browser."""


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    pytest.importorskip("jupyterlab")
    pytest.importorskip("playwright.sync_api")
    if not lab.chromium_program():
        pytest.skip("Chromium is not installed")
    server = lab.Server(tmp_path_factory.mktemp("lab"))
    yield server
    server.close()


@pytest.fixture(scope="module")
def browser(server, tmp_path_factory):
    with lab.browser_context(tmp_path_factory.mktemp("chromium")) as context:
        yield context


@pytest.fixture(scope="module")
def browser_alone(tmp_path_factory):
    """A browser for pages that need no server."""
    pytest.importorskip("playwright.sync_api")
    if not lab.chromium_program():
        pytest.skip("Chromium is not installed")
    with lab.browser_context(tmp_path_factory.mktemp("chromium")) as context:
        yield context


@pytest.fixture
def opened(server, browser, request):
    """A function that opens a notebook of the given cells."""
    page = browser.new_page()
    name = "_".join(re.findall(r"\w+", request.node.name.removeprefix("test_")))

    def opened(*cells, view="lab"):
        return lab.Notebook(server, page, f"{name}.ipynb", cells, view)

    yield opened
    page.screenshot(path=str(server.directory / f"{name}.png"))
    page.close()
    server.end_kernels()
