"""%holdfast memory: its columns and totals, of values whose sizes are known."""

import re
import types

import pytest

from holdfast.commands import memory
from holdfast.commands.weights import Weight

MIB = 1 << 20
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def size(text):
    number, unit = re.fullmatch(r"(-?[\d.]+) (\w+)", text).groups()
    return float(number) * UNITS[unit]


def test_the_store_counts_a_group_once():
    rows = [
        {"name": "\0g1", "bytes": 2048},
        {"name": "b", "bytes": 0, "where": "\0g1"},
        {"name": "a", "bytes": 0, "where": "\0g1"},
        {"name": "c", "bytes": 100, "where": None},
        {"name": "_hidden", "bytes": 7, "where": None},
    ]
    assert memory._stored(rows, ["a", "b", "c", "new"]) == {"a": 2048, "b": 0, "c": 100}


def test_the_row_of_a_value_that_was_cut_off_says_so():
    weights = {"x": Weight(objects=2048, resident=None, is_whole=False)}
    row = memory._row("x", {"x": []}, weights, {}, {"x": list("abcdef")})
    assert row == ("x", "list", "> 2.0 KiB", "-", "", "", "-", "with a, b, c, d and 2 more")
    assert memory._total(["x"], weights, {})[2:4] == ("> 2.0 KiB", "-")


def test_a_second_name_of_an_object_says_where_it_counts():
    names = {"alias": (one := [1]), "big": one}
    weights = {"alias": Weight(objects=2048), "big": Weight()}
    shares = {"alias": ["big"], "big": ["alias"]}
    rows = {name: memory._row(name, names, weights, {}, shares, list(names)) for name in names}
    assert rows["alias"][2] == "2.0 KiB" and rows["big"][2:4] == ("in alias", "")
    listing = [{"name": name, "bytes": 0, "where": "group"} for name in names]
    listing.append({"name": "group", "bytes": 7})
    assert memory._stored(listing, ["big", "alias"]) == {"big": 7, "alias": 0}


def test_parts_of_the_store_add_up():
    info = {"committed_bytes": 500, "allocated_bytes": 1000, "reserved_bytes": 150}
    info |= {"retired_bytes": 0, "free_bytes": 70}
    worker = types.SimpleNamespace(
        session=types.SimpleNamespace(info=lambda: info),
        names=types.SimpleNamespace(listing=lambda: [{"bytes": 300}, {"bytes": 50}]),
    )
    first, second = memory._store_lines(worker, {"a": 300})
    parts = [int(n) for n in re.findall(r"(\d+) B", first)]
    assert parts == [500, 300, 50, 150]
    assert [int(n) for n in re.findall(r"(\d+) B", second)] == [1000, 150, 70, 280]


def test_html_shows_names_as_they_are():
    table = memory.Table(("name",), [("<b>x</b>",)], range(0))
    shown = memory.Shown([table, "", "a < b"]).bundle()
    assert "<b>" not in shown["text/html"] and "&lt;b&gt;x" in shown["text/html"]
    assert "<b>x</b>" in shown["text/plain"] and "a < b" in shown["text/plain"]


# ---- in a kernel


def shown(outcome):
    (display,) = [m["content"] for m in outcome.messages if m["msg_type"] == "display_data"]
    text = display["data"]["text/plain"]
    rows = {}
    for line in text.splitlines()[1:]:
        if not line:
            break
        rows[line.split()[0]] = line
    return text, rows, display["data"]["text/html"]


def numbers(line):
    return [size(" ".join(pair)) for pair in re.findall(r"([\d.]+) (B|KiB|MiB|GiB)\b", line)]


def test_known_sizes_in_a_kernel(start_kernel):
    pytest.importorskip("numpy")
    kernel = start_kernel()
    code = (
        "import numpy as np\na = np.ones(1 << 20); b = a[10:]\nheap = bytearray(b'1' * (5 << 20))"
    )
    # In one cell: after it the notebook may be idle, and is committed then.
    text, rows, page = shown(kernel.run(f"{code}\n%holdfast memory"))
    assert numbers(rows["a"]) == [8 * MIB] * 3, "size, resident, in the arena"
    assert rows["a"].endswith("with b") and rows["b"].endswith("with a")
    assert numbers(rows["heap"]) == [5 * MIB] * 2, "not in the arena"
    assert sum(numbers(rows["b"])) < 500
    total = numbers(rows["together"])
    assert total[0] == pytest.approx(13 * MIB, rel=0.01) and "3 variables" in rows["together"]
    assert "np" not in rows and "<table>" in page
    process = re.search(r"This process has (.*?) resident: (.*?) of these .*?, and (.*?) of ", text)
    whole, own, rest = map(size, process.groups())
    assert own == total[1] and whole == pytest.approx(own + rest, abs=0.11 * MIB)

    # Saved, and then written again: what was copied is one page.
    kernel.run("%%execute_with_scorep --run=isolated\nn = int(a[0])")
    text, rows, _ = shown(kernel.run("a[0] = 5\n%holdfast memory"))
    a = numbers(rows["a"])
    assert a[0] == a[-1] == 8 * MIB and 4096 in a, "of a page there is an own copy"
    assert numbers(rows["heap"])[-1] == pytest.approx(5 * MIB, rel=0.01)
    store = re.search(r"The store has (\S+ \S+) committed: (.*)\.$", text, re.M)
    parts = numbers(store[2])
    assert size(store[1]) == pytest.approx(sum(parts), abs=0.15 * MIB)
    assert parts[0] == pytest.approx(numbers(rows["together"])[-1], abs=0.06 * MIB)

    # What it shares with a name that isn't asked for is its own.
    kernel.run("aaa = heap")
    for words, row in (("heap", "heap"), ("heap aaa", "heap"), ("", "aaa")):
        _, rows, _ = shown(kernel.run(f"%holdfast memory {words}"))
        assert numbers(rows[row])[0] == 5 * MIB, words
    assert " in aaa " in rows["heap"]
    kernel.run("del aaa")
    only, rows, _ = shown(kernel.run("%holdfast memory heap"))
    assert list(rows) == ["heap", "together"] and "This process" not in only
    said = kernel.run("%holdfast memory nothing").messages
    told = [m["content"]["data"] for m in said if m["msg_type"] == "display_data"]
    assert told[0]["text/plain"] == "No such variable: nothing."


def test_the_peak_of_each_cell(start_kernel):
    kernel = start_kernel()
    kernel.run("x = 1")
    kernel.run("held = bytearray(b'1' * (64 << 20)); del held")
    text, _, _ = shown(kernel.run("%holdfast memory"))
    first, second = re.findall(r"^\[[12]\] .*$", text, re.M)
    begin, peak, grown = numbers(second)
    assert begin + 60 * MIB < peak < begin + 140 * MIB
    assert grown < 40 * MIB and "held = bytearray" in second
    assert numbers(first)[1] < begin + 20 * MIB


def test_in_a_recorded_cell_a_page_that_it_wrote_is_its_own(start_kernel):
    pytest.importorskip("numpy")
    kernel = start_kernel()
    kernel.run("import numpy as np\na = np.ones(1 << 20)")
    cell = "%%execute_with_scorep --run=in-process\na[0] = 3\n%holdfast memory a"
    (text,) = [
        m["content"]["data"]["text/plain"]
        for m in kernel.run(cell).messages
        if "together" in m["content"].get("data", {}).get("text/plain", "")
    ]
    row = next(line for line in text.splitlines() if line.startswith("a "))
    whole, _, arena, copied = numbers(row)
    assert (whole, copied) == (8 * MIB, 4096) and arena == pytest.approx(8 * MIB, abs=0.1 * MIB)


def test_an_empty_notebook(start_kernel):
    (display,) = [
        m["content"]["data"]["text/plain"]
        for m in start_kernel().run("%holdfast memory").messages
        if m["msg_type"] == "display_data"
    ]
    assert display.startswith("There are no variables.")
