"""Long texts in messages: the same bytes as the json module's."""

import json
import random

import pytest

_store = pytest.importorskip("holdfast._store")


def dumps(value):
    return json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf8", "surrogateescape")


def test_each_character_at_each_place():
    for code in [*range(256), 0x2028, 0xFFFF, 0x1F600]:
        for before in (0, 1, 7, 8, 13):
            text = "x" * before + chr(code) + "yz" * before
            assert _store._json_text(text) == dumps(text), (code, before)
    assert _store._json_text("") == b'""'


def test_any_text():
    draw = random.Random(5)
    for alphabet in ('ab"', "a\\\n\r\t\b\f\x00\x1f ", 'aé€😀"', "abcdefghij"):
        for size in (1, 15, 16, 17, 4096):
            text = "".join(draw.choices(alphabet, k=size))
            assert _store._json_text(text) == dumps(text)


def test_no_text():
    with pytest.raises(UnicodeEncodeError):
        _store._json_text("a\ud800")
    with pytest.raises(TypeError):
        _store._json_text(b"a")
