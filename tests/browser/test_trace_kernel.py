"""A view that asks the kernel which showed it: more detail where one zooms in, and exact sums of a range."""

import re

RECORDED = """%%execute_with_scorep
def leaf(n):
    return n

def work():
    for n in range(300_000):
        leaf(n)

work()
"""


def opened_trace(opened):
    notebook = opened(RECORDED, "%trace")
    notebook.run(0)
    notebook.finished(0)
    notebook.run(1)
    root = notebook.cell(1).locator(".holdfast-views .views")
    root.wait_for()
    root.locator("canvas.flame").wait_for()
    return notebook, root


def zoom_in(notebook, root, times):
    """With the mouse in the middle of the calls of leaf, the third row of the track."""
    canvas = root.locator("canvas.flame")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    notebook.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 45)
    root.focus()
    for _ in range(times):
        notebook.page.keyboard.press("w")


def notes(notebook, root):
    """What the notes say of the calls around the middle; there may be gaps between them."""
    box = root.locator("canvas.flame").bounding_box()
    found = []
    for by in range(-20, 20):
        notebook.page.mouse.move(box["x"] + box["width"] / 2 + by, box["y"] + 45)
        if root.locator(".note").is_visible():
            found.append(root.locator(".note").inner_text())
    assert found
    return found


def test_zooming_in_fetches_more_and_a_range_is_counted_in_the_trace(opened):
    notebook, root = opened_trace(opened)
    status = root.locator(".more[role=status]")
    zoom_in(notebook, root, 0)
    joined = re.compile(r"[\d,]+ short calls, most of their time in __main__:leaf")
    assert any(joined.match(note) for note in notes(notebook, root))
    asked = notebook.page.locator(".jp-Notebook .jp-Cell").count()

    zoom_in(notebook, root, 20)
    frames = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
    notebook.page.evaluate(frames)  # it says then that more is to come
    notebook.page.wait_for_function(
        "status => status.textContent === ''", arg=status.element_handle()
    )
    for note in notes(notebook, root):
        assert note.startswith("__main__:leaf") and re.search(r"lasts\s*[\d.]+ .?s", note)
    assert notebook.page.locator(".jp-Notebook .jp-Cell").count() == asked
    assert notebook.prompt(1) == "[2]:", "no command was run"

    root.focus()
    notebook.page.keyboard.press("0")
    box = root.locator("canvas.flame").bounding_box()
    notebook.page.keyboard.down("Shift")
    notebook.page.mouse.move(box["x"] + 1, box["y"] + 45)
    notebook.page.mouse.down()
    notebook.page.mouse.move(box["x"] + box["width"] - 1, box["y"] + 45, steps=3)
    notebook.page.mouse.up()
    notebook.page.keyboard.up("Shift")
    selected = root.locator(".selected")
    selected.get_by_text("joined are a line of their own").wait_for(state="detached")
    row = selected.locator("tr", has_text="__main__:leaf")
    visits = int(row.locator("td").last.inner_text().replace(",", ""))
    assert 290_000 < visits <= 300_000


def test_without_its_kernel_a_view_names_the_command(opened):
    notebook, root = opened_trace(opened)
    notebook.server.end_kernels()
    zoom_in(notebook, root, 20)
    status = root.locator(".more[role=status]")
    status.filter(has_text=re.compile(r"%trace 1 --range [\d.]+:[\d.]+")).wait_for()
    assert any("short calls" in note for note in notes(notebook, root))
