"""Long texts in messages: the same bytes as the json module's."""

import json
import random

import pytest

_store = pytest.importorskip("holdfast._store")


def json_text(text):
    return _store._json_join([b"", b""], [text])


def dumps(value):
    return json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf8", "surrogateescape")


def test_each_character_at_each_place():
    for code in [*range(256), 0x2028, 0xFFFF, 0x1F600]:
        for before in (0, 1, 7, 8, 13):
            text = "x" * before + chr(code) + "yz" * before
            assert json_text(text) == dumps(text), (code, before)
    assert json_text("") == b'""'


def test_any_text():
    draw = random.Random(5)
    for alphabet in ('ab"', "a\\\n\r\t\b\f\x00\x1f ", 'aé€😀"', "abcdefghij"):
        for size in (1, 15, 16, 17, 4096):
            text = "".join(draw.choices(alphabet, k=size))
            assert json_text(text) == dumps(text)


def test_no_text():
    with pytest.raises(UnicodeEncodeError):
        json_text("a\ud800")
    with pytest.raises(TypeError):
        json_text(b"a")


def test_texts_between_parts():
    parts = [b'{"a": ', b', "b": ', b"}"]
    assert _store._json_join(parts, ['é"', ""]) == '{"a": "é\\"", "b": ""}'.encode()
    for wrong in ([b""], [b"", b"", b""], [b"", "x"]):
        with pytest.raises(ValueError, match="before and after"):
            _store._json_join(wrong, ["a"])
