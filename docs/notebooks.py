"""Makes examples/tutorial.ipynb from docs/tutorial.md, and runs it.

    python docs/notebooks.py

Each block of Python on the page is a cell, and the outputs are those of one run. Text that depends
on this machine is replaced: the paths of the experiments and of the standard library. The drawing
of %trace is left out except its still picture: it would be 200 KB a cell.

The page quotes the outputs, and README.md the times. Both are written anew: a block of text after a
cell is as many of the first lines of its output as it had before, and a line of README.md that begins
with `In [N]` ends with what that cell took. tests/test_tutorial.py compares them all. docs/pictures/make.py does
the same with the run of which it makes a picture; after this program alone, that picture is of another run.
"""

import re
import sys
import sysconfig
import tempfile
from pathlib import Path

import nbclient
import nbformat

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "tutorial.md"
README = ROOT / "README.md"
NOTEBOOK = ROOT / "examples" / "tutorial.ipynb"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
KERNEL = {"name": "holdfast", "display_name": "Holdfast (Python 3)", "language": "python"}


def cells_of(page):
    """The code of a page's blocks of Python."""
    return [block.rstrip("\n") for block in BLOCK.findall(page.read_text("utf-8"))]


def build(page):
    """The notebook of a page, without outputs: its text and its code in turn."""
    cells = []
    for number, part in enumerate(BLOCK.split(page.read_text("utf-8"))):
        if number % 2:
            cells.append(nbformat.v4.new_code_cell(part.rstrip("\n"), id=f"cell-{number}"))
        elif text := re.sub(r"^(```text\n.*?^```|!\[.*)$", "", part, flags=re.M | re.S).strip():
            cells.append(nbformat.v4.new_markdown_cell(linked(text), id=f"text-{number}"))
    return nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": KERNEL})


def linked(text):
    """The page's links, as they are from examples/."""
    text = re.sub(r"\]\((?!\.\./)(\w[\w/-]*\.md)", r"](../docs/\1", text)
    return re.sub(r"\n{3,}", "\n\n", text.replace("](../examples/", "]("))


def run(notebook, directory, kernel="holdfast"):
    """Run it in a directory, with errors as outputs."""
    nbclient.NotebookClient(
        notebook,
        kernel_name=kernel,
        timeout=240,
        allow_errors=True,
        resources={"metadata": {"path": str(directory)}},
    ).execute()


def outputs(cell, directory):
    """The text that a cell shows."""
    texts = [
        output["text"] if "text" in output else output.get("data", {}).get("text/plain", "")
        for output in cell.outputs
    ]
    return [text.replace(f"{directory}/", "/notebooks/").rstrip("\n") for text in texts]


def quoted(text, shown):
    """A page whose blocks of text are what its cells have shown; `shown` has the texts of each."""
    number = -1

    def quote(match):
        nonlocal number
        if match["code"]:
            number += 1
            return match[0]
        lines = match["text"].splitlines()
        rest = lines[-1] == "..."
        wanted = "\n".join(shown[number]).splitlines()[: len(lines) - rest]
        return "\n".join(["```text", *wanted, *["..."] * rest, "```"])

    pattern = r"```(?:python\n(?P<code>.*?)|text\n(?P<text>.*?))\n```"
    return re.sub(pattern, quote, text, flags=re.DOTALL)


def timed(text, shown):
    """README.md with the times of these cells."""

    def replace(match):
        line = next(line for line in shown[int(match[2]) - 1] if " cores; " in line)
        return match[1].ljust(62) + line.partition(" on ")[0].rjust(7)

    return re.sub(r"^(In \[(\d+)\].*?) +[\d.]+ m?s$", replace, text, flags=re.MULTILINE)


def write(notebook, directory):
    """Write the executed notebook, and what the pages quote of it. It ran in this directory."""
    library = sysconfig.get_path("stdlib")
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if "image/svg+xml" in data:
                data.pop("text/html")
                data.pop("application/pdf", None)
            for place in (output, data):
                for kind in place.keys() & {"text", "text/plain"}:
                    text = place[kind].replace(f"{directory}/", "/notebooks/")
                    place[kind] = text.replace(library, "/usr/lib/python3.11")
    notebook.metadata.pop("language_info", None)
    nbformat.write(notebook, NOTEBOOK)
    shown = [outputs(cell, directory) for cell in notebook.cells if cell.cell_type == "code"]
    PAGE.write_text(quoted(PAGE.read_text("utf-8"), shown), "utf-8")
    README.write_text(timed(README.read_text("utf-8"), shown), "utf-8")


def main():
    notebook = build(PAGE)
    with tempfile.TemporaryDirectory() as directory:
        run(notebook, directory)
    write(notebook, directory)


if __name__ == "__main__":
    sys.exit(main())
