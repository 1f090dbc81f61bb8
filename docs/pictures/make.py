"""Makes the pictures of docs/ from the real thing: JupyterLab in Chromium.

    python docs/pictures/make.py [NAME ...]

Needs what tests/browser needs: this package, JupyterLab, ipywidgets, matplotlib, scikit-learn,
playwright, Pillow and Chromium. Each picture is one notebook, run from its first cell to its last. Those
with views are made in light and in dark (NAME-dark.png).

`timeline` is of the tutorial. Its run also gives the outputs of examples/tutorial.ipynb, docs/tutorial.md and
README.md, as docs/notebooks.py writes them: so the texts and the picture have the same figures. Each picture keeps
in its file, as the text `line`, the line of cost that it shows, and tests/test_docs.py compares that with the page.
"""

import io
import re
import sys
import tempfile
from pathlib import Path

import nbformat
from PIL import Image, PngImagePlugin

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent.parent)]

import notebooks  # noqa: E402
from tests.browser import lab  # noqa: E402

MOST_BYTES = 60 * 1024
COST = re.compile(r"^[\d.]+ (?:µs|ms|s) on .*$", re.MULTILINE)
DARK = ("timeline", "trace")
RECORD = "%%execute_with_scorep\n"

PICTURES = {
    "timeline": (
        *notebooks.cells_of(notebooks.PAGE)[:4],  # of the tutorial
    ),
    "cells": (
        "import numpy as np\nx = np.ones(50_000_000)\nalias = x",
        RECORD + "import scorep.user\n\n"
        'with scorep.user.region("scale"):\n    x[:10] *= 3\n\nprint(x[:12].sum())',
        "x is alias, alias[:12].sum()",
        "%holdfast last",
    ),
    "status": (
        "import pandas as pd\n"
        "table = pd.DataFrame({'n': range(200_000)})\n"
        "column = table['n']\n"
        "squares = (n * n for n in range(10))",
        RECORD + "total = table['n'].sum()",
        "%holdfast",
    ),
    "trace": (
        "%perfmonitor_start 0.01\n"
        "import json, random\n"
        "def parse(text): return json.loads(text)\n"
        "def build(n): return [json.dumps({'n': i, 'x': random.random()}) for i in range(n)]\n"
        "def total(lines): return sum(parse(line)['x'] for line in lines)",
        RECORD + "for n in 5000, 20000, 10000:\n    lines = build(n)\n    total(lines)",
        "%trace",
        "%trace --view flame",
    ),
    "dies": (
        "kept = list(range(5))",
        RECORD + "import os, signal\nkept.clear()\nos.kill(os.getpid(), signal.SIGKILL)",
        "kept",
    ),
    "unserializable": (
        "squares = (n * n for n in range(10))",
        RECORD.replace("\n", " --run=isolated\n") + "next(squares)",
        RECORD + "next(squares)",
        "next(squares)",
    ),
}


# The first cell that a picture shows; 0 unless it is here.
FIRST = {"timeline": 2}


def shoot(notebook, name, count, suffix=""):
    """The cells of a notebook as a picture with few colours, which text doesn't miss."""
    panel = notebook.page.locator(".jp-WindowedPanel-viewport").first
    top, last = panel.bounding_box(), notebook.cell(count - 1).bounding_box()
    begin = notebook.cell(FIRST[name]).bounding_box()["y"] if name in FIRST else top["y"] + 2
    clip = {**top, "y": begin, "height": last["y"] + last["height"] - begin - 1}
    notebook.page.mouse.move(0, 0)
    image = Image.open(io.BytesIO(notebook.page.screenshot(clip=clip))).convert("RGB")
    path = HERE / f"{name}{suffix}.png"
    told = PngImagePlugin.PngInfo()
    shown = COST.findall("\n".join(notebook.cell(at).inner_text() for at in range(count)))
    told.add_itxt("line", shown[0].partition(" · ")[0] if shown else "")
    image.quantize(32).save(path, optimize=True, pnginfo=told)
    assert path.stat().st_size <= MOST_BYTES, (path.name, path.stat().st_size)
    print(path.name, path.stat().st_size, "bytes")


def shoot_all(notebook, name, count):
    """In light, and in dark where that is wanted: JupyterLab does as the system does."""
    body = notebook.page.locator("body")
    for scheme in ("light", "dark") if name in DARK else ("light",):
        notebook.page.emulate_media(color_scheme=scheme)
        is_light = str(scheme == "light").lower()
        notebook.page.locator(f"body[data-jp-theme-light={is_light}]").wait_for(state="attached")
        body.evaluate(
            "() => new Promise(done => requestAnimationFrame(() => setTimeout(done, 500)))"
        )
        shoot(notebook, name, count, "" if scheme == "light" else "-dark")


def write_tutorial(notebook, server):
    """Run the tutorial's other cells, and write the outputs of all where they are quoted."""
    cells = notebooks.cells_of(notebooks.PAGE)
    for number in range(len(PICTURES["timeline"]), len(cells)):
        notebook.run(number)
        notebook.finished(number)
    notebook.page.keyboard.press("Control+s")
    path = server.work / notebook.name
    for _ in range(100):
        ran = nbformat.read(path, as_version=4).cells[: len(cells)]  # there is a new one below them
        if all(cell.execution_count for cell in ran):
            break
        notebook.page.wait_for_timeout(100)
    made = notebooks.build(notebooks.PAGE)
    code = (cell for cell in made.cells if cell.cell_type == "code")
    for cell, one in zip(code, ran, strict=True):
        cell.outputs, cell.execution_count = one.outputs, one.execution_count
    notebooks.write(made, server.work)


def main(names):
    with tempfile.TemporaryDirectory(prefix="jupyter-") as directory:
        server = lab.Server(directory)
        server._set("apputils-extension/themes", **{"adaptive-theme": True})
        try:
            with lab.browser_context(Path(directory) / "profile", 1000, 2200) as context:
                for name in names or PICTURES:
                    cells = PICTURES[name]
                    page = context.new_page()
                    all_ = notebooks.cells_of(notebooks.PAGE) if name == "timeline" else cells
                    notebook = lab.Notebook(server, page, f"{name}.ipynb", all_)
                    page.keyboard.press("Control+b")  # hides the side bar
                    for number in range(len(cells)):
                        notebook.run(number)
                        notebook.finished(number)
                    shoot_all(notebook, name, len(cells))
                    if name == "timeline":
                        write_tutorial(notebook, server)
                    page.close()
                    notebook.end_kernel()
        finally:
            server.close()


if __name__ == "__main__":
    main(sys.argv[1:])
