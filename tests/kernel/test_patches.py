"""Attributes that cells set on modules are there in the next, whichever process it has."""

RECORD = "%%execute_with_scorep\n"


def test_attributes_of_modules_cross_in_both_directions(map_kernel):
    def shown(code, head=""):  # without a result, which would be carried, too
        return map_kernel.run(f"{head}print({code})").stream().splitlines()[0]

    run = map_kernel.run
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


def test_an_attribute_that_no_codec_carries_is_named(map_kernel):
    outcome = map_kernel.run(RECORD + "import json; json.steps = (i for i in range(3))")
    assert "json:steps" in outcome.stream("stderr") and "generator" in outcome.stream("stderr")
