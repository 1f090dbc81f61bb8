"""One server and one browser for all tests here; in its first page JupyterLab is loaded once.

A test opens its notebook there, with a kernel of its own. The browser ends with the last test of this directory:
playwright runs an event loop, beside which no test elsewhere could have one. A test that fails leaves a picture of
what was seen, `NAME.png` in the server's directory, and the next one has another page. Where there is no JupyterLab, playwright
or Chromium, the tests are skipped.
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
    server = lab.Server(tmp_path_factory.mktemp("lab"))
    yield server
    server.close()


@pytest.fixture(scope="package")
def browser(tmp_path_factory):
    pytest.importorskip("playwright.sync_api")
    if not lab.chromium_program():
        pytest.skip("Chromium is not installed")
    with lab.browser_context(tmp_path_factory.mktemp("chromium")) as context:
        yield context


@pytest.fixture(scope="package")
def pages():
    """The page of each kind that the next test goes on with."""
    return {}


@pytest.fixture
def opened(browser, server, pages, request):
    """A function that opens a notebook of the given cells, and closes the one before it."""
    name = "_".join(re.findall(r"\w+", request.node.name.removeprefix("test_")))
    made = []

    def opened(*cells, view="lab"):
        if view not in pages:
            pages[view] = browser.new_page()
        made.append(lab.Notebook(server, pages[view], f"{name}.ipynb", cells, view))
        return made[-1]

    yield opened
    for notebook in made:
        if request.node.has_failed:
            notebook.page.screenshot(path=str(server.directory / f"{name}.png"))
            pages.pop(notebook.view).close()
        notebook.end_kernel()
