"""What a person does in JupyterLab, in a real browser, with cells of both kinds."""

import effort
import pytest

RECORD = "%%execute_with_scorep\n"
RECORD_IN_PROCESS = "%%execute_with_scorep --run=in-process\n"
RECORD_APART = "%%execute_with_scorep --run=isolated\n"


def both(code):
    """The cell as a plain and as a recorded one."""
    return code, RECORD + code


def test_cells_of_both_kinds_and_a_restart(opened):
    notebook = opened(
        "import numpy as np\nx = np.arange(6)\nprint('sum', x.sum())",
        RECORD + "x[0] = 100\nprint('instrumented', x.sum())",
        "print('plain again', x.sum())",
    )
    notebook.run_all()
    notebook.shown(0, "sum 15")
    notebook.shown(1, "instrumented 115")
    notebook.shown(1, "Instrumentation results can be found in")
    notebook.shown(2, "plain again 115")
    notebook.finished(2)
    assert [notebook.prompt(number) for number in range(3)] == ["[1]:", "[2]:", "[3]:"]

    notebook.restart()
    notebook.outputs(0).first.wait_for(state="detached")
    notebook.run_all()
    notebook.shown(2, "plain again 115")
    assert notebook.prompt(0) == "[1]:"


def test_completion_by_tab(opened):
    notebook = opened("weight_of_things = 1; weight_of_cats = 2\nprint('set')", "")
    notebook.run(0)
    notebook.shown(0, "set")
    offered = notebook.complete(1, "weight_")
    offered.filter(has_text="weight_of_things").wait_for()
    offered.filter(has_text="weight_of_cats").click()
    notebook.write(1, " * 21")
    notebook.run(1)
    notebook.shown(1, "42")


def test_tooltip_by_shift_tab(opened):
    code = "def area(width: float, height: float = 2):\n    'Of a rectangle.'\nprint('set')"
    notebook = opened(code, "")
    notebook.run(0)
    notebook.shown(0, "set")
    notebook.write(1, "area(")
    notebook.page.keyboard.press("Shift+Tab")
    tooltip = notebook.page.locator(".jp-Tooltip")
    tooltip.wait_for()
    assert "area(width: float, height: float = 2)" in tooltip.inner_text()
    assert "Of a rectangle." in tooltip.inner_text()


def drag(notebook, number):
    """Move the slider that a cell shows. Returns its new value, as the page shows it."""
    handle = notebook.cell(number).locator(".noUi-handle")
    handle.wait_for()
    notebook.wait_idle()
    box = handle.bounding_box()
    mouse = notebook.page.mouse
    mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    mouse.down()
    mouse.move(box["x"] + 90, box["y"] + box["height"] / 2, steps=5)
    mouse.up()
    moved = notebook.cell(number).locator(".widget-readout").inner_text()
    assert int(moved) > 0
    return moved


@pytest.mark.parametrize(
    "head",
    effort.core(["", RECORD_IN_PROCESS, RECORD_APART], [RECORD_IN_PROCESS]),
    ids=["plain", "in-process", "isolated"],
)
def test_widgets(opened, head):
    pytest.importorskip("ipywidgets")
    notebook = opened(
        head + "import ipywidgets\n"
        "slider = ipywidgets.IntSlider(description='moved')\n"
        "seen = []\n"
        "slider.observe(lambda change: seen.append(change.new), 'value')\n"
        "slider",
        "slider.value, seen[-1:]",
    )
    notebook.run(0)
    moved = drag(notebook, 0)
    notebook.run(1)
    notebook.shown(1, f"({moved}, [{moved}])")


def test_input(opened):
    notebook = opened(*both("name = input('Name? ')\nprint('Hello', name)"))
    for number, name in enumerate(("Ada", "Grace")):
        notebook.run(number)
        box = notebook.cell(number).locator(".jp-Stdin-input")
        box.fill(name)
        box.press("Enter")
        notebook.shown(number, f"Hello {name}")


def test_interrupt_button(opened):
    notebook = opened(
        *both("import time\nprint('begun')\ntime.sleep(600)\nprint('not reached')"), "print('on')"
    )
    for number in range(2):
        notebook.run(number)
        notebook.shown(number, "begun")
        notebook.press("notebook:interrupt-kernel")
        notebook.shown(number, "KeyboardInterrupt")
    notebook.run(2)
    notebook.shown(2, "on")


def test_a_cell_that_dies(opened):
    kill = "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)"
    notebook = opened(
        "kept = 7\nprint('set')", RECORD + kill, "print('still', kept)", kill, "6 * 7"
    )
    notebook.run(0)
    notebook.shown(0, "set")
    notebook.run(1)
    notebook.shown(1, "SIGSEGV")
    notebook.run(2)
    notebook.shown(2, "still 7")
    notebook.run(3)
    notebook.shown(3, "SIGSEGV")
    notebook.run(4)
    notebook.shown(4, "42")
    assert notebook.dialogs() == 0


def test_debugger_stops_at_breakpoints(opened):
    lines = ["total = 0", *(f"total += {step}" for step in (1, 2, 3)), "print('sum', total)"]
    notebook = opened("\n".join(lines))
    info = notebook.kernel_info()
    if not info.get("debugger") and "debugger" not in info.get("supported_features", ()):
        pytest.skip("the kernel says that it has no debugger")
    notebook.debug()
    for line in (2, 3, 4):
        notebook.breakpoint(0, line)
    notebook.run(0)
    for line in lines[1:4]:
        notebook.page.locator(".jp-DebuggerEditor-highlight", has_text=line).first.wait_for()
        notebook.page.locator("[data-command='debugger:continue']").first.click()
    notebook.shown(0, "sum 6")


def test_notebook_7(opened):
    pytest.importorskip("notebook")
    notebook = opened(*both("print('shown', 6 * 7)"), "%trace", view="notebook")
    notebook.run_all()
    notebook.shown(0, "shown 42")
    notebook.shown(1, "shown 42")
    notebook.shown(1, "Instrumentation results can be found in")
    views = notebook.cell(2).locator(".views")
    views.locator("canvas.flame").wait_for()
    views.get_by_role("tab", name="Table").click()
    views.locator("tbody tr", has_text="In[2]").first.wait_for()
    views.get_by_role("tab", name="Timeline").click()
