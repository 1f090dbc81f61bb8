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
DOWN = 45  # px: the calls of leaf are the third row of the track
STEPS = 26  # of zooming in
JOINED = re.compile(r"[\d,]+ short calls, most of their time in __main__:leaf")


class Trace:
    """A recorded cell's view in a notebook."""

    def __init__(self, opened):
        self.notebook = opened(RECORDED, "%trace")
        self.page = self.notebook.page
        self.notebook.run(0)
        self.notebook.finished(0)
        self.notebook.run(1)
        self.root = self.notebook.cell(1).locator(".holdfast-views .views")
        self.canvas = self.root.locator("canvas.flame")
        self.canvas.wait_for()
        self.status = self.root.locator(".more[role=status]")
        self.canvas.scroll_into_view_if_needed()

    def note(self, x):
        """What is said of the call there; "" of none."""
        box = self.canvas.bounding_box()
        self.page.mouse.move(box["x"] + x, box["y"] + DOWN)
        note = self.root.locator(".note")
        return note.inner_text() if note.is_visible() else ""

    def joined(self):
        """Where calls are joined. The mouse stays there."""
        middle = int(self.canvas.bounding_box()["width"] / 2)
        return next(x for x in range(middle, 2 * middle) if JOINED.match(self.note(x)))

    def zoom_in(self):
        self.root.focus()
        for _ in range(STEPS):
            self.page.keyboard.press("w")
        frames = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
        self.page.evaluate(frames)  # it says then that more is to come

    def around(self, x):
        """What is said of the calls near there."""
        return [note for at in range(x - 15, x + 15) if (note := self.note(at))]


def test_zooming_in_fetches_more_and_a_range_is_counted_in_the_trace(opened):
    trace = Trace(opened)
    page, root = trace.page, trace.root
    asked = page.locator(".jp-Notebook .jp-Cell").count()
    x = trace.joined()
    trace.zoom_in()
    page.wait_for_function("told => told.textContent === ''", arg=trace.status.element_handle())
    found = trace.around(x)
    assert found
    for note in found:
        assert note.startswith("__main__:leaf") and re.search(r"lasts\s*[\d.]+ .?s", note)
    assert page.locator(".jp-Notebook .jp-Cell").count() == asked
    assert trace.notebook.prompt(1) == "[2]:", "no command was run"

    root.focus()
    page.keyboard.press("0")
    box = trace.canvas.bounding_box()
    page.keyboard.down("Shift")
    page.mouse.move(box["x"] + 1, box["y"] + DOWN)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] - 1, box["y"] + DOWN, steps=3)
    page.mouse.up()
    page.keyboard.up("Shift")
    selected = root.locator(".selected")
    selected.get_by_text("joined are a line of their own").wait_for(state="detached")
    row = selected.locator("tr", has_text="__main__:leaf")
    visits = int(row.locator("td").last.inner_text().replace(",", ""))
    assert 280_000 < visits <= 300_000


def test_without_its_kernel_a_view_names_the_command(opened):
    trace = Trace(opened)
    trace.notebook.menu("Kernel", "Shut Down Kernel")
    trace.page.locator(".jp-Toolbar-kernelName", has_text="No Kernel").wait_for()
    x = trace.joined()
    trace.zoom_in()
    trace.status.filter(has_text=re.compile(r"%trace 1 --range [\d.]+:[\d.]+")).wait_for()
    assert any(JOINED.match(note) for note in trace.around(x))
