"""An output carries its data whole, packed, and nothing in it can be read as HTML."""

import base64
import gzip
import json
import math
import re
import struct
from array import array
from pathlib import Path
from typing import NotRequired, get_origin, get_type_hints

import pytest

from holdfast.pages import columns, page, schema

SCHEMA = Path(__file__).resolve().parent.parent.parent / "web/schema/views.json"
BEGIN = 5_000_000_000_123
HOSTILE = "</script><img src=x onerror=alert(1)>"


def example(**more):
    regions = {"name": ["main", HOSTILE], "file": ["", "x.py"], "line": [1, 2], "cell": [3, 0]}
    table = {
        "region": [0, 1],
        "visits": [1, 70_000],
        "inclusive": [9000, 8000],
        "exclusive": [1000, 8000],
    }
    return {
        "title": HOSTILE,
        "begin": BEGIN,
        "end": BEGIN + 10_000,
        "facts": [["wall time", "10 µs"]],
        "cells": [{"index": 3, "begin": BEGIN + 10, "end": None, "source": "main()"}],
        "tracks": [
            {
                "name": "CPU",
                "unit": "%",
                "time": array("q", [BEGIN - 5, BEGIN, BEGIN + 9000]),
                "series": [{"name": "all", "values": array("d", [0.5, math.nan, 99.25])}],
            }
        ],
        "regions": regions,
        "locations": [
            {
                "process": "p",
                "thread": "t",
                "begin": [BEGIN, BEGIN + 300],
                "duration": [9000, 8000],
                "depth": [0, 1],
                "region": [0, 1],
                "count": [1, 70_000],
            }
        ],
        "paths": [
            {
                "name": "all",
                "depth": [0, 1],
                "region": [0, 1],
                "visits": [1, 70_000],
                "inclusive": [9000, 8000],
            }
        ],
        "table": table,
        "previous": {"title": "before", "table": {**table, "visits": [1, 2]}},
        **more,
    }


def unpacked(data):
    """What web/src/columns.js does, by itself."""
    length = int.from_bytes(data[:4], "little")
    body = data[4 + length :]

    def column(value):
        if "$" not in value:
            return value
        offset, count, planes, kind = value["$"]
        part = body[offset : offset + count * planes]
        rows = [bytes(part[plane * count + at] for plane in range(planes)) for at in range(count)]
        if kind == "float":
            return [struct.unpack("<f", row)[0] for row in rows]
        numbers = [int.from_bytes(row, "little") for row in rows]
        if kind == "int":
            return numbers
        sums, total = [], 0
        for number in numbers:
            total += -(number + 1) // 2 if number % 2 else number // 2
            sums.append(total)
        return sums

    return json.loads(data[4 : 4 + length], object_hook=column)


def listed(value):
    """The same data with lists for columns, as JSON Schema knows them."""
    if isinstance(value, dict):
        return {name: listed(one) for name, one in value.items()}
    return list(map(listed, value)) if isinstance(value, (list, array)) else value


def test_the_example_is_as_the_schema_says():
    jsonschema = pytest.importorskip("jsonschema")
    rules = json.loads(SCHEMA.read_text("utf-8"))
    jsonschema.Draft202012Validator.check_schema(rules)
    jsonschema.validate(listed(example()), rules)
    wrong = example(tracks=[{"name": "CPU", "time": [0]}])
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(listed(wrong), rules)


def test_types_are_as_the_schema_says():
    rules = json.loads(SCHEMA.read_text("utf-8"))
    parts = rules["properties"]
    track = parts["tracks"]["items"]
    source_file = parts["source"]["properties"]["files"]["items"]
    source_parts = source_file["properties"]
    for kind, rule in (
        (schema.View, rules),
        (schema.Cell, parts["cells"]["items"]),
        (schema.Track, track),
        (schema.Series, track["properties"]["series"]["items"]),
        (schema.Regions, parts["regions"]),
        (schema.Location, parts["locations"]["items"]),
        (schema.NamedTree, parts["paths"]["items"]),
        (schema.Table, rules["$defs"]["table"]),
        (schema.Previous, parts["previous"]),
        (schema.Repeats, parts["repeats"]),
        (schema.Repeated, parts["repeats"]["properties"]["functions"]["items"]),
        (schema.Spread, rules["$defs"]["spread"]),
        (schema.Source, parts["source"]),
        (schema.SourceFile, source_file),
        (schema.SourceFunction, source_parts["functions"]["items"]),
        (schema.SourceLines, source_parts["lines"]),
    ):
        named = get_type_hints(kind, include_extras=True)
        needed = {name for name, hint in named.items() if get_origin(hint) is not NotRequired}
        assert (kind, set(named)) == (kind, set(rule["properties"]))
        assert (kind, needed) == (kind, set(rule["required"]))


def test_what_is_packed_comes_back():
    done = unpacked(columns.pack(example()))
    (track,) = done["tracks"]
    assert track["time"] == [-5, 0, 9000], "relative to begin, before it too"
    low, gap, high = track["series"][0]["values"]
    assert (low, high) == (0.5, 99.25) and math.isnan(gap)
    (location,) = done["locations"]
    assert location["begin"] == [0, 300] and location["count"] == [1, 70_000]
    assert done["table"]["visits"] == [1, 70_000]
    assert done["previous"]["table"]["visits"] == [1, 2]
    assert (done["begin"], done["end"]) == (0, 10_000)
    assert done["cells"][0]["begin"] == 10 and done["cells"][0]["end"] is None


def test_numbers_of_any_size_and_none_at_all():
    large = [0, 255, 256, 2**40, 2**53]
    packer = columns.Packer()
    reference = packer.integers(large)
    assert unpacked(packer.bytes({"x": reference}))["x"] == large
    packer = columns.Packer()
    assert unpacked(packer.bytes({"x": packer.deltas([], BEGIN)}))["x"] == []
    with pytest.raises(ValueError, match="negative"):
        columns.Packer().integers([1, -1])


def test_columns_of_numpy_are_those_of_lists():
    numpy = pytest.importorskip("numpy")
    data = example()
    (location,) = data["locations"]
    data["locations"] = [{**location, "begin": numpy.array(location["begin"], numpy.int64)}]
    assert columns.pack(data) == columns.pack(example())


def test_the_input_stays_as_it_was():
    data = example()
    before = repr(data)
    page.bundle(data)
    assert repr(data) == before


def test_nothing_hostile_is_html():
    done = page.bundle(example())
    assert HOSTILE not in done["text/html"] and "<img src=x" not in done["text/html"]
    assert "<img src=x" not in done["image/svg+xml"]
    assert done["text/html"].count("</script>") == 3, "the program, the data, the loader"


def test_the_program_is_there_and_has_the_data():
    assert page.is_built(), "the build had no npm"
    text = page.bundle(example(), "flame")["text/html"]
    (program,) = re.findall(r'x-holdfast-bundle">([^<]*)<', text)
    assert b"flame" in gzip.decompress(base64.b64decode(program))
    (data,) = re.findall(r'x-holdfast-data">([^<]*)<', text)
    version, action, key, packed = data.split("\n")
    assert (len(version), action, key) == (12, "draw", "")
    assert unpacked(gzip.decompress(base64.b64decode(packed)))["view"] == "flame"
    assert len(text) < 120_000, "the whole output"


def test_what_is_appended_is_small_and_has_the_plots_begin():
    samples = {"end": BEGIN + 20_000, "tracks": example()["tracks"]}
    text = page.append(samples, "plot-1", BEGIN)
    assert "x-holdfast-bundle" not in text and len(text) < 2000
    with pytest.raises(ValueError, match="key"):
        page.append(samples, "</script>", BEGIN)
