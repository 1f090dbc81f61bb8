"""Attributes that cells set on modules are there in the next, whichever process it has."""

import pytest

pytestmark = pytest.mark.fresh

RECORD = "%%execute_with_scorep\n"


def test_attributes_of_modules_cross_in_both_directions(isolated_kernel):
    def shown(code, head=""):  # without a result, which would be carried, too
        return isolated_kernel.run(f"{head}print({code})").stream().splitlines()[0]

    run = isolated_kernel.run
    run(
        "import json, math, textwrap, pandas as pd\njson.mark = kept = [1]\n"
        "def top(self, n=2): return self.head(n)\npd.DataFrame.top = top"
    )
    asked = "json.mark.append(2) or json.mark is kept, len(pd.DataFrame({'a': [1] * 5}).top())"
    assert shown(asked, RECORD) == "True 2"
    run(
        RECORD + "math.tau = 6; original = textwrap.fill\n"
        "def fill(text): return original(text) + '!'\ntextwrap.fill = fill"
    )
    asked = "json.mark, kept is json.mark, math.tau, textwrap.fill('a')"
    assert shown(asked) == "[1, 2] True 6 a!"
    for head in ("", RECORD):  # they aren't among the names that code sees
        assert shown("[name for name in globals() if not name.isidentifier()]", head) == "[]"
    run("kept.append(3); del json.mark; textwrap.fill = original")
    asked = "hasattr(json, 'mark'), kept, textwrap.fill is original"
    assert shown(asked, RECORD) == "False [1, 2, 3] True"
    run("%holdfast undo")  # to before json.mark was deleted
    assert shown("json.mark, textwrap.fill('a'), math.tau") == "[1, 2] a! 6"


def test_an_attribute_that_no_codec_carries_is_named(isolated_kernel):
    outcome = isolated_kernel.run(RECORD + "import json; json.steps = (i for i in range(3))")
    assert "json:steps" in outcome.stream("stderr") and "generator" in outcome.stream("stderr")


ISOLATED = "%%isolated\n"


def test_a_module_that_nothing_else_imports(isolated_kernel, tmp_path):
    """Whether the fork server has it in time makes no difference, nor that it never will."""
    shown = "print(colorsys.rgb_to_hsv(1, 2, 3), own.work())"
    with open(tmp_path / "own.py", "w") as file:
        file.write("def work(): return 'original'\n")
    isolated_kernel.run(
        "import colorsys; colorsys.rgb_to_hsv = lambda r, g, b: 'mine'\n"
        "import own; own.work = lambda: 'mine'"
    )
    assert isolated_kernel.run(ISOLATED + shown).stream() == "mine mine\n"
    again = "import colorsys as c, own as o; print(c.rgb_to_hsv(1, 2, 3), o.work())"
    assert isolated_kernel.run(ISOLATED + again).stream() == "mine mine\n"
    assert isolated_kernel.run(shown).stream() == "mine mine\n"


def test_a_cell_undoes_a_patch(isolated_kernel, tmp_path):
    with open(tmp_path / "own.py", "w") as file:
        file.write("x = 1\ndef work(): return 'original'\n")
    isolated_kernel.run(
        "import colorsys, own\noriginal, work = colorsys.rgb_to_hsv, own.work\n"
        "colorsys.rgb_to_hsv = own.work = lambda *_: 'mine'\nown.x, own.y = 2, 3"
    )
    isolated_kernel.run(
        ISOLATED + "colorsys.rgb_to_hsv, own.work = original, work; own.x = 1; del own.y"
    )
    shown = (
        "print(colorsys.rgb_to_hsv is original, own.work is work, own.work(), own.x, "
        "hasattr(own, 'y'))"
    )
    assert isolated_kernel.run(shown).stream() == "True True original 1 False\n"
    assert isolated_kernel.run(ISOLATED + shown).stream() == "True True original 1 False\n"


def test_a_forked_cell_takes_back_what_isnt_carried(kernel):
    kernel.run(
        "import colorsys, threading; was = colorsys.rgb_to_hsv\n"
        "class Mine:\n"
        "    def __init__(self): self.lock = threading.Lock()\n"
        "    def __call__(self, *values): return 'mine'\n"
        "colorsys.rgb_to_hsv = Mine()"
    )
    assert kernel.run("%%isolated --run=forked\ncolorsys.rgb_to_hsv(1, 1, 1)").result == "'mine'"
    kernel.run("%%isolated --run=forked\ncolorsys.rgb_to_hsv = was")
    assert kernel.run("colorsys.rgb_to_hsv is was").result == "True"
