"""A view that asks the kernel which showed it: more detail where one zooms in, and exact sums of a range."""

import re

import pytest
from even_times import even_times
from waiting import trace_written

from tests.browser import lab
from tests.browser.test_views import BORDER, CHANGES, MARKED

RECORDED = """%%execute_with_scorep
def leaf(n):
    return n

def work():
    for n in range(300_000):
        leaf(n)

work()
"""
PACKS = """%%execute_with_scorep
def item(number):
    return number

def dumps(number):
    return number

def loads(number):
    return item(item(number))

def pack(count):
    for number in range(count):
        loads(dumps(number))

pack(60_000)
"""
MANY = """%%execute_with_scorep
import multiprocessing, threading

def leaf(n):
    return sum(range(n % 50))

def work(count):
    for n in range(count):
        leaf(n)

threads = [threading.Thread(target=work, args=(3000,), name=f"worker-{at}") for at in range(20)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
with multiprocessing.get_context("fork").Pool(4) as pool:
    pool.map(work, [3000] * 8)
"""
CELLS = (RECORDED, "%trace", "%trace --view sandwich", PACKS, "%trace", MANY, "%trace", "%trace 1")
DOWN = 45  # px: the calls of leaf are the third row of the track
STEPS = 26  # of zooming in
# What the view says where a mouse would be: hundreds of places in one call. For a mouse each takes 20 ms.
NOTES = """(root, [places, down]) => {
  const canvas = root.querySelector("canvas.flame"), {left, top} = canvas.getBoundingClientRect();
  return places.map((x) => {
    const place = {clientX: left + x, clientY: top + down, bubbles: true};
    canvas.dispatchEvent(new PointerEvent("pointermove", place));
    const note = root.querySelector(".note");
    return note?.checkVisibility() ? note.innerText : "";
  });
}"""
JOINED = re.compile(r"[\d,]+ short calls, most of their time in __main__:leaf")


class Trace:
    """The view of a recorded cell in a notebook, which the cell behind it shows. With `even`, each of its
    events comes a step after the one before."""

    def __init__(self, notebook, recorded=0, even=False):
        self.notebook, self.page = notebook, notebook.page
        self.errors = []
        self.page.on("console", lambda line: line.type == "error" and self.errors.append(line.text))
        self.notebook.run(recorded)
        self.notebook.finished(recorded)
        experiments = self.notebook.server.work.glob("scorep-*/")
        self.experiment = max(experiments, key=lambda path: path.stat().st_mtime_ns)
        trace_written(self.experiment)
        if even:
            even_times(self.experiment)
        self.show(recorded + 1)

    def show(self, number):
        """Run the cell that shows it."""
        self.notebook.run(number)
        self.root = self.views(number)
        self.canvas = self.root.locator("canvas.flame").first
        self.canvas.wait_for()
        self.status = self.root.locator(".more[role=status]")
        self.canvas.scroll_into_view_if_needed()

    def views(self, number):
        return self.notebook.cell(number).locator(".holdfast-views .views")

    def note(self, x, down=DOWN):
        """What is said of the call there; "" of none."""
        box = self.canvas.bounding_box()
        self.page.mouse.move(box["x"] + x, box["y"] + down)
        note = self.root.locator(".note")
        return note.inner_text() if note.is_visible() else ""

    def notes(self, places, down=DOWN):
        """What is said of the call at each of these places."""
        return self.root.evaluate(NOTES, [list(places), down])

    def joined(self):
        """Where calls are joined, in the right half. The mouse stays there."""
        width = int(self.canvas.bounding_box()["width"])
        around = (-4, 4, 0)  # a block that is close is found, too

        def found():
            notes = self.notes(range(width))
            xs = range(width // 2, width - max(around))
            return [x for x in xs if all(JOINED.match(notes[x + by]) for by in around)]

        while not (xs := found()):  # it is drawn anew
            self.page.wait_for_timeout(100)
        assert JOINED.match(self.note(xs[0]))
        return xs[0]

    def press(self, *keys):
        self.root.focus()
        for key in keys:
            self.page.keyboard.press(key)
        frames = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
        self.page.evaluate(frames)  # it says then that more is to come

    def zoom_in(self, notes):
        """Zoom in where calls are joined; `notes(x)`, what is said of those near there."""
        x = self.joined()
        self.press(*["w"] * STEPS)
        while not (found := notes(x)):
            self.page.wait_for_timeout(100)
        return found

    def around(self, x):
        """What is said of the calls near there: within half of the width, since on a slow machine a call is wide."""
        reach = int(self.canvas.bounding_box()["width"]) // 4
        return [note for note in self.notes(range(x - reach, x + reach, 3)) if note]


@pytest.fixture(scope="module")
def traces():
    """The trace of RECORDED, made for the first test that looks at it; its notebook has the other cells."""
    return []


@pytest.fixture
def trace(server, browser, traces, request):
    """It, all of it in sight; another one after a test that failed."""
    if not traces:
        notebook = lab.Notebook(server, browser.new_page(), "joined.ipynb", CELLS)
        traces.append(Trace(notebook, even=True))
    trace = traces[0]
    trace.press("0")
    trace.page.mouse.move(5, 5)
    yield trace
    if request.node.has_failed:
        trace.page.screenshot(path=str(server.directory / f"{request.node.name}.png"))
        traces.clear()


def test_a_loop_of_short_calls_is_summed_and_looks_joined(trace):
    """In the overview a call of leaf is a hundredth of a pixel, and dozens of joined blocks lie on one."""
    width = int(trace.canvas.bounding_box()["width"])
    places = range(5, width, 5)
    notes = {x: note.split("\n")[0] for x, note in zip(places, trace.notes(places), strict=True)}
    counts = {
        note: int(note.split()[0].replace(",", "")) for note in notes.values() if JOINED.match(note)
    }
    longest = max(counts, key=counts.get)
    assert 300_000 <= counts[longest] <= sum(counts.values()) <= 300_002  # with what is around it
    trace.page.mouse.move(5, 5)
    ends = [x for x, note in notes.items() if note == longest]
    part = [(min(ends) + 2) / width, (max(ends) + 8) / width]
    hairlines = (part[1] - part[0]) * width / 4
    assert trace.canvas.evaluate(CHANGES, [*part, DOWN + 5]) > hairlines, "it looks joined"
    # What fills the width already is zoomed into by a click.
    x = trace.joined()
    before = trace.root.get_attribute("aria-label")
    box = trace.canvas.bounding_box()
    trace.page.mouse.click(box["x"] + x, box["y"] + DOWN)
    trace.page.wait_for_function(
        "([root, label]) => root.getAttribute('aria-label') !== label",
        arg=[trace.root.element_handle(), before],
    )


def test_zooming_in_fetches_more_and_a_range_is_counted_in_the_trace(trace):
    page, root = trace.page, trace.root
    asked = page.locator(".jp-Notebook .jp-Cell").count()

    def notes(x):
        told = trace.status.element_handle()
        page.wait_for_function("told => told.textContent === ''", arg=told)
        return trace.around(x)

    for note in trace.zoom_in(notes):
        assert note.startswith("__main__:leaf") and re.search(r"lasts\s*[\d.]+ .?s", note)
    assert not [error for error in trace.errors if "omm" in error], "JupyterLab hears the answers"
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


def test_callers_and_callees_by_the_command(trace):
    trace.notebook.run(2)
    root = trace.views(2)
    tab = root.get_by_role("tab", selected=True)
    tab.wait_for()
    assert tab.inner_text() == "Callers and callees"
    heads = root.locator(".summary thead th")
    texts = ["Direct callers", "Time", "% of its time", "Calls"]
    assert heads.all_inner_texts()[:4] == texts
    boxes = [one.bounding_box() for one in heads.all()[:4]]
    for text, box in zip(texts, boxes, strict=True):
        assert box["width"] >= 5 * len(text) + 12, "heads don't touch each other"


def test_the_keys_are_the_views_while_the_mouse_rests_on_it(trace):
    notebook, page, root = trace.notebook, trace.page, trace.root
    cells = page.locator(".jp-Notebook .jp-Cell")
    texts = [notebook.editor(at).inner_text() for at in (0, 1)]
    count = cells.count()
    whole = root.get_attribute("aria-label")

    def changed(label):
        page.wait_for_function(
            "([root, label]) => root.getAttribute('aria-label') !== label",
            arg=[root.element_handle(), label],
        )
        return root.get_attribute("aria-label")

    def untouched():
        assert cells.count() == count
        assert [notebook.editor(at).inner_text() for at in (0, 1)] == texts

    # A cell is selected, as after Shift-Enter: `a` would insert one, `dd` delete it.
    notebook.cell(1).locator(".jp-InputPrompt").first.click()
    page.keyboard.press("Escape")
    trace.note(300)
    for key in ("a", "b", "d", "d", "x", "m", "Shift+M", "Delete"):
        page.keyboard.press(key)
    untouched()
    page.keyboard.press("0")
    page.keyboard.press("w")
    zoomed = changed(whole)
    assert not root.locator(".note").is_visible(), "it was of what is elsewhere now"

    # The cursor is in an editor, and the mouse is moved to the view.
    page.mouse.move(5, 5)
    notebook.editor(1).click()
    trace.note(350)
    page.keyboard.type("ws")
    page.keyboard.press("d")
    page.keyboard.press("Backspace")
    page.keyboard.press("Enter")
    changed(zoomed)
    untouched()
    # Away from the view the keys are the editor's. Enter goes back to it with the mouse over the view.
    page.mouse.move(5, 5)
    page.keyboard.type(" # w")
    assert notebook.editor(1).inner_text() == "%trace # w"
    page.keyboard.press("Escape")
    trace.note(200)
    page.keyboard.press("Enter")
    page.locator(".jp-Notebook.jp-mod-editMode").wait_for()
    page.keyboard.press("Control+End")
    page.keyboard.type("d")
    assert notebook.editor(1).inner_text() == "%trace # wd"
    # A key that runs a cell stays the notebook's.
    page.keyboard.press("Control+Enter")
    notebook.cell(1).locator(".jp-InputPrompt", has_text=re.compile(r"\[[3-9]\]")).wait_for()
    notebook.editor(1).click()  # the next test finds a view there
    page.keyboard.press("Control+a")
    page.keyboard.type("%trace")
    page.keyboard.press("Control+Enter")
    trace.canvas.wait_for()


def test_a_search_outlines_what_it_found_among_joined_calls(trace):
    trace = Trace(trace.notebook, CELLS.index(PACKS), even=True)
    page, root = trace.page, trace.root
    search, count = root.get_by_role("searchbox"), root.locator(".count")
    search.fill("loads")
    count.get_by_text("1 region, 60,000 calls").wait_for()
    for place in range(1, 5):
        search.press("Enter")
        count.get_by_text(
            re.compile(rf"^{place} of [\d,]+ blocks \(joined calls are one\)")
        ).wait_for()
        page.wait_for_function("() => new Promise((done) => setTimeout(() => done(true), 250))")
        page.wait_for_function("told => told.textContent === ''", arg=trace.status.element_handle())
        found = trace.canvas.evaluate(BORDER, MARKED)
        assert found, "it is outlined"
        left, right, top = found
        note = trace.note((left + right) / 2, top + 9)
        first = note.split("\n")[0]
        assert first == "__main__:loads" or first.endswith("in __main__:loads"), note
        page.mouse.move(5, 5)
    # There is something around it: it didn't go down to a single call.
    assert right - left < 0.7 * trace.canvas.bounding_box()["width"]
    assert trace.errors == []


def test_the_thread_that_ran_the_cell_is_seen_first(trace):
    trace = Trace(trace.notebook, CELLS.index(MANY))
    root = trace.root
    lanes = root.locator(".lane:not(.more)")
    names = lanes.all_inner_texts()
    process = names[0].split(" · ")[0]
    # Beside the workers there are the pool's own threads.
    assert re.fullmatch(rf"{process} · \d\d threads", names[0])
    assert names[1] == "MainThread" and lanes.nth(1).get_attribute("aria-expanded") == "true"
    assert lanes.first.evaluate("one => one.scrollWidth <= one.clientWidth"), "its name isn't cut"
    assert sum(name.startswith("Process") for name in names) == 5, "and all processes"
    cell = trace.note(trace.canvas.bounding_box()["width"] / 2, 20 + 9)
    assert cell.startswith("cell In" + trace.notebook.prompt(CELLS.index(MANY)).rstrip(":"))
    rows = root.locator(".rows").bounding_box()
    last = lanes.last.bounding_box()
    assert last["y"] < rows["y"] + rows["height"]


def test_without_its_kernel_a_view_names_the_command(trace, traces):
    traces.clear()
    trace.show(len(CELLS) - 1)
    trace.notebook.menu("Kernel", "Shut Down Kernel")
    trace.page.locator(".jp-Toolbar-kernelName", has_text="No Kernel").wait_for()

    def notes(x):
        trace.status.filter(has_text=re.compile(r"%trace 1 --range [\d.]+:[\d.]+")).wait_for()
        return [note for note in trace.around(x) if JOINED.match(note)]

    trace.zoom_in(notes)
