"""The oracle itself: what it reads, what it compares, and when it fails."""

import pytest
from differential import compare, inventions, kernels, known, modes, notebooks, random_objects

TEXT = """about these
=== first loose needs=json core=clean
a comment
# %%
x = 1
# %% plain
print(x)
# %% again

=== second
# %%
%%time
"""


def test_notebooks_are_read():
    first, second = notebooks.read_text(TEXT)
    plain = notebooks.Cell("print(x)", plain=True)
    assert first.cells == (notebooks.Cell("x = 1"), plain, plain)
    assert (first.words, first.needs, first.missing) == ({"loose"}, ("json",), None)
    assert (first.core, second.core) == ("clean", "")
    assert second.cells == (notebooks.Cell("%%time"),)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tight\n# %%\npass", "unknown words"),
        ("cores=plain\n# %%\npass", "unknown words"),
        ("\npass", "no cells"),
        ("\n# %% again", "a cell marked 'again'"),
        ("\n# %%\npass\n# %% again\nmore", "a cell marked 'again'"),
    ],
)
def test_a_notebook_that_cannot_be_read_is_an_error(text, said):
    with pytest.raises(ValueError, match=f"place: third: .*{said}"):
        notebooks.read_text(f"=== third {text}", "place")


def test_modes_put_heads_before_cells():
    turns = modes.parse("turns=plain;%%isolated --run=isolated;HOLDFAST_X=1")
    heads = [turns.head("any", number) for number in (1, 2, 3)]
    assert heads == [modes.PLAIN, "%%isolated --run=isolated\n", modes.PLAIN]
    assert turns.environment == {"HOLDFAST_X": "1"}
    mixed = modes.MODES["mixed"]
    assert len({mixed.head("any", number) for number in range(20)}) == len(mixed.heads)
    with pytest.raises(ValueError):
        modes.parse("nothing=")


def message(kind, metadata=None, **content):
    return {"msg_type": kind, "content": content, "metadata": metadata or {}}


def run(*cells, trouble=""):
    return kernels.Run([list(cell) for cell in cells], "/tmp/place", trouble)


def printed(text, name="stdout"):
    return message("stream", name=name, text=text)


def test_outputs_without_what_is_holdfasts_own():
    shown = message("execute_result", data={"text/plain": "5", "image/png": "x"}, execution_count=3)
    cell = [
        printed("a"),
        printed("b in /tmp/place\n"),
        printed("late", "stderr"),
        message("display_data", data={"text/plain": "1 ms"}, metadata={"holdfast": "summary"}),
        shown,
        printed("\nInstrumentation results can be found in /x\n"),
    ]
    assert compare.outputs(cell, run(cell)) == [
        "[stdout]\nab in /PLACE",
        "[execute_result 3]\nimage/png: a picture\ntext/plain: 5",
        "[stderr]\nlate",
    ]


def test_a_hidden_word_hides_and_nothing_else_does():
    cell = [printed("<A at 0x7f00aabbccdd>")]
    assert compare.outputs(cell, run(cell)) == ["[stdout]\n<A at 0x7f00aabbccdd>"]
    hidden = compare.outputs(cell, run(cell), frozenset({"addresses"}))
    assert hidden == ["[stdout]\n<A at 0xADDRESS>"]


def test_messages_to_widgets_are_compared_if_a_word_says_so():
    cell = [message("comm_open", target_name="jupyter.widget"), message("comm_msg", data={})]
    assert compare.outputs(cell, run(cell)) == []
    shown = ["[comm_open]\njupyter.widget", "[comm_msg]\nto a widget"]
    assert compare.outputs(cell, run(cell), frozenset({"comms"})) == shown


def test_cells_that_differ_are_found_also_after_a_death():
    notebook = notebooks.read_text("=== n\n# %%\n1\n# %%\n2\n# %%\n3")[0]
    expected = run([printed("1")], [printed("2")], [printed("3")])
    assert compare.differing(notebook, expected, expected) == {}
    other = run([printed("1")], [printed("two")], [printed("3")])
    assert list(compare.differing(notebook, expected, other)) == [2]
    dead = run([printed("1")], trouble="the kernel ended")
    found = compare.differing(notebook, expected, dead)
    assert list(found) == [2] and "the kernel ended" in found[2]


def test_what_is_listed_as_named_has_to_be(tmp_path):
    path = tmp_path / "list"
    path.write_text("documented | clean | n 2,3 | 3, 4: named")
    entries = known.read(path)
    silent, named = "+False", "+holdfast: not carried out of this cell: x (generator)"
    assert known.trouble(entries, "n", "clean", {2: named, 3: silent}) == ""
    assert "nothing names it" in known.trouble(entries, "n", "clean", {2: silent, 3: named})


LIST = """# a comment
documented | unrecorded clean | n 2,3 | 4: a generator
defect | recorded | n | item 5
unsteady | plain | n | a race
"""


@pytest.mark.parametrize(
    "mode, cells, expected",
    [
        ("unrecorded", [2, 3], ""),
        ("unrecorded", [2], "but equal: cells [3]"),
        ("unrecorded", [2, 3, 4], "unrecorded, cell 4"),
        ("recorded", [1], ""),
        ("recorded", [], "take it off the list"),
        ("plain", [], ""),
        ("plain", [1], ""),
        ("reversed", [], ""),
        ("reversed", [1], "reversed, cell 1"),
    ],
)
def test_what_is_as_listed(tmp_path, mode, cells, expected):
    path = tmp_path / "list"
    path.write_text(LIST)
    trouble = known.trouble(known.read(path), "n", mode, {cell: "a diff" for cell in cells})
    assert expected in trouble and bool(expected) == bool(trouble)


def test_the_list_is_written_anew(tmp_path):
    path = tmp_path / "list"
    path.write_text(LIST)
    named = "NameError: it can't be carried out of that"
    outcomes = {"unrecorded": {}, "recorded": {1: "x"}, "reversed": {2: named}, "mixed": {2: "y"}}
    known.write(path, known.revised(known.read(path), "n", outcomes))
    assert path.read_text().splitlines() == [
        "# a comment",
        "",
        "defect | mixed | n | new",
        "defect | recorded | n | item 5",
        "unsteady | plain | n | a race",
        "documented | reversed | n 2 | 3, 4: named",
        "documented | clean | n 2,3 | 4: a generator",
    ]
    rows = known.documented("| 3 | one |\n| 4 | other |\n| a | third |")
    assert rows == {"3", "4", "a", "fork", "named"}
    with pytest.raises(ValueError, match="there is no notebook n"):
        known.check(known.read(path), {"m"}, set(modes.MODES), rows)
    with pytest.raises(ValueError, match="no modes"):
        known.check(known.read(path), {"n"}, {"plain"}, rows)
    with pytest.raises(ValueError, match="isn't documented"):
        known.check(known.read(path), {"n"}, set(modes.MODES), {"3"})


def test_random_notebooks_are_the_same_each_time_and_compile():
    for make in (inventions.notebook, random_objects.objects, random_objects.tensors):
        for seed in range(50):
            notebook = make(seed)
            assert notebook == make(seed)
            for cell in notebook.cells:
                compile(cell.code, notebook.name, "exec")
