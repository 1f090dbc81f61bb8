"""Makes the pictures of docs/ from the real thing: JupyterLab in Chromium.

    python docs/pictures/make.py [NAME ...]

Needs what tests/browser needs: this package, JupyterLab, ipywidgets, matplotlib, scikit-learn,
playwright, Pillow and Chromium. Each picture is one notebook, run from its first cell to its last.
"""

import io
import sys
import tempfile
from pathlib import Path

from PIL import Image

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent.parent)]

from notebooks import PAGE, cells_of  # noqa: E402
from tests.browser import lab  # noqa: E402

MOST_BYTES = 60 * 1024
RECORD = "%%execute_with_scorep\n"

PICTURES = {
    "timeline": (
        *cells_of(PAGE)[:4],  # of the tutorial
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


def shoot(notebook, name, count):
    """The cells of a notebook as a picture with few colours, which text doesn't miss."""
    panel = notebook.page.locator(".jp-WindowedPanel-viewport").first
    top, last = panel.bounding_box(), notebook.cell(count - 1).bounding_box()
    begin = notebook.cell(FIRST[name]).bounding_box()["y"] if name in FIRST else top["y"] + 2
    clip = {**top, "y": begin, "height": last["y"] + last["height"] - begin - 1}
    notebook.page.mouse.move(0, 0)
    image = Image.open(io.BytesIO(notebook.page.screenshot(clip=clip))).convert("RGB")
    path = HERE / f"{name}.png"
    image.quantize(32).save(path, optimize=True)
    assert path.stat().st_size <= MOST_BYTES, (name, path.stat().st_size)
    print(path.name, path.stat().st_size, "bytes")


def main(names):
    with tempfile.TemporaryDirectory(prefix="jupyter-") as directory:
        server = lab.Server(directory)
        try:
            with lab.browser_context(Path(directory) / "profile", 1000, 2200) as context:
                for name in names or PICTURES:
                    cells = PICTURES[name]
                    page = context.new_page()
                    notebook = lab.Notebook(server, page, f"{name}.ipynb", cells)
                    page.keyboard.press("Control+b")  # hides the side bar
                    for number in range(len(cells)):
                        notebook.run(number)
                        notebook.finished(number)
                    shoot(notebook, name, len(cells))
                    page.close()
                    server.end_kernels()
        finally:
            server.close()


if __name__ == "__main__":
    main(sys.argv[1:])
